-- Statements on `tasks`, `attempts`, `tokens`, `outputs` and `signals`. One bucket each.
--
-- Rows that are named by key are found through LATERAL, one index look-up each, and changed by INSERT … ON CONFLICT whose
-- SELECT is the guard: a join with unnest would be planned by the statistics of the moment, and on a young or empty table
-- that is a scan of the whole bucket for every batch.

-- name: lock_tasks
-- The task rows that decisions may change, locked in order after their runs.
SELECT t.run_id, t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.namespace, t.queue, t.handler,
       t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt, t.input_role, t.output_attempt,
       t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at, t.ready_at, t.started_at,
       t.finished_at, t.due_at, t.owner, t.leased_at, t.lease_expires_at, t.grant_key,
       t.eager_grants, t.attempt_expires_at, t.sweep_at, t.reported
FROM (SELECT run_id, path FROM unnest($2::uuid[], $3::text[]) AS k (run_id, path) ORDER BY run_id, path) AS x
CROSS JOIN LATERAL (
    SELECT run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
           attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition,
           handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
           lease_expires_at, grant_key, eager_grants, attempt_expires_at, sweep_at, reported
    FROM tasks
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path
    FOR UPDATE
) AS t;

-- name: lock_open_tasks
-- Every task of some runs that is not settled.
SELECT t.run_id, t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.namespace, t.queue, t.handler,
       t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt, t.input_role, t.output_attempt,
       t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at, t.ready_at, t.started_at,
       t.finished_at, t.due_at, t.owner, t.leased_at, t.lease_expires_at, t.grant_key,
       t.eager_grants, t.attempt_expires_at, t.sweep_at, t.reported
FROM tasks AS t
WHERE t.bucket = $1 AND t.run_id = ANY ($2::uuid[])
  AND t.state IN ('pending', 'ready', 'running', 'waiting', 'retrying')
ORDER BY t.run_id, t.path
FOR UPDATE OF t;

-- name: lock_unhandled_tasks
-- Every failure of some runs that counts.
SELECT t.run_id, t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.namespace, t.queue, t.handler,
       t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt, t.input_role, t.output_attempt,
       t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at, t.ready_at, t.started_at,
       t.finished_at, t.due_at, t.owner, t.leased_at, t.lease_expires_at, t.grant_key,
       t.eager_grants, t.attempt_expires_at, t.sweep_at, t.reported
FROM tasks AS t
WHERE t.bucket = $1 AND t.run_id = ANY ($2::uuid[]) AND t.state = 'failed' AND t.disposition = 'unhandled'
ORDER BY t.run_id, t.path
FOR UPDATE OF t;

-- name: lock_all_tasks
-- Every task of some runs: for a retry.
SELECT t.run_id, t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.namespace, t.queue, t.handler,
       t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt, t.input_role, t.output_attempt,
       t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at, t.ready_at, t.started_at,
       t.finished_at, t.due_at, t.owner, t.leased_at, t.lease_expires_at, t.grant_key,
       t.eager_grants, t.attempt_expires_at, t.sweep_at, t.reported
FROM tasks AS t
WHERE t.bucket = $1 AND t.run_id = ANY ($2::uuid[])
ORDER BY t.run_id, t.path
FOR UPDATE OF t;

-- name: insert_tasks
-- Nodes that were reached.
INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,
    lease_ms, attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error,
    disposition, handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
    lease_expires_at, grant_key, eager_grants, attempt_expires_at, sweep_at, reported)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::integer[], $7::integer[],
    $8::integer[], $9::text[], $10::text[], $11::text[], $12::integer[], $13::integer[], $14::text[], $15::bigint[],
    $16::text[], $17::bigint[], $18::text[], $19::bytea[], $20::text[], $21::integer[], $22::text[],
    $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::timestamptz[], $28::text[],
    $29::timestamptz[], $30::timestamptz[], $31::text[], $32::smallint[], $33::timestamptz[],
    $34::timestamptz[], $35::boolean[]) AS x;

-- name: update_tasks
-- Tasks after their events, guarded by the state and attempt that were read under the lock.
INSERT INTO tasks AS t (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
    attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error,
    disposition, handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
    lease_expires_at, grant_key, eager_grants, attempt_expires_at, sweep_at, reported)
SELECT $1, t.run_id, t.path, x.state, x.attempt, x.generation, x.tries, x.losses, t.namespace, t.queue, t.handler,
       t.lease_ms, t.attempt_timeout_ms, x.input_path, x.input_attempt, x.input_role, x.output_attempt,
       x.failure_class, x.error, x.disposition, x.handled_by, x.cause, t.created_at, x.ready_at,
       x.started_at, x.finished_at, x.due_at, x.owner, x.leased_at, x.lease_expires_at,
       x.grant_key, x.eager_grants, x.attempt_expires_at, x.sweep_at, x.reported
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::integer[], $9::integer[],
    $10::integer[], $11::text[], $12::bigint[], $13::text[], $14::bigint[], $15::text[], $16::bytea[],
    $17::text[], $18::integer[], $19::text[], $20::timestamptz[], $21::timestamptz[], $22::timestamptz[],
    $23::timestamptz[], $24::text[], $25::timestamptz[], $26::timestamptz[], $27::text[],
    $28::smallint[], $29::timestamptz[], $30::timestamptz[], $31::boolean[])
    AS x (run_id, path, was_state, was_attempt, state, attempt, generation, tries, losses, input_path,
          input_attempt, input_role, output_attempt, failure_class, error, disposition, handled_by,
          cause, ready_at, started_at, finished_at, due_at, owner, leased_at,
          lease_expires_at, grant_key, eager_grants, attempt_expires_at, sweep_at, reported)
