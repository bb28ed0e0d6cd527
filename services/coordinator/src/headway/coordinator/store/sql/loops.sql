-- Statements on `loops` and `scopes`: maps and repeats, their items and iterations. One bucket each.

-- name: get_loops
-- How far some maps and repeats are.
SELECT l.run_id, l.path, l.attempt, l.total, l.source, l.started, l.open, l.succeeded, l.failed, l.cancelled,
       l.output_bytes, l.output_path, l.output_attempt, l.failures, l.stop, l.closing, l.cursor, l.redo_from,
       l.redo_failed, l.redo_chosen, l.undone, l.left_out
FROM unnest($2::uuid[], $3::text[]) AS x (run_id, path)
CROSS JOIN LATERAL (
    SELECT run_id, path, attempt, total, source, started, open, succeeded, failed, cancelled, output_bytes, output_path,
           output_attempt, failures, stop, closing, cursor, redo_from, redo_failed, redo_chosen, undone, left_out
    FROM loops
    WHERE bucket = $1 AND run_id = x.run_id AND path = x.path
    LIMIT 1
) AS l;

-- name: get_scopes
-- Some items and iterations.
SELECT s.run_id, s.path, s.loop, s.index, s.created_at, s.state, s.attempt, s.failing, s.stopped, s.open_tasks,
       s.succeeded_tasks, s.unhandled_tasks, s.error, s.output_path, s.output_attempt, s.output_bytes, s.finished_at,
       s.undone, s.place
FROM unnest($2::uuid[], $3::text[], $4::integer[]) AS x (run_id, loop, index)
CROSS JOIN LATERAL (
    SELECT run_id, path, loop, index, created_at, state, attempt, failing, stopped, open_tasks, succeeded_tasks,
           unhandled_tasks, error, output_path, output_attempt, output_bytes, finished_at, undone, place
    FROM scopes
    WHERE bucket = $1 AND run_id = x.run_id AND loop = x.loop AND index = x.index
    LIMIT 1
) AS s;

-- name: get_scopes_in_order
-- A page of the items of a map that are in one of some states, or were undone if $7 says so, from an index on.
SELECT run_id, path, loop, index, created_at, state, attempt, failing, stopped, open_tasks, succeeded_tasks,
       unhandled_tasks, error, output_path, output_attempt, output_bytes, finished_at, undone, place
FROM scopes
WHERE bucket = $1 AND run_id = $2 AND loop = $3 AND index >= $4 AND (state = ANY ($5::text[]) OR undone AND $7)
ORDER BY index
LIMIT $6;

-- name: get_results
-- What the items of a map gave.
SELECT s.index, o.data
FROM (
    SELECT index, output_path, output_attempt
    FROM scopes
    WHERE bucket = $1 AND run_id = $2 AND loop = $3 AND output_path IS NOT NULL
    ORDER BY index
) AS s
CROSS JOIN LATERAL (
    SELECT data
    FROM outputs
    WHERE bucket = $1 AND run_id = $2 AND path = s.output_path AND attempt = s.output_attempt AND role = 'o'
    LIMIT 1
) AS o;

-- name: put_loops
-- Maps and repeats after their events; the run's lock guards them.
INSERT INTO loops (bucket, run_id, path, attempt, total, source, started, open, succeeded, failed, cancelled,
                   output_bytes, output_path, output_attempt, failures, stop, closing, cursor, redo_from, redo_failed,
                   redo_chosen, undone, left_out)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::integer[], $6::text[], $7::integer[],
    $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::bigint[], $13::text[], $14::bigint[],
    $15::bytea[], $16::text[], $17::boolean[], $18::integer[], $19::integer[], $20::boolean[], $21::bigint[],
    $22::boolean[], $23::integer[]) AS x
