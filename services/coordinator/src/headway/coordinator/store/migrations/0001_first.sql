-- The first schema. In the tables that every step writes, columns stand by their size, so that no padding lies between
-- them; in runs and tasks those that a step changes come last, for the log takes of a row that is changed within its page
-- only what lies between the first and the last change (docs/adr/0017).
-- Every table of a run has the bucket as the first column of every key and hot index, so that the
-- same statements run on one PostgreSQL and on Citus distributed by bucket. There are no foreign keys between them: rows
-- of a run are only written and deleted by a transaction that holds the run's row.

CREATE TABLE definitions (
    namespace   text        NOT NULL,
    workflow    text        NOT NULL,
    version     integer     NOT NULL,
    digest      text        NOT NULL,               -- SHA-256 of the source, hex
    source      text        NOT NULL,               -- YAML as it was deployed
    plan        bytea       NOT NULL,               -- compiled plan, JSON; never recompiled
    deployed    boolean     NOT NULL,
    retention   jsonb,                              -- state: milliseconds that finished runs are kept; NULL: for ever
    created_at  timestamptz NOT NULL,
    deleted_at  timestamptz,                        -- since when it cannot be started; its row keeps the number from being given again
    CONSTRAINT definitions_pkey PRIMARY KEY (namespace, workflow, version),
    CONSTRAINT definitions_deployed_is_there CHECK (NOT (deployed AND deleted_at IS NOT NULL)),
    CONSTRAINT definitions_version_positive CHECK (version > 0),
    -- Part of the names of streams at the broker, which are built with / and braces.
    CONSTRAINT definitions_namespace CHECK (namespace ~ '^[A-Za-z0-9_.-]{1,63}$')
);
CREATE UNIQUE INDEX definitions_content_once ON definitions (namespace, workflow, digest) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX definitions_one_deployed ON definitions (namespace, workflow) WHERE deployed;

