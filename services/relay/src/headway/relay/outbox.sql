-- The relay's statements: it reads `buckets`, and claims and deletes rows of `outbox`. Nothing else is its business.

-- name: read_backlog
-- Why: one cheap, lock-free look at all buckets finds what a lost NOTIFY would have left lying; the oldest row of a
-- bucket is the first by key, because outbox_id is ordered by time.
SELECT b.bucket, extract(epoch FROM now() - o.created_at)::float8 AS oldest_seconds,
       extract(epoch FROM now() - h.created_at)::float8 AS handover_seconds
FROM buckets AS b
LEFT JOIN LATERAL (
    SELECT outbox.created_at
    FROM outbox
    WHERE outbox.bucket = b.bucket
    ORDER BY outbox.outbox_id
    LIMIT 1
) AS o ON TRUE
LEFT JOIN LATERAL (
    SELECT outbox.created_at
    FROM outbox
    WHERE outbox.bucket = b.bucket
      AND outbox.kind = 'handover'
    ORDER BY outbox.outbox_id
    LIMIT 1
) AS h ON TRUE
ORDER BY b.bucket;

-- name: count_outbox
-- Why: the depth, for the metric only, and seldom: it reads the whole outbox.
SELECT count(*) AS rows
FROM outbox;

-- name: take_dispatches
-- Why: several relays share a bucket: each takes rows that nobody else holds, and deletes them; the transaction commits
-- only when they are published. Rows and streams set aside after a failure are passed over, so that they never fill the
-- batch. The last column says whether hand-overs wait in the bucket too.
WITH taken AS (
    DELETE FROM outbox
    WHERE bucket = $1
      AND outbox_id = ANY (ARRAY (
          SELECT outbox_id
          FROM outbox
          WHERE bucket = $1
            AND kind = 'dispatch'
            AND outbox_id <> ALL ($2::uuid[])
            AND namespace || '/' || queue <> ALL ($3::text[])
          ORDER BY outbox_id
          LIMIT $4
          FOR UPDATE SKIP LOCKED
      ))
    RETURNING outbox_id, run_id, namespace, path, attempt, queue, handler, trace, created_at
)
SELECT outbox_id, run_id, namespace, path, attempt, queue, handler, trace,
       date_part('epoch', statement_timestamp() - created_at) AS age_seconds,
       EXISTS (SELECT FROM outbox WHERE bucket = $1 AND kind = 'handover') AS beside_handovers
FROM taken
ORDER BY outbox_id;

-- name: claim_handovers
-- Why: apart from the dispatches, so that a coordinator that is slow or down never holds them up.
SELECT outbox_id, run_id, body, trace
FROM outbox
WHERE bucket = $1
  AND kind = 'handover'
  AND outbox_id <> ALL ($2::uuid[])
ORDER BY outbox_id
LIMIT $3
FOR UPDATE SKIP LOCKED;

-- name: delete_rows
-- Why: after they were carried out.
DELETE FROM outbox
WHERE bucket = $1
  AND outbox_id = ANY ($2::uuid[]);

-- name: read_unpublished
-- Why: a task whose dispatch still waits here is not lost, whatever the broker says. Looks at the oldest rows of each
-- bucket only ($1 of them); a bucket that has more is behind, and then nothing can be said.
SELECT o.bucket, o.namespace, o.queue, count(*) AS rows,
       extract(epoch FROM now() - min(o.created_at))::float8 AS oldest_seconds
FROM buckets AS b
CROSS JOIN LATERAL (
    SELECT outbox.bucket, outbox.namespace, outbox.queue, outbox.created_at
    FROM outbox
    WHERE outbox.bucket = b.bucket
      AND outbox.kind = 'dispatch'
    ORDER BY outbox.outbox_id
    LIMIT $1
) AS o
GROUP BY o.bucket, o.namespace, o.queue;

-- name: plan_once
-- Why: a statement is planned once for each connection, and by its index whatever the outbox's size at the moment. Citus
-- refuses generic plans.
SELECT set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false)
WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus');

-- name: limit_transactions
-- Why: rows that a frozen relay has claimed are free again after a while, whatever the server waits for from it. Before
-- PostgreSQL 17 a single statement can be limited only.
SELECT set_config(
    CASE
        WHEN current_setting('transaction_timeout', true) IS NULL THEN 'statement_timeout'
        ELSE 'transaction_timeout'
    END, $1, false
);
