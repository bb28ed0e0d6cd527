-- Statements on `workers`, and what is told to those that attend.

-- name: note_workers
-- Workers that are there, and what they read: $3 are queues by line. What was not seen for an hour is forgotten.
WITH forgotten AS (
    DELETE FROM workers WHERE seen_at < now() - interval '1 hour'
)
INSERT INTO workers (namespace, owner, queues, seen_at)
SELECT x.namespace, x.owner, string_to_array(x.queues, chr(10)), now()
FROM unnest($1::text[], $2::text[], $3::text[]) AS x (namespace, owner, queues)
ORDER BY x.namespace, x.owner
ON CONFLICT (namespace, owner) DO UPDATE SET queues = EXCLUDED.queues, seen_at = EXCLUDED.seen_at, left_at = NULL
WHERE workers.seen_at < EXCLUDED.seen_at;

-- name: note_leaving
-- A worker that left, unless it was seen elsewhere since. It is told of for an hour.
UPDATE workers SET seen_at = $3, left_at = $3 WHERE namespace = $1 AND owner = $2 AND seen_at <= $3;

-- name: tell_stopping
-- Runs, and tasks (run:path), that are being stopped while somebody holds a lease: coordinators tell the holders that
-- attend. What is too long for a notification, Renew tells.
SELECT pg_notify('headway_stopping', x.stopping)
FROM unnest($1::text[]) AS x (stopping)
WHERE octet_length(x.stopping) < 8000;

-- name: get_holders
-- Who holds leases in some runs, and is to stop: with the whole run, or by himself.
SELECT t.run_id, t.path, t.attempt, t.owner
FROM tasks AS t
CROSS JOIN LATERAL (
    SELECT (cancelling OR expired OR finish_path IS NOT NULL)
               AND COALESCE(ending, 'uncompensated') = 'uncompensated' AS stops
    FROM runs
    WHERE bucket = $1 AND run_id = t.run_id
    LIMIT 1
) AS r
WHERE t.bucket = $1 AND t.run_id = ANY ($2::uuid[]) AND t.state IS NOT DISTINCT FROM 'running'
  AND (r.stops OR t.cause IS NOT NULL);

-- name: get_holders_of_tasks
-- Who holds the leases of some tasks that are to stop by themselves.
SELECT t.run_id, t.path, t.attempt, t.owner
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, path)
CROSS JOIN LATERAL (
    SELECT run_id, path, attempt, owner, state, cause
    FROM tasks
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path
    LIMIT 1
) AS t
WHERE t.state IS NOT DISTINCT FROM 'running' AND t.cause IS NOT NULL;