ON CONFLICT (bucket, run_id, path) DO UPDATE
SET attempt = EXCLUDED.attempt, total = EXCLUDED.total, source = EXCLUDED.source, started = EXCLUDED.started,
    open = EXCLUDED.open, succeeded = EXCLUDED.succeeded, failed = EXCLUDED.failed, cancelled = EXCLUDED.cancelled,
    output_bytes = EXCLUDED.output_bytes, output_path = EXCLUDED.output_path, output_attempt = EXCLUDED.output_attempt,
    failures = EXCLUDED.failures, stop = EXCLUDED.stop, closing = EXCLUDED.closing, cursor = EXCLUDED.cursor,
    redo_from = EXCLUDED.redo_from, redo_failed = EXCLUDED.redo_failed, redo_chosen = EXCLUDED.redo_chosen,
    undone = EXCLUDED.undone, left_out = EXCLUDED.left_out;

-- name: put_scopes
-- Items and iterations after their events; the run's lock guards them.
INSERT INTO scopes (bucket, run_id, path, loop, index, created_at, state, attempt, failing, stopped, open_tasks,
                    succeeded_tasks, unhandled_tasks, error, output_path, output_attempt, output_bytes, finished_at, undone,
                    place)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::integer[], $6::timestamptz[], $7::text[],
    $8::bigint[], $9::boolean[], $10::boolean[], $11::integer[], $12::integer[], $13::integer[], $14::bytea[],
    $15::text[], $16::bigint[], $17::integer[], $18::timestamptz[], $19::boolean[], $20::integer[]) AS x
ON CONFLICT (bucket, run_id, loop, index) DO UPDATE
SET state = EXCLUDED.state, attempt = EXCLUDED.attempt, failing = EXCLUDED.failing, stopped = EXCLUDED.stopped,
    open_tasks = EXCLUDED.open_tasks, succeeded_tasks = EXCLUDED.succeeded_tasks,
    unhandled_tasks = EXCLUDED.unhandled_tasks, error = EXCLUDED.error, output_path = EXCLUDED.output_path,
    output_attempt = EXCLUDED.output_attempt, output_bytes = EXCLUDED.output_bytes, finished_at = EXCLUDED.finished_at,
    undone = EXCLUDED.undone, place = EXCLUDED.place;

-- name: delete_scope
-- A finished iteration that a repeat does not keep; many in one exchange.
DELETE FROM scopes WHERE bucket = $1 AND run_id = $2 AND loop = $3 AND index = $4;

-- name: delete_scope_tasks
-- The tasks of such an iteration.
DELETE FROM tasks WHERE bucket = $1 AND run_id = $2 AND path = ANY ($3::text[]);

-- name: delete_scope_tokens
-- Their tokens.
DELETE FROM tokens WHERE bucket = $1 AND run_id = $2 AND path = ANY ($3::text[]);

-- name: delete_scope_attempts
-- Their attempts.
DELETE FROM attempts WHERE bucket = $1 AND run_id = $2 AND path = ANY ($3::text[]);

-- name: delete_scope_children
-- The same, of the runs that they started.
DELETE FROM children WHERE bucket = $1 AND run_id = $2 AND path = ANY ($3::text[]);

-- name: delete_scope_beats
-- What their handlers told of themselves.
DELETE FROM beats WHERE bucket = $1 AND run_id = $2 AND path = ANY ($3::text[]);

-- name: delete_scope_outputs
-- Their payloads, and the iteration's own.
DELETE FROM outputs WHERE bucket = $1 AND run_id = $2 AND path = ANY ($3::text[]);

-- name: get_run_loops
-- How far the maps and repeats are whose paths are named, to be shown; where something was undone, in how many items.
SELECT l.path, l.total, l.left_out, l.started, l.open, l.succeeded, l.failed, l.cancelled, l.output_bytes,
       CASE WHEN l.undone THEN (
           SELECT count(*) FROM scopes WHERE bucket = $1 AND run_id = $2 AND loop = l.path AND undone
       ) ELSE 0 END AS undone
FROM unnest($3::text[]) AS x (path)
CROSS JOIN LATERAL (
    SELECT path, total, left_out, started, open, succeeded, failed, cancelled, output_bytes, undone
    FROM loops
    WHERE bucket = $1 AND run_id = $2 AND path = x.path
    LIMIT 1
) AS l;

