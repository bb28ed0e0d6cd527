-- Statements on `children`, and on what runs hand over to each other. One bucket each.

-- name: get_latest_children
-- The latest run of each of some subflow nodes.
SELECT c.run_id, c.path, c.attempt, c.child_run_id, c.workflow, c.version, c.detached, c.created_at, c.state, c.stop
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, path)
CROSS JOIN LATERAL (
    SELECT run_id, path, attempt, child_run_id, workflow, version, detached, created_at, state, stop
    FROM children
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path
    ORDER BY attempt DESC
    LIMIT 1
) AS c;

-- name: put_children
-- Runs that were asked for, also in the place of one that was deleted, or whose end came.
INSERT INTO children (bucket, run_id, path, attempt, child_run_id, workflow, version, detached, created_at, state, stop)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::uuid[], $6::text[], $7::integer[], $8::boolean[],
    $9::timestamptz[], $10::text[], $11::text[]) AS x
ON CONFLICT (bucket, run_id, path, attempt) DO UPDATE
SET child_run_id = EXCLUDED.child_run_id, created_at = EXCLUDED.created_at, state = EXCLUDED.state, stop = EXCLUDED.stop;

-- name: get_children
-- All runs that a run's subflow nodes started, latest first, behind ($3, $4); each once, however often it was taken up.
SELECT child_run_id AS run_id, created_at AS at
FROM children AS c
WHERE bucket = $1 AND run_id = $2 AND (created_at, child_run_id) < ($3, $4)
  AND NOT EXISTS (
      SELECT FROM children
      WHERE bucket = $1 AND run_id = $2 AND path = c.path AND attempt > c.attempt AND child_run_id = c.child_run_id
  )
ORDER BY created_at DESC, child_run_id DESC
LIMIT $5;

-- name: find_ended_children
-- Runs that a retry of a run may take up: they failed or were cancelled.
SELECT DISTINCT child_run_id FROM children WHERE bucket = $1 AND run_id = $2 AND state IN ('failed', 'cancelled');

-- name: find_wanted
-- Of runs that are asked to start, those that their parents still wait for, and whether they were told to stop since.
SELECT x.run_id, c.child_run_id, c.stop
FROM unnest($2::uuid[], $3::text[], $4::bigint[]) AS x (run_id, path, attempt)
CROSS JOIN LATERAL (
    SELECT child_run_id, state, stop
    FROM children
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND attempt = x.attempt
    LIMIT 1
) AS c
WHERE c.state = 'open';

-- name: insert_handovers
-- What the relay carries to other runs once this transaction has committed.
WITH written AS (
    INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, body, trace,
                        created_at)
    SELECT $1::smallint, x.outbox_id, 'handover', x.run_id, x.namespace, '', 0, '', '', x.body, x.trace, $2
    FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::bytea[], $7::text[])
        AS x (outbox_id, run_id, namespace, body, trace)
    RETURNING 1
)
SELECT pg_notify('headway_outbox', $1::smallint::text) FROM (SELECT count(*) FROM written) AS counted;
