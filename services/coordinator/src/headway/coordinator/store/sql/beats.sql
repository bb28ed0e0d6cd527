-- Statements on `beats`. One bucket each; rows are found as in tasks.sql.

-- name: put_beats
-- Signs of life that came with renewals, of attempts that are held as they say.
INSERT INTO beats AS b (bucket, run_id, path, generation, attempt, beat_at, progress_at, percent, message, checkpoint)
SELECT $1, t.run_id, t.path, t.generation, t.attempt, now() - x.age_ms * interval '1 millisecond',
       now() - x.progress_age_ms * interval '1 millisecond', x.percent, x.message, x.checkpoint
FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::real[], $9::text[],
            $10::bytea[])
    AS x (run_id, path, attempt, owner, age_ms, progress_age_ms, percent, message, checkpoint)
CROSS JOIN LATERAL (
    SELECT run_id, path, generation, attempt
    FROM tasks
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND attempt = x.attempt AND owner = x.owner
      AND state IS NOT DISTINCT FROM 'running'
    LIMIT 1
) AS t
ON CONFLICT (bucket, run_id, path) DO UPDATE
SET generation = EXCLUDED.generation, attempt = EXCLUDED.attempt,
    beat_at = CASE WHEN b.attempt = EXCLUDED.attempt THEN GREATEST(EXCLUDED.beat_at, b.beat_at) ELSE EXCLUDED.beat_at END,
    progress_at = CASE WHEN b.attempt = EXCLUDED.attempt THEN GREATEST(EXCLUDED.progress_at, b.progress_at)
                       ELSE EXCLUDED.progress_at END,
    percent = CASE WHEN b.attempt = EXCLUDED.attempt THEN COALESCE(EXCLUDED.percent, b.percent) ELSE EXCLUDED.percent END,
    message = CASE WHEN b.attempt = EXCLUDED.attempt THEN COALESCE(EXCLUDED.message, b.message) ELSE EXCLUDED.message END,
    checkpoint = CASE WHEN b.generation = EXCLUDED.generation THEN COALESCE(EXCLUDED.checkpoint, b.checkpoint)
                      ELSE EXCLUDED.checkpoint END
WHERE b.attempt <= EXCLUDED.attempt;

-- name: put_checkpoints
-- Checkpoints that came with the report that ends their attempt.
INSERT INTO beats AS b (bucket, run_id, path, generation, attempt, beat_at, progress_at, checkpoint)
SELECT $1, x.run_id, x.path, x.generation, x.attempt, $2, $2, x.checkpoint
FROM unnest($3::uuid[], $4::text[], $5::integer[], $6::bigint[], $7::bytea[])
    AS x (run_id, path, generation, attempt, checkpoint)
ON CONFLICT (bucket, run_id, path) DO UPDATE
SET generation = EXCLUDED.generation, attempt = EXCLUDED.attempt, beat_at = EXCLUDED.beat_at,
    progress_at = EXCLUDED.progress_at, checkpoint = EXCLUDED.checkpoint
WHERE b.attempt <= EXCLUDED.attempt;

-- name: get_beats
-- The latest signs of life.
SELECT b.run_id, b.path, b.attempt, b.beat_at, b.progress_at
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, path)
CROSS JOIN LATERAL (
    SELECT run_id, path, attempt, beat_at, progress_at
    FROM beats
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path
    LIMIT 1
) AS b;

-- name: get_checkpoints
-- What earlier attempts with the same idempotency key left for the next one.
SELECT x.n, b.checkpoint
FROM unnest($2::uuid[], $3::text[], $4::integer[]) WITH ORDINALITY AS x (run_id, path, generation, n)
CROSS JOIN LATERAL (
    SELECT checkpoint
    FROM beats
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path AND generation = x.generation
      AND checkpoint IS NOT NULL
    LIMIT 1
) AS b;
