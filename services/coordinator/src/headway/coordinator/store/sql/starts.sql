-- Statements of a start before its run is inserted: the version that it takes, its idempotency key, and whether the run
-- is there already. They are set-wise; those on `start_keys` and `runs` name one bucket.

-- name: find_deployed
-- The versions that new runs take.
SELECT x.namespace, x.workflow, d.version
FROM unnest($1::text[], $2::text[]) AS x (namespace, workflow)
CROSS JOIN LATERAL (
    SELECT version FROM definitions WHERE namespace = x.namespace AND workflow = x.workflow AND deployed LIMIT 1
) AS d;

-- name: find_versions
-- Those of the named versions that runs may be started on.
SELECT x.namespace, x.workflow, x.version
FROM unnest($1::text[], $2::text[], $3::integer[]) AS x (namespace, workflow, version)
CROSS JOIN LATERAL (
    SELECT 1
    FROM definitions
    WHERE namespace = x.namespace AND workflow = x.workflow AND version = x.version AND deleted_at IS NULL
    LIMIT 1
) AS d;

-- name: find_to_cancel
-- The version that a run takes that is cancelled before it starts: also one that was deleted, while its plan is kept.
SELECT version
FROM definitions
WHERE namespace = $1 AND workflow = $2 AND ($3::integer IN (0, version)) AND plan <> ''
ORDER BY deployed DESC, version DESC
LIMIT 1;

-- name: claim_start_keys
-- Each key claims a ready-made run id; the run is inserted under it afterwards. Their bucket is the keys' own. In order,
-- so that two that claim the same keys do not wait for each other.
INSERT INTO start_keys (bucket, namespace, key, run_id, digest, created_at)
SELECT $1, x.namespace, x.key, x.run_id, x.digest, now()
FROM unnest($2::text[], $3::text[], $4::uuid[], $5::text[]) AS x (namespace, key, run_id, digest)
ORDER BY x.namespace, x.key
ON CONFLICT DO NOTHING
RETURNING namespace, key, run_id, digest, now() AS asked_at;

-- name: find_start_keys
-- Who claimed them before.
SELECT k.namespace, k.key, k.run_id, k.digest, now() AS asked_at
FROM unnest($2::text[], $3::text[]) AS x (namespace, key)
CROSS JOIN LATERAL (
    SELECT namespace, key, run_id, digest
    FROM start_keys
    WHERE bucket = $1 AND namespace = x.namespace AND key = x.key
    LIMIT 1
) AS k;

-- name: pass_start_key
-- A key goes from a run that is over to the one that follows it, unless it is another's by now.
UPDATE start_keys SET run_id = $5, digest = $6
WHERE bucket = $1 AND namespace = $2 AND key = $3 AND run_id = $4
RETURNING true;

-- name: find_parent
-- Whose child a run is, and since when it is over; or that it was deleted: then it is in no namespace.
SELECT namespace, parent, finished_at FROM runs WHERE bucket = $1 AND run_id = $2;

-- name: find_started
-- Runs that were started before, with what they were started with; one in no namespace was deleted.
SELECT r.run_id, r.namespace, r.workflow, r.version, r.key, r.parent, i.data AS input, l.labels
FROM unnest($2::uuid[]) AS x (run_id)
CROSS JOIN LATERAL (
    SELECT run_id, namespace, workflow, version, key, parent FROM runs WHERE bucket = $1 AND run_id = x.run_id LIMIT 1
) AS r
LEFT JOIN LATERAL (
    SELECT data
    FROM outputs
    WHERE bucket = $1 AND run_id = r.run_id AND path = '' AND attempt = 0 AND role = 'i'
    LIMIT 1
) AS i ON true
CROSS JOIN LATERAL (
    SELECT jsonb_object_agg(name, value) AS labels FROM run_labels WHERE bucket = $1 AND run_id = r.run_id
) AS l;
