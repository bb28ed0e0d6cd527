-- What nearly every decision needs, in two exchanges: one statement locks and reads, one writes.

-- name: lock_steps
-- The locks of a decision, in the order of $2: runs, each with the task rows that its events name ($3: paths by comma).
-- Runs that are locked elsewhere are skipped: `is_there` tells them from those that are not there.
SELECT x.run_id, e.is_there, clock_timestamp() AS now,
       r.namespace, r.workflow, r.version, r.key, r.trace, r.created_at, r.last_event_at, r.state, r.epoch, r.seq, r.vars,
       r.cancelling, r.failing, r.expired, r.finish_path, r.ending, r.open_tasks, r.succeeded_tasks, r.unhandled_tasks, r.error,
       r.output_path, r.output_attempt, r.finished_at, r.paused_at, r.steering, r.parent,
       t.path, t.state, t.attempt, t.generation, t.tries, t.losses, t.namespace, t.queue, t.handler,
       t.lease_ms, t.attempt_timeout_ms, t.input_path, t.input_attempt, t.input_role, t.output_attempt,
       t.failure_class, t.error, t.disposition, t.handled_by, t.cause, t.created_at, t.ready_at, t.started_at,
       t.finished_at, t.due_at, t.owner, t.leased_at, t.lease_expires_at, t.grant_key, t.eager_grants,
       t.attempt_expires_at, t.sweep_at, t.reported
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, paths)
LEFT JOIN LATERAL (
    SELECT run_id, namespace, workflow, version, key, trace, created_at, last_event_at, state, epoch, seq, vars, cancelling,
           failing, expired, finish_path, ending, open_tasks, succeeded_tasks, unhandled_tasks, error, output_path,
           output_attempt, finished_at, paused_at, steering, parent
    FROM runs
    WHERE bucket = $1 AND run_id = x.run_id
    FOR UPDATE SKIP LOCKED
) AS r ON true
LEFT JOIN LATERAL (
    SELECT true AS is_there FROM runs WHERE r.run_id IS NULL AND bucket = $1 AND run_id = x.run_id LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms, attempt_timeout_ms,
           input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition, handled_by, cause,
           created_at, ready_at, started_at, finished_at, due_at, owner, leased_at, lease_expires_at,
           grant_key, eager_grants, attempt_expires_at, sweep_at, reported
    FROM tasks
    WHERE bucket = $1 AND run_id = r.run_id AND path = ANY (string_to_array(x.paths, ','))
    ORDER BY path
    FOR UPDATE
) AS t ON true;

