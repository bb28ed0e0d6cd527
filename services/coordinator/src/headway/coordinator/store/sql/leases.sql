-- Lease and Renew, on `tasks`. Neither waits for a lock nor takes one of a run. One bucket each; rows are found as in
-- tasks.sql. A state that rows are looked for by comes as a column of `x`: were it a literal, the planner could prove the
-- condition of a partial index, and on a young table would rather read that index for the whole bucket.

-- name: grant_leases
-- ready -> running (claim) of what is clearly to be granted, with what the grants need: inputs as far as they fit into $7
-- bytes together. Everything else, locked rows included, is left as it is and not answered.
WITH found AS (
    SELECT x.n, x.owner AS new_owner, x.grant_key AS new_grant_key, t.path, t.run_id, t.attempt, t.generation, t.tries,
           t.losses, t.namespace, t.queue, t.handler, t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt,
           t.input_role, t.output_attempt, t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at,
           t.ready_at, t.started_at, t.finished_at, t.due_at, t.reported,
           r.namespace AS run_namespace, r.workflow, r.trace,
           CASE WHEN r.seq = 1 AND t.started_at IS NULL THEN date_part('epoch', now() - r.created_at) END AS waited,
           i.data, sum(octet_length(i.data)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (
        SELECT run_id, path, attempt, owner, grant_key, n, 'ready' AS state
        FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::text[]) WITH ORDINALITY
            AS k (run_id, path, attempt, owner, grant_key, n)
        ORDER BY run_id, path
    ) AS x
    CROSS JOIN LATERAL (
        SELECT run_id, path, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
               attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error,
               disposition, handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, reported
        FROM tasks
        WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND state = x.state AND attempt = x.attempt
        FOR UPDATE SKIP LOCKED
    ) AS t
    CROSS JOIN LATERAL (
        SELECT namespace, workflow, trace, seq, created_at
        FROM runs
        WHERE bucket = $1 AND run_id = t.run_id AND finished_at IS NULL AND paused_at IS NULL
          AND (NOT cancelling AND NOT expired AND finish_path IS NULL OR ending <> 'uncompensated')
        LIMIT 1
    ) AS r
    LEFT JOIN LATERAL (
        SELECT data
        FROM outputs
        WHERE bucket = $1 AND run_id = t.run_id AND path = t.input_path AND attempt = t.input_attempt
          AND role = t.input_role
        LIMIT 1
    ) AS i ON true
), granted AS (
    INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,
        lease_ms, attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error,
        disposition, handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
        lease_expires_at, grant_key, attempt_expires_at, sweep_at, reported)
    SELECT $1, run_id, path, 'running', attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
           attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition,
           handled_by, cause, created_at, ready_at, COALESCE(started_at, now()), finished_at, due_at, new_owner, now(),
           now() + LEAST(lease_ms, attempt_timeout_ms) * interval '1 millisecond', new_grant_key,
           now() + attempt_timeout_ms * interval '1 millisecond', NULL, reported
    FROM found
    WHERE COALESCE(bytes, 0) <= $7::bigint
    ON CONFLICT (bucket, run_id, path) DO UPDATE
    SET state = EXCLUDED.state, started_at = EXCLUDED.started_at, owner = EXCLUDED.owner, leased_at =
        EXCLUDED.leased_at, lease_expires_at = EXCLUDED.lease_expires_at,
        grant_key = EXCLUDED.grant_key, attempt_expires_at = EXCLUDED.attempt_expires_at, sweep_at = EXCLUDED.sweep_at
)
SELECT n, handler, data, generation, tries, workflow, run_namespace AS namespace, trace,
       LEAST(lease_ms, attempt_timeout_ms) AS left_ms, waited
FROM found
WHERE COALESCE(bytes, 0) <= $7::bigint;

-- name: look_at_leases
-- Tasks that were asked for and not granted, locked for the look; with the input of those that this very delivery holds,
-- as far as inputs fit into $5 bytes together. A row that is locked elsewhere has no state; one that is not there is left
-- out.
SELECT x.n, t.state, t.attempt, t.owner, t.grant_key,
       r.state AS run_state, r.cancelling, r.failing, r.expired, r.finish_path, r.ending, r.paused_at,
       t.handler, i.data, t.generation, t.tries, r.workflow, r.namespace, r.trace,
       GREATEST(floor(1000 * date_part('epoch', t.lease_expires_at - now())), 0)::bigint AS left_ms,
       COALESCE(sum(octet_length(i.data)) OVER (ROWS UNBOUNDED PRECEDING), 0) <= $5::bigint AS fits
