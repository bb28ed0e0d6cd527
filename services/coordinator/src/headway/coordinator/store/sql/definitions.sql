-- Statements on `definitions`, `settings` and `buckets`.

-- name: get_plan
-- The plan that a run is pinned to.
SELECT plan FROM definitions WHERE namespace = $1 AND workflow = $2 AND version = $3;

-- name: get_definition
-- One version, to be shown; 0: the deployed one.
SELECT namespace, workflow, version, deployed, digest, created_at, source, plan
FROM definitions
WHERE namespace = $1 AND workflow = $2 AND ($3 = 0 AND deployed OR version = $3);

-- name: list_definitions
-- All versions, of one workflow or of all.
SELECT namespace, workflow, version, deployed, digest, created_at
FROM definitions
WHERE namespace = $1 AND ($2 = '' OR workflow = $2)
ORDER BY workflow, version DESC;

-- name: lock_workflow
-- Deploys of one workflow come one after another: the lock is on its rows, and on its name while it has none.
SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0));

-- name: get_versions
-- What is stored of a workflow.
SELECT version, digest, deployed FROM definitions WHERE namespace = $1 AND workflow = $2 ORDER BY version;

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

-- name: get_setting
-- A live setting.
SELECT value FROM settings WHERE name = $1;

-- name: list_buckets
-- Buckets that hold runs.
SELECT bucket FROM buckets ORDER BY bucket;

-- name: add_bucket
-- A bucket that new runs may go to.
INSERT INTO buckets (bucket) VALUES ($1) ON CONFLICT DO NOTHING;
