-- The only statement of the timers service: it reads, and locks and writes nothing.

-- name: read_due
-- Why: one look, over all buckets in use, at what is due by the database's clock, and at what will be within the next
-- poll, so that it is met on time. What is being told already, or was set aside, is passed over: $2 to $5 are its keys.
-- Each branch walks the front of a partial or plain index on the due time, and stops after $6 rows.
SELECT due.bucket, due.run_id, due.path, due.kind, due.attempt, due.late_seconds
FROM buckets AS b
CROSS JOIN LATERAL (
    (
        SELECT timers.bucket, timers.run_id, timers.path, timers.kind, timers.attempt,
               extract(epoch FROM now() - timers.due_at)::float8 AS late_seconds
        FROM timers
        WHERE timers.bucket = b.bucket
          AND timers.due_at <= now() + $1::interval
          AND (timers.run_id, timers.path, timers.kind, timers.attempt) NOT IN (
              SELECT skipped.run_id, skipped.path, skipped.kind, skipped.attempt
              FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS skipped (run_id, path, kind, attempt)
          )
        ORDER BY timers.due_at
        LIMIT $6
    )
    UNION ALL
    (
        SELECT tasks.bucket, tasks.run_id, tasks.path, 'lease' AS kind, tasks.attempt,
               extract(epoch FROM now() - tasks.lease_expires_at)::float8 AS late_seconds
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
    )
) AS due;
