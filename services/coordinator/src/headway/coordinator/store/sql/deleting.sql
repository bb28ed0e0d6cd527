-- Deleting finished runs with all that is stored of them. One bucket each, but for the looks for what has expired.

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
) AS r
WHERE r.namespace <> '';

-- name: free_start_keys
-- Keys that stand for runs that were deleted, unless they stand for others by now.
DELETE FROM start_keys AS k
WHERE k.bucket = $1 AND k.namespace = $2 AND k.key = ANY ($3::text[]) AND k.run_id = ANY ($4::uuid[])
RETURNING k.run_id;

-- name: lock_ended
-- Of those, the ones that are still where they were seen, locked; the others, and those locked elsewhere, are left out.
SELECT r.run_id
FROM (SELECT run_id, epoch FROM unnest($2::uuid[], $3::integer[]) AS k (run_id, epoch) ORDER BY run_id) AS x
CROSS JOIN LATERAL (
    SELECT run_id, epoch, finished_at FROM runs WHERE bucket = $1 AND run_id = x.run_id FOR UPDATE SKIP LOCKED
) AS r
WHERE r.epoch = x.epoch AND r.finished_at IS NOT NULL;

-- name: wait_for_ended
-- The same, but it is waited for those that are locked elsewhere.
SELECT r.run_id
FROM (SELECT run_id, epoch FROM unnest($2::uuid[], $3::integer[]) AS k (run_id, epoch) ORDER BY run_id) AS x
CROSS JOIN LATERAL (
    SELECT run_id, epoch, finished_at FROM runs WHERE bucket = $1 AND run_id = x.run_id FOR UPDATE
) AS r
WHERE r.epoch = x.epoch AND r.finished_at IS NOT NULL;

-- name: delete_runs
-- All rows of runs that are locked. What is left of them in the outbox is carried out and means nothing any more. Where a
-- run has a key a tombstone takes its place: a row in no namespace, which keeps a start from inserting the run again
-- that has read its id from the key before. Its `error` tells the key and its namespace.
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
scopes_gone AS (DELETE FROM scopes WHERE bucket = $1 AND run_id = ANY ($2)),
tombstones AS (
    UPDATE runs
    SET namespace = '', workflow = '', version = 0, state = 'cancelled', failure_class = 'cancelled', epoch = 0, seq = 0,
        trace = '', vars = '{}', cancelling = false, failing = false, expired = false, finish_path = NULL, ending = NULL,
        succeeded_tasks = 0, unhandled_tasks = 0, output_path = NULL, output_attempt = NULL, steering = NULL,
        parent = NULL, last_event_at = now(), finished_at = now(),
        key = NULL, error = convert_to(json_build_object('namespace', namespace, 'key', key)::text, 'UTF8')
    WHERE bucket = $1 AND run_id = ANY ($2) AND key IS NOT NULL
)
DELETE FROM runs WHERE bucket = $1 AND run_id = ANY ($2) AND key IS NULL;

-- name: find_tombstones
-- Those that no start can be under way for any more, by the index on ends: none takes half a day from its key to its run.
SELECT run_id, error
FROM runs
WHERE namespace = '' AND workflow = '' AND version = 0 AND state = 'cancelled' AND failure_class = 'cancelled'
  AND finished_at < now() - interval '1 day'
ORDER BY finished_at
LIMIT $1;

-- name: renew_tombstones
-- A day more for those whose keys were freed only now: until then, starts read their ids from them.
UPDATE runs SET finished_at = now() WHERE bucket = $1 AND run_id = ANY ($2::uuid[]) AND namespace = '';

-- name: delete_tombstones
-- Nothing can come for them any more.
DELETE FROM runs WHERE bucket = $1 AND run_id = ANY ($2::uuid[]) AND namespace = '' RETURNING run_id;