-- name: count_items
-- How the items of some maps, or the iterations of some repeats, ended, and the first of each sort. What lies beyond
-- `started` is left from before the map began anew. Items that were left out are none.
SELECT l.path, l.total - l.left_out AS total, l.started, s.state, s.undone, s.count, s.first
FROM unnest($3::text[]) AS x (path)
CROSS JOIN LATERAL (
    SELECT path, total, left_out, started
    FROM loops
    WHERE bucket = $1 AND run_id = $2 AND path = x.path
    LIMIT 1
) AS l
LEFT JOIN LATERAL (
    SELECT state, undone, count(*) AS count, (array_agg(index ORDER BY index))[:$4::integer] AS first
    FROM scopes
    WHERE bucket = $1 AND run_id = $2 AND loop = l.path AND index < l.started
    GROUP BY state, undone
) AS s ON true
ORDER BY l.path;

-- name: get_run_items
-- A page of the items of a map, or iterations of a repeat, to be shown; results up to a size, and their size. What lies beyond `started`
-- is left from before the map began anew.
SELECT s.path, s.index, s.place, s.state, s.attempt, s.error, s.created_at, s.finished_at, s.undone,
       CASE WHEN octet_length(o.data) <= $6 THEN o.data END AS output, octet_length(o.data) AS output_bytes
FROM (
    SELECT path, index, place, state, attempt, error, created_at, finished_at, undone, output_path, output_attempt
    FROM scopes
    WHERE bucket = $1 AND run_id = $2 AND loop = $3 AND index >= $4 AND ($7 = '' OR state = $7)
      AND index < (SELECT started FROM loops WHERE bucket = $1 AND run_id = $2 AND path = $3)
    ORDER BY index
    LIMIT $5
) AS s
LEFT JOIN LATERAL (
    SELECT data
    FROM outputs
    WHERE bucket = $1 AND run_id = $2 AND path = s.output_path AND attempt = s.output_attempt AND role = 'o'
    LIMIT 1
) AS o ON true
ORDER BY s.index;

-- name: count_effects
-- How often nodes that can be undone did what stands, by the node of the workflow's own graph that it was in. What nobody
-- knows the end of is taken up by a retry under the same idempotency key.
SELECT split_part(path, '[', 1) AS node, count(*) AS count
FROM effects
WHERE bucket = $1 AND run_id = $2 AND gave <> 'unknown'
GROUP BY 1;

-- name: get_latest_effects
-- What nodes that can be undone did last, before a place.
SELECT place, path, attempt, gave
FROM effects
WHERE bucket = $1 AND run_id = $2 AND place < $3
ORDER BY place DESC
LIMIT $4;

-- name: get_first_waits
-- Nodes that wait for a signal of a name, in the order in which they began to: the first, or all behind a place.
SELECT path, place
FROM waits
WHERE bucket = $1 AND run_id = $2 AND name = $3 AND place > $4 AND place > 0
ORDER BY place
LIMIT $5;

-- name: put_waits
-- Nodes that begin to wait for a signal; some waited for one when the batch began.
INSERT INTO waits (bucket, run_id, path, name, place)
SELECT $1, x.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS x
ON CONFLICT (bucket, run_id, path) DO UPDATE SET name = EXCLUDED.name, place = EXCLUDED.place;

-- name: delete_wait
-- One that waits no more; many in one exchange.
DELETE FROM waits WHERE bucket = $1 AND run_id = $2 AND path = $3;

-- name: put_effects
-- What nodes that can be undone did; of what may have been undone, that it is an effect apart.
INSERT INTO effects (bucket, run_id, place, path, attempt, gave)
SELECT $1, x.* FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::text[]) AS x
ON CONFLICT (bucket, run_id, place) DO UPDATE SET gave = EXCLUDED.gave;

-- name: delete_effect
-- One that was undone, or done anew; many in one exchange.
DELETE FROM effects WHERE bucket = $1 AND run_id = $2 AND place = $3;
