-- Lists of runs over all buckets. A list is merged from *streams*: a stream is the runs of one version in one state, with
-- one class of failure, and stands together in an index in the order of the list. How many streams there can be is known
-- from `definitions`; only as many as a page has runs can contribute to a page, namely those whose first runs come first.
-- So a page costs a look-up per stream, and about a page of rows of each stream that contributes, however many runs there
-- are.

-- name: find_by_creation
-- A page of runs, latest start first, behind ($6, $7); none that was created before $8.
WITH heads AS MATERIALIZED (
    SELECT d.workflow, d.version, s.state, s.failure_class
    FROM definitions AS d
    CROSS JOIN unnest($4::text[], $5::text[]) AS s (state, failure_class)
    CROSS JOIN LATERAL (
        SELECT created_at, run_id
        FROM runs
        WHERE namespace = $1 AND workflow = d.workflow AND version = d.version AND state = s.state
          AND failure_class = s.failure_class AND (created_at, run_id) < ($6, $7) AND created_at >= $8
        ORDER BY created_at DESC, run_id DESC
        LIMIT 1
    ) AS h
    WHERE d.namespace = $1 AND ($2 = '' OR d.workflow = $2) AND ($3::integer = 0 OR d.version = $3)
    ORDER BY h.created_at DESC, h.run_id DESC
    LIMIT $9
)
SELECT r.run_id, r.created_at AS at
FROM heads AS h
CROSS JOIN LATERAL (
    SELECT created_at, run_id
    FROM runs
    WHERE namespace = $1 AND workflow = h.workflow AND version = h.version AND state = h.state
      AND failure_class = h.failure_class AND (created_at, run_id) < ($6, $7) AND created_at >= $8
    ORDER BY created_at DESC, run_id DESC
    LIMIT $9
) AS r
ORDER BY r.created_at DESC, r.run_id DESC
LIMIT $9;

-- name: find_by_end
-- A page of finished runs, latest end first, behind ($6, $7); none that ended before $8.
WITH heads AS MATERIALIZED (
    SELECT d.workflow, d.version, s.state, s.failure_class
    FROM definitions AS d
    CROSS JOIN unnest($4::text[], $5::text[]) AS s (state, failure_class)
    CROSS JOIN LATERAL (
        SELECT finished_at, run_id
        FROM runs
        WHERE namespace = $1 AND workflow = d.workflow AND version = d.version AND state = s.state
          AND failure_class = s.failure_class AND (finished_at, run_id) < ($6, $7) AND finished_at >= $8
        ORDER BY finished_at DESC, run_id DESC
        LIMIT 1
    ) AS h
    WHERE d.namespace = $1 AND ($2 = '' OR d.workflow = $2) AND ($3::integer = 0 OR d.version = $3)
    ORDER BY h.finished_at DESC, h.run_id DESC
    LIMIT $9
)
SELECT r.run_id, r.finished_at AS at
FROM heads AS h
CROSS JOIN LATERAL (
    SELECT finished_at, run_id
    FROM runs
    WHERE namespace = $1 AND workflow = h.workflow AND version = h.version AND state = h.state
      AND failure_class = h.failure_class AND (finished_at, run_id) < ($6, $7) AND finished_at >= $8
    ORDER BY finished_at DESC, run_id DESC
    LIMIT $9
) AS r
ORDER BY r.finished_at DESC, r.run_id DESC
LIMIT $9;

-- name: find_paused
-- A page of paused runs, latest start first, behind ($2, $3); none that was created before $4.
SELECT run_id, created_at AS at
FROM runs
WHERE namespace = $1 AND paused_at IS NOT NULL AND (created_at, run_id) < ($2, $3) AND created_at >= $4
ORDER BY created_at DESC, run_id DESC
LIMIT $5;

-- name: find_by_label
-- A page of runs that have a label, latest start first, behind ($4, $5); none that was created before $6.
SELECT run_id, created_at AS at
FROM run_labels
WHERE namespace = $1 AND name = $2 AND value = $3 AND (created_at, run_id) < ($4, $5) AND created_at >= $6
ORDER BY created_at DESC, run_id DESC
LIMIT $7;

-- name: find_by_key
-- A page of keyed runs in the order of their keys, behind $2, of the keys from $3 to below $4: a stream for each of the
-- keys' buckets.
WITH heads AS MATERIALIZED (
    SELECT b.bucket
    FROM generate_series(0, $5::integer) AS b (bucket)
    CROSS JOIN LATERAL (
        SELECT key
        FROM start_keys
        WHERE bucket = b.bucket::smallint AND namespace = $1 AND key > $2 AND key >= $3 AND key < $4
        ORDER BY key
        LIMIT 1
    ) AS h
    ORDER BY h.key
    LIMIT $6
)
SELECT k.run_id, k.key
FROM heads AS h
CROSS JOIN LATERAL (
    SELECT key, run_id
    FROM start_keys
    WHERE bucket = h.bucket AND namespace = $1 AND key > $2 AND key >= $3 AND key < $4
    ORDER BY key
    LIMIT $6
) AS k
ORDER BY k.key
LIMIT $6;

-- name: match_runs
-- Which of some runs are as a filter wants them, whatever it names.
SELECT x.run_id
FROM unnest($1::smallint[], $2::uuid[]) AS x (bucket, run_id)
CROSS JOIN LATERAL (
    SELECT namespace, workflow, version, state, failure_class, created_at, finished_at, paused_at
    FROM runs
    WHERE bucket = x.bucket AND run_id = x.run_id
    LIMIT 1
) AS r
WHERE r.namespace = $3
  AND ($4 = '' OR r.workflow = $4)
  AND ($5::integer = 0 OR r.version = $5)
  AND r.state || ' ' || r.failure_class = ANY ($6::text[])
  AND r.created_at >= $7 AND r.created_at < $8
  AND ($9::timestamptz IS NULL OR r.finished_at >= $9)
  AND ($10::timestamptz IS NULL OR r.finished_at < $10)
  AND (r.paused_at IS NOT NULL OR NOT $13::boolean)
  AND (cardinality($11::text[]) = 0 OR cardinality($11) = (
      SELECT count(*)
      FROM run_labels
      WHERE bucket = x.bucket AND run_id = x.run_id AND value = ($12::text[])[array_position($11, name)]
  ));

-- name: get_listed_runs
-- Runs as a list shows them, in the order given.
SELECT r.run_id, r.namespace, r.workflow, r.version, r.state, r.epoch, r.seq, r.key, r.cancelling, r.ending, r.error,
       r.created_at, r.finished_at, r.paused_at, r.steering, r.parent, l.labels
FROM unnest($1::smallint[], $2::uuid[]) WITH ORDINALITY AS x (bucket, run_id, place)
CROSS JOIN LATERAL (
    SELECT run_id, namespace, workflow, version, state, epoch, seq, key, cancelling, ending, error, created_at, finished_at,
           paused_at, steering, parent
    FROM runs
    WHERE bucket = x.bucket AND run_id = x.run_id
    LIMIT 1
) AS r
CROSS JOIN LATERAL (
    SELECT array_agg(ARRAY[name, value] ORDER BY name) AS labels
    FROM run_labels
    WHERE bucket = x.bucket AND run_id = x.run_id
) AS l
WHERE r.namespace <> ''
ORDER BY x.place;

-- name: find_by_prefix
-- Runs of one bucket whose ids lie between two: those that begin with the same digits.
SELECT run_id
FROM runs
WHERE bucket = $1 AND run_id >= $2 AND run_id <= $3 AND namespace = $4
ORDER BY run_id
LIMIT $5;