CROSS JOIN LATERAL (
    SELECT run_id, path, namespace, queue, handler, lease_ms, attempt_timeout_ms, created_at
    FROM tasks
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND state = x.was_state AND attempt = x.was_attempt
    LIMIT 1
) AS t
ON CONFLICT (bucket, run_id, path) DO UPDATE
SET state = EXCLUDED.state, attempt = EXCLUDED.attempt, generation = EXCLUDED.generation, tries =
    EXCLUDED.tries, losses = EXCLUDED.losses, input_path = EXCLUDED.input_path, input_attempt =
    EXCLUDED.input_attempt, input_role = EXCLUDED.input_role, output_attempt = EXCLUDED.output_attempt,
    failure_class = EXCLUDED.failure_class, error = EXCLUDED.error, disposition = EXCLUDED.disposition,
    handled_by = EXCLUDED.handled_by, cause = EXCLUDED.cause, ready_at = EXCLUDED.ready_at, started_at =
    EXCLUDED.started_at, finished_at = EXCLUDED.finished_at, due_at = EXCLUDED.due_at, owner =
    EXCLUDED.owner, leased_at = EXCLUDED.leased_at, lease_expires_at =
    EXCLUDED.lease_expires_at, grant_key = EXCLUDED.grant_key, eager_grants = EXCLUDED.eager_grants, attempt_expires_at =
    EXCLUDED.attempt_expires_at, sweep_at = EXCLUDED.sweep_at, reported = EXCLUDED.reported;

-- name: get_attempts
-- Attempts that were left behind, for late reports.
SELECT a.run_id, a.path, a.attempt, a.owner, a.leased_at, a.ended_at, a.outcome, a.reported, a.failure_class, a.error
FROM unnest($2::uuid[], $3::text[], $4::bigint[]) AS x (run_id, path, attempt)
CROSS JOIN LATERAL (
    SELECT run_id, path, attempt, owner, leased_at, ended_at, outcome, reported, failure_class, error
    FROM attempts
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND attempt = x.attempt
    LIMIT 1
) AS a;

-- name: insert_attempts
-- Attempts that are left behind.
INSERT INTO attempts (bucket, run_id, path, attempt, owner, leased_at, ended_at, outcome, reported, failure_class,
                      error)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[], $7::timestamptz[],
    $8::text[], $9::boolean[], $10::text[], $11::bytea[]) AS x;

-- name: get_tokens
-- Tokens that reached nodes with several incoming edges.
SELECT k.run_id, k.path, k.live, k.dead, k.failed, k.always, k.names
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, path)
CROSS JOIN LATERAL (
    SELECT run_id, path, live, dead, failed, always, names
    FROM tokens
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path
    LIMIT 1
) AS k;

-- name: get_all_tokens
-- Every token row of some runs: for a retry.
SELECT run_id, path, live, dead, failed, always, names FROM tokens WHERE bucket = $1 AND run_id = ANY ($2::uuid[]);

-- name: put_tokens
-- Token rows after their events; the run's lock guards them.
INSERT INTO tokens (bucket, run_id, path, live, dead, failed, always, names)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[])
    AS x
ON CONFLICT (bucket, run_id, path) DO UPDATE
SET live = EXCLUDED.live, dead = EXCLUDED.dead, failed = EXCLUDED.failed, always = EXCLUDED.always,
    names = EXCLUDED.names;

-- name: get_payloads
-- Stored payloads. A role is stored as its first letter: that is what the cast leaves of it.
SELECT o.run_id, o.path, o.attempt, x.role, o.data
FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[]) AS x (run_id, path, attempt, role)
CROSS JOIN LATERAL (
    SELECT run_id, path, attempt, data
    FROM outputs
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND role = x.role::"char" AND attempt = x.attempt
    LIMIT 1
) AS o;

-- name: insert_payloads
-- New payloads; they never change.
INSERT INTO outputs (bucket, run_id, path, attempt, role, data)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::bytea[]) AS x;

-- name: get_signals
-- Signals that nobody has taken, oldest first.
SELECT s.run_id, s.seq, s.name, s.payload, s.received_at, s.taken_by, s.taken_attempt, s.expires_at
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, name)
CROSS JOIN LATERAL (
    SELECT run_id, seq, name, payload, received_at, taken_by, taken_attempt, expires_at
    FROM signals
    WHERE bucket = $1 AND run_id = x.run_id AND name = x.name AND taken_by IS NULL
    OFFSET 0
) AS s
ORDER BY s.seq;