-- name: save_steps
-- What runs that go straight on change: they start, workers' successes are taken, tasks are created, dispatched or
-- leased, control nodes are settled, the run goes on or succeeds. Everything else is written by the statements of
-- runs.sql and tasks.sql; store/steps.py judges which it is. Instants are the batch's own, $2.
--
-- Nothing is written unless every run of $19 can be locked now and stands where its decision was made on: `whole` says
-- whether it was. So the decisions may have been made on rows that were read without locks. Nor is it when a run is to
-- start on a version that must be the deployed one ($57) and is not.
--
-- Rows that are changed are offered as new ones and meet themselves: only the columns that change are in the offer, and
-- what it must hold besides is empty. A task that was not there, or not running at that attempt, ends the statement.
--
-- Arrays of small tables that rows refer to by place: $3-$5 versions; $6-$11 specifications of tasks.
WITH held AS MATERIALIZED (
    SELECT r.run_id
    FROM unnest($19::uuid[], $20::bigint[], $21::integer[]) AS x (run_id, seq, events)
    CROSS JOIN LATERAL (
        SELECT run_id, seq FROM runs WHERE bucket = $1 AND run_id = x.run_id FOR UPDATE SKIP LOCKED
    ) AS r
    WHERE r.seq = x.seq - x.events
), gate AS MATERIALIZED (
    SELECT count(*) = cardinality($19::uuid[]) AND NOT EXISTS (
        SELECT 1
        FROM unnest($3::text[], $4::text[], $5::integer[], $57::boolean[])
            AS x (namespace, workflow, version, needs_deployed)
        LEFT JOIN LATERAL (
            SELECT true AS is_deployed
            FROM definitions
            WHERE namespace = x.namespace AND workflow = x.workflow AND version = x.version AND deployed
            LIMIT 1
        ) AS d ON true
        WHERE x.needs_deployed AND d.is_deployed IS NULL
    ) AS whole
    FROM held
), started AS (
    INSERT INTO runs (bucket, run_id, namespace, workflow, version, state, epoch, seq, key, trace, vars, cancelling,
                      failing, expired, finish_path, open_tasks, succeeded_tasks, unhandled_tasks, error, output_path,
                      output_attempt, created_at, last_event_at, finished_at)
    SELECT $1::smallint, x.run_id, ($3::text[])[x.version], ($4::text[])[x.version], ($5::integer[])[x.version], 'running', 1, 1,
           x.key, x.trace, '{}', false, false, false, NULL, x.open_tasks, x.succeeded_tasks, 0, NULL, NULL, NULL, $2::timestamptz, $2::timestamptz,
           NULL
    FROM unnest($12::uuid[], $13::integer[], $14::text[], $15::text[], $16::integer[], $17::integer[])
        AS x (run_id, version, key, trace, open_tasks, succeeded_tasks)
    WHERE (SELECT whole FROM gate)
), moved AS (
    INSERT INTO runs AS r (bucket, run_id, namespace, workflow, version, state, epoch, seq, trace, vars, cancelling,
                           failing, expired, finish_path, open_tasks, succeeded_tasks, unhandled_tasks, output_path,
                           output_attempt, created_at, last_event_at, finished_at)
    SELECT $1::smallint, x.run_id, '', '', 0, x.state, 1, x.seq, '', '', false, false, false, x.finish_path, x.open_tasks,
           x.succeeded_tasks, 0, x.output_path, x.output_attempt, $2::timestamptz, $2::timestamptz,
           CASE WHEN x.state = 'running' THEN NULL ELSE $2::timestamptz END
    FROM unnest($19::uuid[], $20::bigint[], $22::text[], $23::integer[], $24::integer[], $25::text[], $26::text[],
                $27::bigint[])
        AS x (run_id, seq, state, open_tasks, succeeded_tasks, finish_path, output_path, output_attempt)
    WHERE (SELECT whole FROM gate)
    ON CONFLICT (bucket, run_id) DO UPDATE
    SET state = EXCLUDED.state, seq = EXCLUDED.seq, finish_path = EXCLUDED.finish_path,
        open_tasks = EXCLUDED.open_tasks, succeeded_tasks = EXCLUDED.succeeded_tasks,
        output_path = EXCLUDED.output_path, output_attempt = EXCLUDED.output_attempt,
        last_event_at = EXCLUDED.last_event_at, finished_at = EXCLUDED.finished_at
), done AS (
    INSERT INTO tasks AS t (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,
                            lease_ms, output_attempt, created_at, finished_at, reported)
    SELECT $1::smallint, x.run_id, x.path, 'succeeded', x.attempt, 1, 0, 0, '', '', '', 0, x.attempt, $2::timestamptz, $2::timestamptz, true
    FROM unnest($28::uuid[], $29::text[], $30::bigint[]) AS x (run_id, path, attempt)
    WHERE (SELECT whole FROM gate)
    ON CONFLICT (bucket, run_id, path) DO UPDATE
    SET state = EXCLUDED.state, output_attempt = EXCLUDED.output_attempt, finished_at = EXCLUDED.finished_at,
        due_at = NULL, lease_expires_at = NULL, grant_key = NULL, eager_grants = 0,
        attempt_expires_at = NULL, reported = true
    WHERE t.state = 'running' AND t.attempt = EXCLUDED.attempt
    RETURNING handler
), fresh AS (
    INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,
                       lease_ms, attempt_timeout_ms, input_path, input_attempt, input_role, created_at, ready_at,
                       started_at, owner, leased_at, lease_expires_at, grant_key, eager_grants,
                       attempt_expires_at, sweep_at, reported)
    SELECT $1::smallint, x.run_id, x.path, CASE WHEN x.grant_key IS NULL THEN 'ready' ELSE 'running' END, 1, 1, 0, 0,
           ($6::text[])[x.spec], ($7::text[])[x.spec], ($8::text[])[x.spec], ($9::integer[])[x.spec],
           ($10::integer[])[x.spec],
           CASE WHEN x.own IS NULL THEN x.input_path ELSE x.path END,
           CASE WHEN x.own IS NULL THEN x.input_attempt ELSE 1 END,
           CASE WHEN x.own IS NULL THEN x.input_role ELSE 'input' END, $2::timestamptz, $2::timestamptz,
           CASE WHEN x.grant_key IS NULL THEN NULL ELSE $2::timestamptz END, ($11::text[])[x.spec],
           CASE WHEN x.grant_key IS NULL THEN NULL ELSE $2::timestamptz END,
           $2::timestamptz + x.lease_ms * interval '1 millisecond', x.grant_key, x.eager_grants,
           CASE WHEN x.grant_key IS NULL THEN NULL ELSE $2::timestamptz + ($10::integer[])[x.spec] * interval '1 millisecond' END,
           CASE WHEN x.grant_key IS NULL THEN $2::timestamptz + interval '1 minute' END, false
    FROM unnest($32::uuid[], $33::text[], $34::integer[], $35::text[], $36::bigint[], $37::text[], $38::bytea[],
                $39::text[], $40::integer[], $41::smallint[])
        AS x (run_id, path, spec, input_path, input_attempt, input_role, own, grant_key, lease_ms, eager_grants)
    WHERE (SELECT whole FROM gate)
), settled AS (
    INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,
                       lease_ms, output_attempt, created_at, finished_at, reported)
    SELECT $1::smallint, x.run_id, x.path, 'succeeded', 1, 1, 0, 0, ($6::text[])[x.spec], '', '', ($9::integer[])[x.spec],
           CASE WHEN x.output IS NULL THEN NULL ELSE 1 END, $2::timestamptz, $2::timestamptz, false
    FROM unnest($44::uuid[], $45::text[], $46::integer[], $47::bytea[]) AS x (run_id, path, spec, output)
    WHERE (SELECT whole FROM gate)
), kept AS (
    INSERT INTO outputs (bucket, run_id, path, attempt, role, data)
    SELECT $1::smallint, x.run_id, '', 0, 'i'::"char", x.data FROM unnest($12::uuid[], $18::bytea[]) AS x (run_id, data)
    WHERE (SELECT whole FROM gate)
    UNION ALL
    SELECT $1::smallint, x.run_id, x.path, x.attempt, 'o'::"char", x.data
    FROM unnest($28::uuid[], $29::text[], $30::bigint[], $31::bytea[]) AS x (run_id, path, attempt, data)
    WHERE (SELECT whole FROM gate)
    UNION ALL
    SELECT $1::smallint, x.run_id, x.path, 1, 'i'::"char", x.data
    FROM unnest($32::uuid[], $33::text[], $38::bytea[]) AS x (run_id, path, data)
    WHERE x.data IS NOT NULL AND (SELECT whole FROM gate)
    UNION ALL
    SELECT $1::smallint, x.run_id, x.path, 1, 'o'::"char", x.data
    FROM unnest($44::uuid[], $45::text[], $47::bytea[]) AS x (run_id, path, data)
    WHERE x.data IS NOT NULL AND (SELECT whole FROM gate)
), told AS (
    INSERT INTO run_events (bucket, run_id, seq, format, type, at, path, attempt, event, actions)
    SELECT $1::smallint, x.run_id, x.seq, $48::smallint, x.type, $2::timestamptz, x.path, x.attempt, x.event, x.actions
    FROM unnest($49::uuid[], $50::bigint[], $51::text[], $52::text[], $53::bigint[], $54::bytea[], $55::bytea[])
        AS x (run_id, seq, type, path, attempt, event, actions)
    WHERE (SELECT whole FROM gate)
), sent AS (
    INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, body, trace,
                        created_at)
    SELECT $1::smallint, x.outbox_id, 'dispatch', x.run_id, ($6::text[])[x.spec], x.path, 1, ($7::text[])[x.spec],
           ($8::text[])[x.spec], NULL, x.trace, $2::timestamptz
    FROM unnest($32::uuid[], $33::text[], $34::integer[], $42::uuid[], $43::text[])
        AS x (run_id, path, spec, outbox_id, trace)
    WHERE x.outbox_id IS NOT NULL AND (SELECT whole FROM gate)
    RETURNING 1
), over AS (
    DELETE FROM timers WHERE bucket = $1 AND run_id = ANY ($56::uuid[]) AND (SELECT whole FROM gate)
)
SELECT whole, CASE WHEN EXISTS (SELECT 1 FROM sent) THEN pg_notify('headway_outbox', $1::smallint::text) END AS told,
       1 / CASE WHEN NOT whole OR (SELECT count(*) FROM done WHERE handler <> '') = cardinality($28::uuid[]) THEN 1 ELSE 0 END
       AS certain
FROM gate;
