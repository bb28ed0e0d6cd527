-- Deleting finished runs with all that is stored of them. One bucket each, but for the look for what has expired.

-- name: find_expired
-- Finished runs that are kept no longer, by the index on ends: of each version that says so, in each state. Without
-- those of $4, which have to stay for now.
SELECT r.run_id
FROM definitions AS d
CROSS JOIN unnest($1::text[], $2::text[]) AS s (state, failure_class)
CROSS JOIN LATERAL (
    SELECT run_id
    FROM runs
    WHERE namespace = d.namespace AND workflow = d.workflow AND version = d.version AND state = s.state
      AND failure_class = s.failure_class
      AND finished_at < now() - (d.retention ->> s.state)::bigint * interval '1 millisecond'
      AND run_id <> ALL ($4::uuid[])
    ORDER BY finished_at
    LIMIT $3
) AS r
WHERE d.retention ? s.state
LIMIT $3;

-- name: get_ends
-- Where runs stand that are to be deleted.
SELECT r.run_id, r.namespace, r.key, r.state, r.epoch, r.parent
FROM unnest($2::uuid[]) AS x (run_id)
CROSS JOIN LATERAL (
    SELECT run_id, namespace, key, state, epoch, parent FROM runs WHERE bucket = $1 AND run_id = x.run_id LIMIT 1
) AS r;

-- name: free_start_keys
-- Keys of runs that are about to be deleted. In order, as they are claimed.
DELETE FROM start_keys AS k
WHERE k.bucket = $1 AND k.namespace = $2 AND k.key = ANY ($3::text[]) AND k.run_id = ANY ($4::uuid[])
RETURNING k.namespace, k.key, k.run_id, k.digest;

-- name: lock_ended
-- Of those, the ones that are still where they were seen, locked; the others, and those locked elsewhere, are left out.
SELECT r.run_id
FROM (SELECT run_id, epoch FROM unnest($2::uuid[], $3::integer[]) AS k (run_id, epoch) ORDER BY run_id) AS x
CROSS JOIN LATERAL (
    SELECT run_id, epoch, finished_at FROM runs WHERE bucket = $1 AND run_id = x.run_id FOR UPDATE SKIP LOCKED
) AS r
WHERE r.epoch = x.epoch AND r.finished_at IS NOT NULL;

-- name: wait_for_ends
-- Which runs are there, once nobody holds them who may be deleting them.
SELECT r.run_id
FROM (SELECT run_id FROM unnest($2::uuid[]) AS k (run_id) ORDER BY run_id) AS x
CROSS JOIN LATERAL (SELECT run_id FROM runs WHERE bucket = $1 AND run_id = x.run_id FOR SHARE) AS r;

-- name: delete_runs
-- All rows of runs that are locked. What is left of them in the outbox is carried out and means nothing any more.
WITH outputs_gone AS (DELETE FROM outputs WHERE bucket = $1 AND run_id = ANY ($2::uuid[])),
tasks_gone AS (DELETE FROM tasks WHERE bucket = $1 AND run_id = ANY ($2)),
attempts_gone AS (DELETE FROM attempts WHERE bucket = $1 AND run_id = ANY ($2)),
tokens_gone AS (DELETE FROM tokens WHERE bucket = $1 AND run_id = ANY ($2)),
events_gone AS (DELETE FROM run_events WHERE bucket = $1 AND run_id = ANY ($2)),
timers_gone AS (DELETE FROM timers WHERE bucket = $1 AND run_id = ANY ($2)),
signals_gone AS (DELETE FROM signals WHERE bucket = $1 AND run_id = ANY ($2)),
requests_gone AS (DELETE FROM requests WHERE bucket = $1 AND run_id = ANY ($2)),
reports_gone AS (DELETE FROM stale_reports WHERE bucket = $1 AND run_id = ANY ($2)),
labels_gone AS (DELETE FROM run_labels WHERE bucket = $1 AND run_id = ANY ($2)),
beats_gone AS (DELETE FROM beats WHERE bucket = $1 AND run_id = ANY ($2)),
waits_gone AS (DELETE FROM waits WHERE bucket = $1 AND run_id = ANY ($2)),
effects_gone AS (DELETE FROM effects WHERE bucket = $1 AND run_id = ANY ($2)),
children_gone AS (DELETE FROM children WHERE bucket = $1 AND run_id = ANY ($2)),
loops_gone AS (DELETE FROM loops WHERE bucket = $1 AND run_id = ANY ($2)),
scopes_gone AS (DELETE FROM scopes WHERE bucket = $1 AND run_id = ANY ($2))
DELETE FROM runs WHERE bucket = $1 AND run_id = ANY ($2);