FROM (
    SELECT run_id, path, grant_key, n
    FROM unnest($2::uuid[], $3::text[], $4::text[]) WITH ORDINALITY AS k (run_id, path, grant_key, n)
    ORDER BY run_id, path
) AS x
CROSS JOIN LATERAL (
    SELECT run_id, path FROM tasks WHERE bucket = $1 AND run_id = x.run_id AND path = x.path LIMIT 1
) AS k
CROSS JOIN LATERAL (
    SELECT namespace, workflow, state, cancelling, failing, expired, finish_path, ending, paused_at, trace
    FROM runs
    WHERE bucket = $1 AND run_id = k.run_id
    LIMIT 1
) AS r
LEFT JOIN LATERAL (
    SELECT state, attempt, generation, tries, handler, grant_key, owner, lease_expires_at, input_path,
           input_attempt, input_role
    FROM tasks
    WHERE bucket = $1 AND run_id = k.run_id AND path = k.path
    FOR UPDATE SKIP LOCKED
) AS t ON true
LEFT JOIN LATERAL (
    SELECT data
    FROM outputs
    WHERE bucket = $1 AND run_id = k.run_id AND path = t.input_path AND attempt = t.input_attempt
      AND role = t.input_role AND t.grant_key = x.grant_key
    LIMIT 1
) AS i ON true;

-- name: renew_leases
-- Longer leases for their holders, never shorter than they were, and what is left of them.
WITH held AS (
    SELECT x.n, t.run_id, t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.namespace, t.queue, t.handler,
           t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt, t.input_role, t.output_attempt,
           t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at, t.ready_at, t.started_at,
           t.finished_at, t.due_at, t.owner, t.leased_at, t.grant_key, t.attempt_expires_at, t.sweep_at,
           t.reported,
           GREATEST(LEAST(now() + t.lease_ms * interval '1 millisecond', t.attempt_expires_at), t.lease_expires_at)
               AS expires_at,
           (r.cancelling OR r.expired OR r.finish_path IS NOT NULL) AND COALESCE(r.ending, 'uncompensated') = 'uncompensated'
               OR t.cause IS NOT NULL OR COALESCE(t.attempt_expires_at <= now(), false) AS cancel
    FROM (
        SELECT run_id, path, attempt, owner, n, 'running' AS state
        FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[]) WITH ORDINALITY
            AS k (run_id, path, attempt, owner, n)
        ORDER BY run_id, path
    ) AS x
    CROSS JOIN LATERAL (
        SELECT run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
               attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error,
               disposition, handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
               lease_expires_at, grant_key, attempt_expires_at, sweep_at, reported
        FROM tasks
        WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND state = x.state AND attempt = x.attempt
          AND owner = x.owner
        FOR UPDATE SKIP LOCKED
    ) AS t
    CROSS JOIN LATERAL (
        SELECT cancelling, expired, finish_path, ending
        FROM runs
        WHERE bucket = $1 AND run_id = t.run_id AND finished_at IS NULL
        LIMIT 1
    ) AS r
), renewed AS (
    INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,
        lease_ms, attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error,
        disposition, handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
        lease_expires_at, grant_key, attempt_expires_at, sweep_at, reported)
    SELECT $1, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
           attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition,
           handled_by, cause, created_at, ready_at, started_at, finished_at, due_at, owner, leased_at,
           expires_at, grant_key, attempt_expires_at, sweep_at, reported
    FROM held
    ON CONFLICT (bucket, run_id, path) DO UPDATE
    SET lease_expires_at = EXCLUDED.lease_expires_at
)
SELECT n, GREATEST(floor(1000 * date_part('epoch', expires_at - now())), 0)::bigint AS left_ms, cancel
FROM held;

-- name: look_at_renewals
-- Tasks whose leases were not renewed, as look_at_leases.
SELECT x.n, t.state, t.attempt, t.owner, t.grant_key,
       r.state AS run_state, r.cancelling, r.failing, r.expired, r.finish_path, r.ending, r.paused_at
FROM (
    SELECT run_id, path, n
    FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS k (run_id, path, n)
    ORDER BY run_id, path
) AS x
CROSS JOIN LATERAL (
    SELECT run_id, path FROM tasks WHERE bucket = $1 AND run_id = x.run_id AND path = x.path LIMIT 1
) AS k
CROSS JOIN LATERAL (
    SELECT state, cancelling, failing, expired, finish_path, ending, paused_at
    FROM runs
    WHERE bucket = $1 AND run_id = k.run_id
    LIMIT 1
) AS r
LEFT JOIN LATERAL (
    SELECT state, attempt, owner, grant_key
    FROM tasks
    WHERE bucket = $1 AND run_id = k.run_id AND path = k.path
    FOR UPDATE SKIP LOCKED
) AS t ON true;
