-- What `explain` reads besides rows that other statements read. No locks.

-- name: get_run_timers
-- The timers of a run itself: its deadline, the end of a grace.
SELECT kind, due_at FROM timers WHERE bucket = $1 AND run_id = $2 AND path = '' AND attempt = 0;

-- name: count_open_tasks
-- How many tasks of a run are not settled, those of its items included.
SELECT count(*)
FROM tasks
WHERE bucket = $1 AND run_id = $2 AND state IN ('pending', 'ready', 'running', 'waiting', 'retrying');

-- name: find_readers
-- How many workers of some queues are there, by being seen in the last 150 seconds (they are noted every minute), and
-- when the last of all was.
SELECT x.queue,
       count(w.seen_at) FILTER (WHERE w.seen_at > now() - interval '150 seconds' AND w.left_at IS NULL) AS workers,
       max(w.seen_at) AS seen_at
FROM unnest($2::text[]) AS x (queue)
LEFT JOIN (
    SELECT queues, seen_at, left_at FROM workers WHERE namespace = $1 AND seen_at > now() - interval '1 hour'
) AS w ON x.queue = ANY (w.queues)
GROUP BY x.queue;

-- name: find_left
-- When some workers left, of those that did and have not come back.
SELECT owner, left_at FROM workers WHERE namespace = $1 AND owner = ANY ($2::text[]) AND left_at IS NOT NULL;

-- name: count_buffered_signals
-- Signals that nobody has taken, by name: the first of them, in the order of their names.
SELECT s.name, count(*) AS signals
FROM (
    SELECT name
    FROM signals
    WHERE bucket = $1 AND run_id = $2 AND taken_by IS NULL AND (expires_at IS NULL OR expires_at > now())
    ORDER BY name, seq
    LIMIT $3
) AS s
GROUP BY s.name
ORDER BY s.name;

-- name: find_unpublished
-- Since when dispatches of a run have waited in a bucket's outbox, among its oldest rows; and, without a path, since when
-- the oldest row of all has, when there are more than were looked at.
WITH oldest AS (
    SELECT run_id, path, kind, created_at
    FROM outbox
    WHERE bucket = $1
    ORDER BY outbox_id
    LIMIT 5000
)
SELECT path, created_at AS since
FROM oldest
WHERE run_id = $2 AND kind = 'dispatch'
UNION ALL
SELECT NULL, min(created_at)
FROM oldest
HAVING count(*) = 5000;

-- name: find_undelivered
-- Since when hand-overs for some runs have waited in a bucket's outbox, among its oldest ones.
SELECT o.run_id, min(o.created_at) AS since
FROM (
    SELECT run_id, created_at
    FROM outbox
    WHERE bucket = $1 AND kind = 'handover'
    ORDER BY outbox_id
    LIMIT 5000
) AS o
WHERE o.run_id = ANY ($2::uuid[])
GROUP BY o.run_id;
