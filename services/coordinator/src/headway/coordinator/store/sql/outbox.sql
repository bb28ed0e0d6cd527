-- Statements on `outbox` and `timers`, as far as they are the coordinator's. One bucket each.

-- name: insert_outbox
-- What the relay carries out once this transaction has committed.
INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, body, trace, created_at)
SELECT $1, x.outbox_id, 'dispatch', x.run_id, x.namespace, x.path, x.attempt, x.queue, x.handler, NULL, x.trace, $2
FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::text[])
    AS x (outbox_id, run_id, namespace, path, attempt, queue, handler, trace);

-- name: notify_outbox
-- Wakes the relays when this transaction commits; they poll as well.
SELECT pg_notify('headway_outbox', $1);

-- name: put_timers
-- Timers that were set or moved.
INSERT INTO timers (bucket, run_id, path, kind, attempt, due_at)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[]) AS x
ON CONFLICT (bucket, run_id, path, kind, attempt) DO UPDATE SET due_at = EXCLUDED.due_at;

-- name: delete_timers
-- Timers that fired or mean nothing any more.
DELETE FROM timers AS t
USING unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS x (run_id, path, kind, attempt)
WHERE t.bucket = $1 AND t.run_id = x.run_id AND t.path = x.path AND t.kind = x.kind AND t.attempt = x.attempt;

-- name: delete_run_timers
-- All timers of runs that are over.
DELETE FROM timers WHERE bucket = $1 AND run_id = ANY ($2::uuid[]);

-- name: due_timers
-- Which of the timers that were told to fire are there, and due by the clock given.
SELECT t.run_id, t.path, t.kind, t.attempt
FROM timers AS t
JOIN unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS x (run_id, path, kind, attempt)
  ON t.run_id = x.run_id AND t.path = x.path AND t.kind = x.kind AND t.attempt = x.attempt
WHERE t.bucket = $1 AND t.due_at <= $6;

-- name: sweep_lost
-- The broker lost everything: READY tasks that wait for a worker, a page behind the last one.
SELECT t.run_id, t.path, t.attempt, t.namespace, t.queue, t.handler, r.trace
FROM tasks AS t
JOIN runs AS r ON r.bucket = $1 AND r.run_id = t.run_id
WHERE t.bucket = $1 AND t.state = 'ready' AND (t.run_id, t.path) > ($2, $3)
ORDER BY t.run_id, t.path
LIMIT $4
FOR UPDATE OF t;

-- name: sweep_aged
-- Without proof of loss: READY tasks whose sweep is due, of a queue that has delivered all it got by then.
SELECT t.run_id, t.path, t.attempt, t.namespace, t.queue, t.handler, r.trace
FROM tasks AS t
JOIN unnest($4::text[], $5::text[], $6::timestamptz[]) AS x (namespace, queue, delivered_before)
  ON t.namespace = x.namespace AND t.queue = x.queue
JOIN runs AS r ON r.bucket = $1 AND r.run_id = t.run_id
WHERE t.bucket = $1 AND t.state = 'ready' AND t.sweep_at <= $2 AND t.ready_at <= x.delivered_before
ORDER BY t.sweep_at
LIMIT $3
FOR UPDATE OF t SKIP LOCKED;

-- name: set_swept
-- The next sweep without proof comes after twice the time that the task has been waiting.
UPDATE tasks AS t
SET sweep_at = $2::timestamptz + GREATEST($2::timestamptz - t.ready_at, interval '1 minute')
FROM unnest($3::uuid[], $4::text[], $5::bigint[]) AS x (run_id, path, attempt)
WHERE t.bucket = $1 AND t.run_id = x.run_id AND t.path = x.path AND t.attempt = x.attempt AND t.state = 'ready';

-- name: ready_tasks
-- How many tasks wait for a worker, per bucket: a gauge, counted up to a limit.
SELECT count(*) FROM (SELECT 1 FROM tasks WHERE bucket = $1 AND state = 'ready' LIMIT 100000) AS counted;
