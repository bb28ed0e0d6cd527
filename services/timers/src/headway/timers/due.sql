-- The statements of the timers service: they read, and lock and write nothing.

-- name: read_timers
-- Why: one look, over all buckets in use, at the timers that are due by the database's clock, and at those that will be
-- within $1, so that they are met on time. What is being told already, or was set aside, is passed over: $2 to $5 are its
-- keys. Walks the front of the index on the due time of each bucket, and stops after $6 rows.
SELECT due.bucket, due.run_id, due.path, due.kind, due.attempt, due.late_seconds
FROM buckets AS b
CROSS JOIN LATERAL (
    SELECT timers.bucket, timers.run_id, timers.path, timers.kind, timers.attempt,
           date_part('epoch', now() - timers.due_at) AS late_seconds
    FROM timers
    WHERE timers.bucket = b.bucket
      AND timers.due_at <= now() + $1::interval
      AND (timers.run_id, timers.path, timers.kind, timers.attempt) NOT IN (
          SELECT skipped.run_id, skipped.path, skipped.kind, skipped.attempt
          FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS skipped (run_id, path, kind, attempt)
      )
    ORDER BY timers.due_at
    LIMIT $6
) AS due;

-- name: read_leases
-- Why: the same for leases that nobody renewed.
SELECT due.bucket, due.run_id, due.path, 'lease' AS kind, due.attempt, due.late_seconds
FROM buckets AS b
CROSS JOIN LATERAL (
    SELECT tasks.bucket, tasks.run_id, tasks.path, tasks.attempt,
           date_part('epoch', now() - tasks.lease_expires_at) AS late_seconds
    FROM tasks
    WHERE tasks.bucket = b.bucket
      AND tasks.state = 'running'
      AND tasks.lease_expires_at <= now() + $1::interval
      AND (tasks.run_id, tasks.path, 'lease', tasks.attempt) NOT IN (
          SELECT skipped.run_id, skipped.path, skipped.kind, skipped.attempt
          FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS skipped (run_id, path, kind, attempt)
      )
    ORDER BY tasks.lease_expires_at
    LIMIT $6
) AS due;

-- name: plan_once
-- Why: a statement is planned once for each connection, and by its index whatever the tables' size at the moment. Citus
-- refuses generic plans.
SELECT set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false)
WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus');

-- name: limit_transactions
-- Why: a frozen process must not keep the server from vacuuming what it looked at, whatever the server waits for from
-- it. Before PostgreSQL 17 a single statement can be limited only.
SELECT set_config(
    CASE
        WHEN current_setting('transaction_timeout', true) IS NULL THEN 'statement_timeout'
        ELSE 'transaction_timeout'
    END, $1, false
);
