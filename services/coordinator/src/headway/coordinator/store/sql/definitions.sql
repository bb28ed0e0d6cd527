-- Statements on `definitions`, `settings` and `buckets`.

-- name: get_plan
-- The plan that a run is pinned to, also of a version that was deleted while the run was starting.
SELECT plan FROM definitions WHERE namespace = $1 AND workflow = $2 AND version = $3;

-- name: get_definition
-- One version, to be shown; 0: the deployed one.
SELECT namespace, workflow, version, deployed, digest, created_at, source, plan
FROM definitions
WHERE namespace = $1 AND workflow = $2 AND ($3 = 0 AND deployed OR version = $3) AND deleted_at IS NULL;

-- name: list_definitions
-- All versions, of one workflow or of all.
SELECT namespace, workflow, version, deployed, digest, created_at
FROM definitions
WHERE namespace = $1 AND ($2 = '' OR workflow = $2) AND deleted_at IS NULL
ORDER BY workflow, version DESC;

-- name: lock_workflow
-- Deploys of one workflow come one after another: the lock is on its rows, and on its name while it has none.
SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0));

-- name: get_versions
-- What is stored of a workflow, deleted versions included.
SELECT version, digest, deployed, deleted_at FROM definitions WHERE namespace = $1 AND workflow = $2 ORDER BY version;

-- name: insert_definition
-- A new version, not deployed yet.
INSERT INTO definitions (namespace, workflow, version, digest, source, plan, retention, deployed, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, false, now());

-- name: undeploy
-- Nothing is deployed for a moment, inside the transaction: only one version ever is.
UPDATE definitions SET deployed = false WHERE namespace = $1 AND workflow = $2 AND deployed;

-- name: deploy
-- New runs take this version from now on.
UPDATE definitions SET deployed = true WHERE namespace = $1 AND workflow = $2 AND version = $3;

-- name: delete_version
-- No run can be started on it from now on. The plan stays for those that are starting.
UPDATE definitions SET deleted_at = now() WHERE namespace = $1 AND workflow = $2 AND version = $3 AND NOT deployed;

-- name: find_runs_of_version
-- Runs that need a version, the latest first. None is older than the version ($4).
SELECT run_id, finished_at IS NULL AS is_open
FROM runs
WHERE namespace = $1 AND workflow = $2 AND version = $3 AND created_at >= $4
ORDER BY created_at DESC, run_id DESC
LIMIT $5;

-- name: empty_deleted
-- Versions that were deleted so long ago that no start can still be on its way to them: only their numbers are kept.
UPDATE definitions AS d SET source = '', plan = ''
WHERE d.namespace = $1 AND d.deleted_at < now() - interval '1 day' AND d.plan <> ''
  AND NOT EXISTS (
      SELECT 1 FROM runs
      WHERE namespace = d.namespace AND workflow = d.workflow AND version = d.version AND created_at >= d.created_at
  );

-- name: count_open_runs
-- Open runs of a workflow by version, of each at most $3.
SELECT d.version, c.runs
FROM definitions AS d
CROSS JOIN LATERAL (
    SELECT count(*) AS runs
    FROM (
        SELECT 1
        FROM unnest(ARRAY['pending', 'running']) AS s (state)
        CROSS JOIN LATERAL (
            SELECT 1
            FROM runs
            WHERE namespace = $1 AND workflow = $2 AND version = d.version AND state = s.state AND failure_class = ''
            LIMIT $3
        ) AS r
        LIMIT $3
    ) AS open
) AS c
WHERE d.namespace = $1 AND d.workflow = $2 AND c.runs > 0
ORDER BY d.version;

-- name: get_setting
-- A live setting.
SELECT value FROM settings WHERE name = $1;

-- name: list_buckets
-- Buckets that hold runs.
SELECT bucket FROM buckets ORDER BY bucket;

-- name: add_bucket
-- A bucket that new runs may go to.
INSERT INTO buckets (bucket) VALUES ($1) ON CONFLICT DO NOTHING;
