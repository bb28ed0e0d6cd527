-- Statements on `outbox` and `timers`, as far as they are the coordinator's. One bucket each.

-- name: insert_outbox
-- What the relay carries out once this transaction has committed; the relays are woken then (they poll as well).
WITH written AS (
    INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, body, trace,
                        created_at)
    SELECT $1::smallint, x.outbox_id, 'dispatch', x.run_id, x.namespace, x.path, x.attempt, x.queue, x.handler, NULL,
           x.trace, $2
    FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::text[])
        AS x (outbox_id, run_id, namespace, path, attempt, queue, handler, trace)
    RETURNING 1
)
SELECT pg_notify('headway_outbox', $1::smallint::text) FROM (SELECT count(*) FROM written) AS counted;

-- name: put_timers
-- Timers that were set or moved. The timers service looks every second; it is woken when one is due before that.
WITH put AS (
    INSERT INTO timers (bucket, run_id, path, kind, attempt, due_at)
    SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[]) AS x
    ON CONFLICT (bucket, run_id, path, kind, attempt) DO UPDATE SET due_at = EXCLUDED.due_at
    RETURNING due_at
)
SELECT pg_notify('headway_timers', '') WHERE EXISTS (SELECT FROM put WHERE due_at < now() + interval '2 seconds');

-- name: delete_timer
-- A timer that fired or means nothing any more; many in one exchange.
DELETE FROM timers WHERE bucket = $1 AND run_id = $2 AND path = $3 AND kind = $4 AND attempt = $5;

-- name: delete_run_timers
-- All timers of runs that are over.
DELETE FROM timers WHERE bucket = $1 AND run_id = ANY ($2::uuid[]);

-- name: get_timers
-- All timers of some runs, for a pause.
SELECT run_id, path, kind, attempt, due_at FROM timers WHERE bucket = $1 AND run_id = ANY ($2::uuid[]);

-- name: due_timers
-- Which of the timers that were told to fire are there, and due by the clock given.
SELECT t.run_id, t.path, t.kind, t.attempt
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS x (run_id, path, kind, attempt)
CROSS JOIN LATERAL (
    SELECT run_id, path, kind, attempt, due_at
    FROM timers
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND kind = x.kind AND attempt = x.attempt
    LIMIT 1
) AS t
WHERE t.due_at <= $6;

-- name: sweep_lost
-- The broker lost everything: READY tasks that wait for a worker and are not held by a pause, a page behind the last one. The collation is not the
-- primary key's, on purpose: in its order all finished tasks would be walked over, instead of the index of READY ones.
SELECT t.run_id, t.path, t.attempt, t.namespace, t.queue, t.handler, r.trace
FROM (
    SELECT run_id, path, attempt, namespace, queue, handler
    FROM tasks
    WHERE bucket = $1 AND state = 'ready' AND sweep_at IS NOT NULL AND (run_id, path COLLATE "C") > ($2, $3)
    ORDER BY run_id, path COLLATE "C"
    LIMIT $4
    FOR UPDATE
) AS t
CROSS JOIN LATERAL (SELECT trace FROM runs WHERE bucket = $1 AND run_id = t.run_id LIMIT 1) AS r
ORDER BY t.run_id, t.path COLLATE "C";

-- name: sweep_aged
-- Without proof of loss: READY tasks whose sweep is due, of a queue that has delivered all it got by then.
SELECT t.run_id, t.path, t.attempt, t.namespace, t.queue, t.handler, r.trace
FROM (
    SELECT d.run_id, d.path, d.attempt, d.namespace, d.queue, d.handler
    FROM tasks AS d
    JOIN unnest($4::text[], $5::text[], $6::timestamptz[]) AS x (namespace, queue, delivered_before)
      ON d.namespace = x.namespace AND d.queue = x.queue AND d.ready_at <= x.delivered_before
    WHERE d.bucket = $1 AND d.state = 'ready' AND d.sweep_at <= $2
    ORDER BY d.sweep_at
    LIMIT $3
    FOR UPDATE OF d SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT trace FROM runs WHERE bucket = $1 AND run_id = t.run_id LIMIT 1) AS r;

-- name: set_swept
-- The next sweep without proof comes after twice the time that the task has been waiting; many in one exchange.
UPDATE tasks
SET sweep_at = $2::timestamptz + GREATEST($2::timestamptz - ready_at, interval '1 minute')
WHERE bucket = $1 AND run_id = $3 AND path = $4 AND attempt = $5 AND state IS NOT DISTINCT FROM 'ready';

-- name: ready_tasks
-- How many tasks wait for a worker, per bucket: a gauge, counted up to a limit. Without those that a pause holds.
SELECT count(*)
FROM (SELECT 1 FROM tasks WHERE bucket = $1 AND state = 'ready' AND sweep_at IS NOT NULL LIMIT 100000) AS counted;
