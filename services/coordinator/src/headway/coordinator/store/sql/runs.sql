-- Statements on `runs`, `run_events`, `requests`, `stale_reports` and `start_keys`. One bucket each, but for reads that
-- list across buckets.

-- name: wait_for_run
-- Waits for a lock: for a run that was skipped too often, so that nobody spins.
SELECT 1 FROM runs WHERE bucket = $1 AND run_id = $2 FOR UPDATE;

-- name: clock
-- The one clock, taken once the locks are held: a wait for them must not make event time go back.
SELECT clock_timestamp() AS now;

-- name: insert_runs
-- New runs, as the projector left them.
INSERT INTO runs (bucket, run_id, namespace, workflow, version, state, epoch, seq, key, trace, vars, cancelling,
                  failing, expired, finish_path, open_tasks, succeeded_tasks, unhandled_tasks, error, output_path,
                  output_attempt, ending, created_at, last_event_at, finished_at, paused_at, steering, failure_class,
                  parent)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::integer[], $8::bigint[],
    $9::text[], $10::text[], $11::bytea[], $12::boolean[], $13::boolean[], $14::boolean[], $15::text[], $16::integer[],
    $17::integer[], $18::integer[], $19::bytea[], $20::text[], $21::bigint[], $22::text[], $23::timestamptz[],
    $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::bytea[], $28::text[], $29::bytea[]) AS x;

-- name: update_runs
-- Runs after their events, guarded by the sequence number that was read under the lock (why so: see tasks.sql).
INSERT INTO runs AS r (bucket, run_id, namespace, workflow, version, state, epoch, seq, key, trace, vars, cancelling, failing, expired,
    finish_path, open_tasks, succeeded_tasks, unhandled_tasks, error, output_path, output_attempt, ending,
    created_at, last_event_at, finished_at, paused_at, steering, failure_class, parent)
SELECT $1, x.run_id, r.namespace, r.workflow, r.version, x.state, x.epoch, x.seq, r.key, r.trace, x.vars,
       x.cancelling, x.failing, x.expired, x.finish_path, x.open_tasks, x.succeeded_tasks,
       x.unhandled_tasks, x.error, x.output_path, x.output_attempt, x.ending, r.created_at, x.last_event_at,
       x.finished_at, x.paused_at, x.steering, x.failure_class, x.parent
FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::integer[], $6::bigint[], $7::bytea[], $8::boolean[],
    $9::boolean[], $10::boolean[], $11::text[], $12::integer[], $13::integer[], $14::integer[],
    $15::bytea[], $16::text[], $17::bigint[], $18::text[], $19::timestamptz[], $20::timestamptz[], $21::timestamptz[],
    $22::bytea[], $23::text[], $24::bytea[])
    AS x (run_id, was_seq, state, epoch, seq, vars, cancelling, failing, expired, finish_path, open_tasks,
          succeeded_tasks, unhandled_tasks, error, output_path, output_attempt, ending, last_event_at,
          finished_at, paused_at, steering, failure_class, parent)
CROSS JOIN LATERAL (
    SELECT namespace, workflow, version, key, trace, created_at
    FROM runs
    WHERE bucket = $1 AND run_id = x.run_id AND seq = x.was_seq
    LIMIT 1
) AS r
ON CONFLICT (bucket, run_id) DO UPDATE
SET state = EXCLUDED.state, epoch = EXCLUDED.epoch, seq = EXCLUDED.seq, vars = EXCLUDED.vars, cancelling =
    EXCLUDED.cancelling, failing = EXCLUDED.failing, expired = EXCLUDED.expired, finish_path =
    EXCLUDED.finish_path, open_tasks = EXCLUDED.open_tasks, succeeded_tasks = EXCLUDED.succeeded_tasks,
    unhandled_tasks = EXCLUDED.unhandled_tasks, error = EXCLUDED.error, output_path = EXCLUDED.output_path,
    output_attempt = EXCLUDED.output_attempt, ending = EXCLUDED.ending, last_event_at = EXCLUDED.last_event_at,
    finished_at = EXCLUDED.finished_at, paused_at = EXCLUDED.paused_at, steering = EXCLUDED.steering,
    failure_class = EXCLUDED.failure_class, parent = EXCLUDED.parent;