-- name: get_taken_signals
-- Signals that nodes have taken, oldest first.
SELECT s.run_id, s.seq, s.name, s.payload, s.received_at, s.taken_by, s.taken_attempt, s.expires_at
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, path)
CROSS JOIN LATERAL (
    SELECT run_id, seq, name, payload, received_at, taken_by, taken_attempt, expires_at
    FROM signals
    WHERE bucket = $1 AND run_id = x.run_id AND taken_by = x.path
    OFFSET 0
) AS s
ORDER BY s.seq;

-- name: put_signals
-- Signals that came or were taken.
INSERT INTO signals (bucket, run_id, seq, name, payload, received_at, taken_by, taken_attempt, expires_at)
SELECT $1, x.* FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::bytea[], $6::timestamptz[], $7::text[], $8::bigint[],
    $9::timestamptz[]) AS x
ON CONFLICT (bucket, run_id, seq) DO UPDATE
SET taken_by = EXCLUDED.taken_by, taken_attempt = EXCLUDED.taken_attempt;

-- name: get_run_tasks
-- A run's tasks in order of creation, to be shown; outputs up to a size, and their size.
SELECT t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.queue, t.handler, t.failure_class, t.error,
       t.disposition, t.cause, t.created_at, t.ready_at, t.started_at, t.leased_at, t.finished_at, t.due_at, t.owner,
       t.lease_expires_at,
       CASE WHEN octet_length(o.data) <= $3 THEN o.data END AS output, octet_length(o.data) AS output_bytes,
       b.percent, b.message, b.progress_at,
       CASE WHEN t.state = 'waiting' THEN i.data END AS waits_for
FROM tasks AS t
LEFT JOIN outputs AS i ON i.bucket = $1 AND i.run_id = t.run_id AND i.path = t.path
                      AND i.attempt = t.input_attempt AND i.role = 'i'
LEFT JOIN beats AS b ON b.bucket = $1 AND b.run_id = t.run_id AND b.path = t.path AND b.attempt = t.attempt
LEFT JOIN outputs AS o ON o.bucket = $1 AND o.run_id = t.run_id AND o.path = t.path
                      AND o.attempt = t.output_attempt AND o.role = 'o'
WHERE t.bucket = $1 AND t.run_id = $2
ORDER BY t.created_at, t.path;

-- name: get_named_tasks
-- The same of tasks that are named: where a run has maps or repeats, only those that are asked for.
SELECT t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.queue, t.handler, t.failure_class, t.error,
       t.disposition, t.cause, t.created_at, t.ready_at, t.started_at, t.leased_at, t.finished_at, t.due_at, t.owner,
       t.lease_expires_at,
       CASE WHEN octet_length(o.data) <= $4 THEN o.data END AS output, octet_length(o.data) AS output_bytes,
       b.percent, b.message, b.progress_at,
       CASE WHEN t.state = 'waiting' THEN i.data END AS waits_for
FROM unnest($3::text[]) AS x (path)
CROSS JOIN LATERAL (
    SELECT path, state, attempt, generation, tries, losses, queue, handler, failure_class, error, disposition, cause,
           created_at, ready_at, started_at, leased_at, finished_at, due_at, owner, lease_expires_at, input_attempt,
           output_attempt
    FROM tasks
    WHERE bucket = $1 AND run_id = $2 AND path = x.path
    LIMIT 1
) AS t
LEFT JOIN LATERAL (
    SELECT data
    FROM outputs
    WHERE bucket = $1 AND run_id = $2 AND path = t.path AND attempt = t.output_attempt AND role = 'o'
    LIMIT 1
) AS o ON true
LEFT JOIN LATERAL (
    SELECT percent, message, progress_at
    FROM beats
    WHERE bucket = $1 AND run_id = $2 AND path = t.path AND attempt = t.attempt
    LIMIT 1
) AS b ON true
LEFT JOIN LATERAL (
    SELECT data
    FROM outputs
    WHERE bucket = $1 AND run_id = $2 AND path = t.path AND attempt = t.input_attempt AND role = 'i'
    LIMIT 1
) AS i ON true
ORDER BY t.created_at, t.path;

-- name: get_named_attempts
-- Attempts of such tasks that were left behind, oldest first.
SELECT a.path, a.attempt, a.owner, a.leased_at, a.ended_at, a.outcome, a.failure_class, a.error
FROM unnest($3::text[]) AS x (path)
CROSS JOIN LATERAL (
    SELECT path, attempt, owner, leased_at, ended_at, outcome, failure_class, error
    FROM attempts
    WHERE bucket = $1 AND run_id = $2 AND path = x.path
    OFFSET 0
) AS a
ORDER BY a.path, a.attempt;

-- name: get_run_attempts
-- A run's attempts that were left behind, oldest first.
SELECT path, attempt, owner, leased_at, ended_at, outcome, failure_class, error
FROM attempts
WHERE bucket = $1 AND run_id = $2
ORDER BY path, attempt;