-- A row in namespace '' is the tombstone of a deleted run with a key: see store/deleting.py.
CREATE TABLE runs (
    created_at      timestamptz NOT NULL,
    bucket          smallint    NOT NULL,
    run_id          uuid        NOT NULL,           -- its last 16 bits are the bucket
    version         integer     NOT NULL,
    epoch           integer     NOT NULL,
    namespace       text        NOT NULL,
    workflow        text        NOT NULL,
    key             text,                           -- idempotency key it was started with
    trace           text        NOT NULL,           -- W3C traceparent of the start span; '' without tracing
    seq             bigint      NOT NULL,           -- of the latest event
    last_event_at   timestamptz NOT NULL,
    open_tasks      integer     NOT NULL,           -- tasks in a state that is not final
    succeeded_tasks integer     NOT NULL,
    unhandled_tasks integer     NOT NULL,           -- failed, and neither handled nor tolerated nor optional
    state           text        NOT NULL,
    failure_class   text        NOT NULL DEFAULT '', -- of the error, for lists; '' without one
    cancelling      boolean     NOT NULL,           -- a user cancelled it
    failing         boolean     NOT NULL,           -- an unhandled failure stops it
    expired         boolean     NOT NULL,           -- its deadline passed
    finished_at     timestamptz,
    output_attempt  bigint,
    output_path     text,                           -- where the output is: outputs (path, attempt)
    finish_path     text,                           -- the finish node that ran
    ending          text,                           -- 'compensating', or not to be: 'uncompensated'; 'concluded': finally runs, or ran
    error           bytea,                          -- JSON {failure_class, message, paths}; set when failed or cancelled
    vars            bytea       NOT NULL,           -- JSON object, written by `set` nodes
    paused_at       timestamptz,                    -- nothing is dispatched until it is resumed
    steering        bytea,                          -- JSON: what people asked of it, and what is held by a pause
    parent          bytea,                          -- JSON {run_id, path, attempt, place, attempts, detached}: whose child
    CONSTRAINT runs_pkey PRIMARY KEY (bucket, run_id),
    CONSTRAINT runs_state CHECK (state IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT runs_ending CHECK (ending IN ('compensating', 'uncompensated', 'concluded')),
    CONSTRAINT runs_final_has_end CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT runs_error_when_not_succeeded CHECK ((state IN ('failed', 'cancelled')) = (error IS NOT NULL)),
    CONSTRAINT runs_paused_is_running CHECK (paused_at IS NULL OR state = 'running'),
    -- Lists look for these pairs and no others.
    CONSTRAINT runs_failure_class CHECK (CASE state
        WHEN 'failed' THEN failure_class IN ('timeout', 'exec_failed', 'verdict_fail')
        WHEN 'cancelled' THEN failure_class = 'cancelled'
        ELSE failure_class = '' END),
    CONSTRAINT runs_final_has_no_open_tasks CHECK (finished_at IS NULL OR open_tasks = 0),
    CONSTRAINT runs_counts_not_negative CHECK (open_tasks >= 0 AND succeeded_tasks >= 0 AND unhandled_tasks >= 0)
) WITH (fillfactor = 60);
-- Over all buckets, for lists: see lists.sql. They serve only statements that compare a workflow, as look-ups of runs by
-- key do not: on a table that was empty when it was analyzed all indexes seem to cost the same (docs/adr/0011).
CREATE INDEX runs_by_creation ON runs (namespace, workflow, version, state, failure_class, created_at, run_id)
    WHERE workflow IS NOT NULL;
CREATE INDEX runs_by_end ON runs (namespace, workflow, version, state, failure_class, finished_at, run_id)
    WHERE workflow IS NOT NULL AND finished_at IS NOT NULL;
-- A row has an entry only while its run is paused, so that no other update writes to it or is kept from being heap-only.
CREATE INDEX runs_paused ON runs (namespace, created_at, run_id) WHERE paused_at IS NOT NULL;

-- What a run is called besides, as it was started; few runs have any.
CREATE TABLE run_labels (
    bucket     smallint    NOT NULL,
    run_id     uuid        NOT NULL,
    name       text        NOT NULL,
    value      text        NOT NULL,
    namespace  text        NOT NULL,
    created_at timestamptz NOT NULL,                -- of the run
    CONSTRAINT run_labels_pkey PRIMARY KEY (bucket, run_id, name)
);
CREATE INDEX run_labels_by_value ON run_labels (namespace, name, value, created_at, run_id)
    WHERE namespace IS NOT NULL; -- as runs_by_creation

-- Payloads, stored once, never changed. A row for: the run's input (path '', role 'input', attempt 0); a task's
-- rendered input (role 'input', at the attempt that rendered it); a task's output (role 'output', at its attempt); a
-- hundred items of a map's list (role 'list', at the path of the first of them); an item's computed result (role 'output');
-- which nodes in a map a retry is to redo (role 'chosen').
CREATE TABLE outputs (
    attempt  bigint   NOT NULL,
    bucket   smallint NOT NULL,
    run_id   uuid     NOT NULL,
    role     "char"   NOT NULL,                     -- the first letter of its name: one byte
    path     text     NOT NULL,
    data     bytea    NOT NULL,                     -- JSON, UTF-8, checked before it is written
    CONSTRAINT outputs_pkey PRIMARY KEY (bucket, run_id, path, role, attempt),
    CONSTRAINT outputs_role CHECK (role IN ('i', 'o', 'l', 'c'))
);

CREATE TABLE tasks (
    attempt             bigint      NOT NULL,       -- fencing number
    input_attempt       bigint,
    created_at          timestamptz NOT NULL,
    ready_at            timestamptz,                -- of this attempt
    started_at          timestamptz,                -- first lease ever
    leased_at           timestamptz,                -- of this attempt
    generation          integer     NOT NULL,       -- of the idempotency key
    tries               integer     NOT NULL,       -- failures counted against max_attempts
    losses              integer     NOT NULL,       -- lost leases counted against max_losses
    lease_ms            integer     NOT NULL,       -- how long a lease lasts
    attempt_timeout_ms  integer,                    -- how long an attempt may take
    bucket              smallint    NOT NULL,
    run_id              uuid        NOT NULL,
    input_role          "char",
    path                text        NOT NULL,       -- the node's id; inside map and repeat, more
    namespace           text        NOT NULL,
    queue               text        NOT NULL,       -- '' for control and wait nodes
    handler             text        NOT NULL,       -- '' for control and wait nodes
    input_path          text,                       -- where the input is: outputs (path, attempt, role)
    owner               text,                       -- who holds this attempt, while running; or held it when it ended
    output_attempt      bigint,                     -- set when it succeeded: outputs (this path, this attempt, 'output')
    finished_at         timestamptz,
    due_at              timestamptz,                -- when it goes on by itself: waiting, retrying
    lease_expires_at    timestamptz,
    attempt_expires_at  timestamptz,                -- when the attempt times out; may be unset
    sweep_at            timestamptz,                -- when a READY task may be dispatched again without proof of loss; unset: held by a pause
    handled_by          integer,                    -- index of the edge that took the failure
    eager_grants        smallint    NOT NULL DEFAULT 0, -- how many leases in a row, this one included, came with a report's answer
    reported            boolean     NOT NULL,       -- the worker reported this attempt: a second report is a duplicate
    state               text        NOT NULL,
    grant_key           text,                       -- the lease: this and lease_expires_at are set exactly while running
    failure_class       text,
    error               bytea,                      -- JSON {type, message, trace, details}; kept while retrying
    disposition         text,                       -- of a failure: handled | tolerated | optional | unhandled
    cause               text,                       -- why it was stopped, or is to stop; or 'skipped': its output was given by hand; or 'unknown': it may have taken effect
    CONSTRAINT tasks_pkey PRIMARY KEY (bucket, run_id, path),
    CONSTRAINT tasks_state CHECK (state IN
        ('pending', 'ready', 'running', 'waiting', 'retrying', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT tasks_running_has_lease CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT tasks_lease_whole CHECK ((lease_expires_at IS NULL) = (grant_key IS NULL)
                                    AND (lease_expires_at IS NULL OR owner IS NOT NULL)),
    CONSTRAINT tasks_failed_has_class CHECK ((state IN ('failed', 'retrying')) = (failure_class IS NOT NULL)),
    CONSTRAINT tasks_failure_class CHECK (failure_class IN ('timeout', 'exec_failed', 'verdict_fail')),
    CONSTRAINT tasks_failed_has_disposition CHECK ((state = 'failed') = (disposition IS NOT NULL)),
    CONSTRAINT tasks_cancelled_has_cause CHECK (
        (state = 'cancelled') = (cause IS NOT NULL) OR (state = 'succeeded' AND cause = 'skipped')
        OR (state = 'failed' AND cause = 'unknown') OR state = 'running'),
    CONSTRAINT tasks_final_has_end CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT tasks_attempt_positive CHECK (attempt > 0 AND generation > 0 AND tries >= 0 AND losses >= 0)
) WITH (fillfactor = 50);
CREATE INDEX tasks_leased ON tasks (bucket, lease_expires_at) WHERE state = 'running';
CREATE INDEX tasks_ready ON tasks (bucket, sweep_at) WHERE state = 'ready';

-- Attempts that were left behind; the latest attempt stands in tasks.
CREATE TABLE attempts (
    bucket        smallint    NOT NULL,
    run_id        uuid        NOT NULL,
    path          text        NOT NULL,
    attempt       bigint      NOT NULL,
    owner         text,
    leased_at     timestamptz,
    ended_at      timestamptz NOT NULL,
    outcome       text        NOT NULL,             -- succeeded | failed | cancelled | released | lost | timeout | unknown
    reported      boolean     NOT NULL,             -- its worker reported it: a second report is a duplicate
    failure_class text,
    error         bytea,
    CONSTRAINT attempts_pkey PRIMARY KEY (bucket, run_id, path, attempt)
);

-- The latest signs of life of handlers that give some, written with renewals and never part of a history. A checkpoint is
-- for the next attempt with the same idempotency key.
CREATE TABLE beats (
    bucket      smallint    NOT NULL,
    run_id      uuid        NOT NULL,
    path        text        NOT NULL,
    generation  integer     NOT NULL,
    attempt     bigint      NOT NULL,
    beat_at     timestamptz NOT NULL,
    progress_at timestamptz,                        -- when its percent, message or checkpoint was last new
    percent     real,
    message     text,
    checkpoint  bytea,                              -- JSON
    CONSTRAINT beats_pkey PRIMARY KEY (bucket, run_id, path)
) WITH (fillfactor = 60);

-- Tokens that reached a node with several incoming edges; bit i belongs to its i-th incoming edge.
CREATE TABLE tokens (
    bucket  smallint NOT NULL,
    run_id  uuid     NOT NULL,
    path    text     NOT NULL,
    live    bytea    NOT NULL,                      -- little-endian bitmaps
    dead    bytea    NOT NULL,
    failed  bytea    NOT NULL,
    always  bytea    NOT NULL,                      -- live tokens that came by an always edge
    names   bytea    NOT NULL,                      -- JSON {edge: [[failed node, handling edge or null], …]}
    CONSTRAINT tokens_pkey PRIMARY KEY (bucket, run_id, path)
) WITH (fillfactor = 60);

-- How far maps and repeats are: a row for each that began.
CREATE TABLE loops (
    bucket         smallint NOT NULL,
    run_id         uuid     NOT NULL,
    path           text     NOT NULL,                -- of its task
    attempt        bigint   NOT NULL,                -- of its task, when its list was made
    total          integer  NOT NULL,                -- items; of a repeat, the iterations that it may have
    source         text,                             -- the map whose results it goes over
    left_out       integer  NOT NULL DEFAULT 0,      -- items that were looked at and are not begun
    started        integer  NOT NULL,                -- begun, in order
    open           integer  NOT NULL,                -- under way
    succeeded      integer  NOT NULL,
    failed         integer  NOT NULL,
    cancelled      integer  NOT NULL,
    output_bytes   bigint   NOT NULL,                -- of the results of items that succeeded
    output_path    text,                             -- of a repeat: its latest iteration's output
    output_attempt bigint,
    failures       bytea    NOT NULL,                -- JSON list: the first items that failed
    stop           text,                             -- why nothing more is begun
    closing        boolean  NOT NULL,                -- the grace is over: what still runs is closed
    cursor         integer,                          -- items from here on have not been told of the stop yet
    redo_from      integer,                          -- items from here on that did not succeed are to be done again
    redo_failed    boolean  NOT NULL,                -- of those, failed ones too
    redo_chosen    bigint,                           -- before them, the chosen ones: outputs (path, this attempt, 'chosen')
    undone         boolean  NOT NULL DEFAULT false,  -- something in its items was undone: a retry does it again
    CONSTRAINT loops_pkey PRIMARY KEY (bucket, run_id, path),
    CONSTRAINT loops_counts CHECK (open >= 0 AND succeeded >= 0 AND failed >= 0 AND cancelled >= 0
                                   AND left_out >= 0
                                   AND open + succeeded + failed + cancelled = started AND started + left_out <= total)
) WITH (fillfactor = 60);

-- Items of maps and iterations of repeats, each of which counts its tasks as a run does.
CREATE TABLE scopes (
    bucket          smallint    NOT NULL,
    run_id          uuid        NOT NULL,
    path            text        NOT NULL,           -- resize[12]
    loop            text        NOT NULL,           -- resize
    index           integer     NOT NULL,           -- 12: among those that are begun
    place           integer,                        -- in the list, where its map leaves items out; null: the index
    state           text        NOT NULL,
    attempt         bigint      NOT NULL,
    failing         boolean     NOT NULL,
    stopped         boolean     NOT NULL,           -- something in it was cut short
    open_tasks      integer     NOT NULL,
    succeeded_tasks integer     NOT NULL,
    unhandled_tasks integer     NOT NULL,
    error           bytea,                          -- JSON {failure_class, type, message, paths}
    output_path     text,                           -- where its result is: outputs (path, attempt)
    output_attempt  bigint,
    output_bytes    integer     NOT NULL,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    undone          boolean     NOT NULL DEFAULT false, -- something in it was undone since it was begun
    CONSTRAINT scopes_pkey PRIMARY KEY (bucket, run_id, loop, index),  -- the only index: no other is taken for it
    CONSTRAINT scopes_state CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT scopes_final_has_end CHECK ((state <> 'running') = (finished_at IS NOT NULL)),
    CONSTRAINT scopes_open_has_tasks CHECK ((state = 'running') = (open_tasks > 0)),
    CONSTRAINT scopes_failed_has_error CHECK ((state = 'failed') = (error IS NOT NULL))
) WITH (fillfactor = 60);

-- Nodes in bodies, or with computed names, that wait for signals: found by the name.
CREATE TABLE waits (
    bucket smallint NOT NULL,
    run_id uuid     NOT NULL,
    path   text     NOT NULL,                        -- of the task
    name   text     NOT NULL,                        -- of the signal
    place  bigint   NOT NULL,                        -- the order in which they began to wait
    CONSTRAINT waits_pkey PRIMARY KEY (bucket, run_id, path)
);
CREATE INDEX waits_by_name ON waits (bucket, run_id, name, place) WHERE place > 0; -- all: so that no other look-up takes it

-- What nodes that can be undone did, and is not undone yet; the latest is undone first.
CREATE TABLE effects (
    bucket  smallint NOT NULL,
    run_id  uuid     NOT NULL,
    place   bigint   NOT NULL,                       -- the order in which they came
    path    text     NOT NULL,                       -- of the task
    attempt bigint   NOT NULL,
    gave    text     NOT NULL,                       -- its output, nothing, or nobody knows (apart: undone, maybe)
    CONSTRAINT effects_pkey PRIMARY KEY (bucket, run_id, place),
    CONSTRAINT effects_gave CHECK (gave IN ('output', 'nothing', 'unknown', 'apart'))
);

-- Runs that subflow nodes started: a row for each attempt. In the parent's bucket.
CREATE TABLE children (
    bucket       smallint    NOT NULL,
    run_id       uuid        NOT NULL,               -- the parent
    path         text        NOT NULL,               -- of the subflow node's task
    attempt      bigint      NOT NULL,
    child_run_id uuid        NOT NULL,
    workflow     text        NOT NULL,
    version      integer     NOT NULL,               -- 0: the deployed one
    detached     boolean     NOT NULL,
    created_at   timestamptz NOT NULL,
    state        text        NOT NULL,
    stop         text,                               -- why it was told to stop
    CONSTRAINT children_pkey PRIMARY KEY (bucket, run_id, path, attempt),
    CONSTRAINT children_state CHECK (state IN
        ('open', 'succeeded', 'failed', 'cancelled', 'refused', 'unstarted', 'started', 'left', 'gone'))
) WITH (fillfactor = 60);

CREATE TABLE run_events (
    seq      bigint      NOT NULL,                  -- gap-free, from 1
    at       timestamptz NOT NULL,
    attempt  bigint      NOT NULL,                  -- 0 for the run
    bucket   smallint    NOT NULL,
    format   smallint    NOT NULL,
    run_id   uuid        NOT NULL,
    path     text        NOT NULL,                  -- '' for the run
    type     text        NOT NULL,
    event    bytea       NOT NULL,                  -- MessagePack: what the event brought, by position
    actions  bytea       NOT NULL,                  -- MessagePack: what followed, by tag and position
    CONSTRAINT run_events_pkey PRIMARY KEY (bucket, run_id, seq)
);

-- Carried out by the relay, then deleted. outbox_id is a time-ordered UUID made by the coordinator.
CREATE TABLE outbox (
    bucket     smallint    NOT NULL,
    outbox_id  uuid        NOT NULL,
    kind       text        NOT NULL,
    run_id     uuid        NOT NULL,                -- dispatch: of the task; handover: the run it is for
    namespace  text        NOT NULL,
    path       text        NOT NULL,                -- '' for a handover
    attempt    bigint      NOT NULL,                -- 0 for a handover
    queue      text        NOT NULL,                -- '' for a handover
    handler    text        NOT NULL,                -- '' for a handover
    body       bytea,                               -- handover: JSON {"type": …, "event": {…}}
    trace      text        NOT NULL,                -- W3C traceparent of the decision; '' without tracing
    created_at timestamptz NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (bucket, outbox_id),
    CONSTRAINT outbox_kind CHECK (kind IN ('dispatch', 'handover')),
    CONSTRAINT outbox_handover_has_body CHECK ((kind = 'handover') = (body IS NOT NULL)),
    CONSTRAINT outbox_dispatch_is_addressed CHECK (kind <> 'dispatch' OR (queue <> '' AND handler <> ''))
);
-- Hand-overs are few among many dispatches, and claimed apart from them.
CREATE INDEX outbox_handovers ON outbox (bucket, outbox_id) WHERE kind = 'handover';

CREATE TABLE timers (
    bucket   smallint    NOT NULL,
    run_id   uuid        NOT NULL,
    path     text        NOT NULL,                  -- '' for the run
    kind     text        NOT NULL,
    attempt  bigint      NOT NULL,                  -- 0 for the run
    due_at   timestamptz NOT NULL,
    CONSTRAINT timers_pkey PRIMARY KEY (bucket, run_id, path, kind, attempt),
    CONSTRAINT timers_kind CHECK (kind IN
        ('wait', 'event_timeout', 'retry', 'queue_timeout', 'total_timeout', 'heartbeat_timeout', 'stall_timeout',
         'run_deadline', 'cancel_grace', 'go_on'))
);
CREATE INDEX timers_due ON timers (due_at); -- over all buckets: it cannot be taken for the look-up of a timer

CREATE TABLE signals (
    bucket      smallint    NOT NULL,
    run_id      uuid        NOT NULL,
    seq         bigint      NOT NULL,               -- of the event that brought it
    name        text        NOT NULL,
    payload     bytea       NOT NULL,               -- JSON
    received_at timestamptz NOT NULL,
    taken_by    text,                               -- path of the task that consumed it
    taken_attempt bigint,                           -- in which of its attempts
    expires_at  timestamptz,                        -- when nobody may take it any more
    CONSTRAINT signals_pkey PRIMARY KEY (bucket, run_id, seq)
);
CREATE INDEX signals_waiting ON signals (bucket, run_id, name, seq) WHERE taken_by IS NULL;

-- Mutations of a run that were applied, so that repeating one is answered as the first time, and another one refused.
CREATE TABLE requests (
    bucket      smallint NOT NULL,
    run_id      uuid     NOT NULL,
    request_id  uuid     NOT NULL,
    call        text     NOT NULL,                  -- its kind, such as Signal
    fingerprint bytea    NOT NULL,                  -- the same for the same request
    answer      bytea    NOT NULL,                  -- JSON: what the first one was answered
    CONSTRAINT requests_pkey PRIMARY KEY (bucket, run_id, request_id)
);

-- Reports that came too late: nothing changed, but an operator can see them.
CREATE TABLE stale_reports (
    bucket    smallint    NOT NULL,
    run_id    uuid        NOT NULL,
    path      text        NOT NULL,
    attempt   bigint      NOT NULL,
    owner     text        NOT NULL,
    answer    text        NOT NULL,
    at        timestamptz NOT NULL,
    CONSTRAINT stale_reports_pkey PRIMARY KEY (bucket, run_id, path, attempt, owner)
);

-- Idempotency keys of starts. Their bucket is a fixed hash of (namespace, key), never the run's.
CREATE TABLE start_keys (
    bucket     smallint    NOT NULL,
    namespace  text        NOT NULL,
    key        text        COLLATE "C" NOT NULL,    -- in an order in which those with the same beginning stand together
    run_id     uuid        NOT NULL,                -- claimed before the run is inserted under it
    digest     text        NOT NULL,                -- SHA-256 of the request
    created_at timestamptz NOT NULL,
    CONSTRAINT start_keys_pkey PRIMARY KEY (bucket, namespace, key),
    CONSTRAINT start_keys_key_not_empty CHECK (key <> '')
);

-- Workers that told of themselves lately, and what they read. For people only: nothing is decided by it.
CREATE TABLE workers (
    namespace  text        NOT NULL,
    owner      text        NOT NULL,
    queues     text[]      NOT NULL,
    seen_at    timestamptz NOT NULL,
    left_at    timestamptz,                         -- it said so; unset: it may be there
    CONSTRAINT workers_pkey PRIMARY KEY (namespace, owner)
);
CREATE INDEX workers_seen ON workers (seen_at);

-- Live settings; a row per name. 'run_buckets': how many buckets new runs are spread over.
CREATE TABLE settings (
    name   text NOT NULL,
    value  text NOT NULL,
    CONSTRAINT settings_pkey PRIMARY KEY (name)
);
INSERT INTO settings (name, value) VALUES ('run_buckets', '1');

-- Buckets that hold runs: what sweeps and timers walk over.
CREATE TABLE buckets (
    bucket smallint NOT NULL,
    CONSTRAINT buckets_pkey PRIMARY KEY (bucket)
);
INSERT INTO buckets (bucket) VALUES (0), (1);