-- name: insert_events
-- The history, in the decision's transaction.
INSERT INTO run_events (bucket, run_id, seq, format, type, at, path, attempt, event, actions)
SELECT $1, x.run_id, x.seq, $2, x.type, x.at, x.path, x.attempt, x.event, x.actions
FROM unnest($3::uuid[], $4::bigint[], $5::text[], $6::timestamptz[], $7::text[], $8::bigint[], $9::bytea[],
    $10::bytea[]) AS x (run_id, seq, type, at, path, attempt, event, actions);

-- name: insert_labels
-- Labels of new runs.
INSERT INTO run_labels (bucket, run_id, name, value, namespace, created_at)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]) AS x;

-- name: find_requests
-- Mutations that were applied before: the same ones are answered as the first time.
SELECT q.run_id, q.request_id, q.call, q.fingerprint, q.answer
FROM unnest($2::uuid[], $3::uuid[]) AS x (run_id, request_id)
CROSS JOIN LATERAL (
    SELECT run_id, request_id, call, fingerprint, answer
    FROM requests
    WHERE bucket = $1 AND run_id = x.run_id AND request_id = x.request_id
    LIMIT 1
) AS q;

-- name: insert_requests
-- Mutations that were applied now.
INSERT INTO requests (bucket, run_id, request_id, call, fingerprint, answer)
SELECT $1, x.* FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bytea[], $6::bytea[]) AS x;

-- name: insert_stale_reports
-- Reports that changed nothing, for the operator.
INSERT INTO stale_reports (bucket, run_id, path, attempt, owner, answer, at)
SELECT $1, x.run_id, x.path, x.attempt, x.owner, x.answer, $2
FROM unnest($3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::text[]) AS x (run_id, path, attempt, owner, answer)
ON CONFLICT DO NOTHING;

-- name: get_run
-- One run, with its input and output, to be shown.
SELECT r.run_id, r.namespace, r.workflow, r.version, r.state, r.epoch, r.seq, r.key, r.cancelling, r.ending, r.error,
       r.created_at, r.finished_at, r.paused_at, r.steering, r.parent, r.trace, i.data AS input, o.data AS output,
       (SELECT array_agg(ARRAY[name, value] ORDER BY name) FROM run_labels WHERE bucket = $1 AND run_id = $2) AS labels
FROM runs AS r
LEFT JOIN outputs AS i ON i.bucket = $1 AND i.run_id = r.run_id AND i.path = '' AND i.attempt = 0 AND i.role = 'i'
LEFT JOIN outputs AS o ON o.bucket = $1 AND o.run_id = r.run_id AND o.path = r.output_path
                      AND o.attempt = r.output_attempt AND o.role = 'o'
WHERE r.bucket = $1 AND r.run_id = $2 AND r.namespace = $3;

-- name: get_run_version
-- What a run runs.
SELECT workflow, version FROM runs WHERE bucket = $1 AND run_id = $2 AND namespace IS NOT DISTINCT FROM $3;

-- name: get_run_state
-- Where a run stands, and its latest event.
SELECT state, seq FROM runs WHERE bucket = $1 AND run_id = $2 AND namespace = $3;

-- name: get_events
-- A stretch of history.
SELECT seq, type, at, path, attempt, event, actions, format
FROM run_events
WHERE bucket = $1 AND run_id = $2 AND seq >= $3
ORDER BY seq
LIMIT $4;

-- name: get_stale_reports
-- The latest that came too late, latest first.
SELECT path, attempt, owner, answer, at
FROM stale_reports
WHERE bucket = $1 AND run_id = $2
ORDER BY at DESC
LIMIT $3;
