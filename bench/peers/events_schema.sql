CREATE TABLE run (
    run_id bigint PRIMARY KEY,
    state  text   NOT NULL,
    seq    bigint NOT NULL
) WITH (fillfactor = 60);
CREATE TABLE task (
    run_id bigint NOT NULL,
    step   int    NOT NULL,
    state  text   NOT NULL,
    output bytea,
    PRIMARY KEY (run_id, step)
) WITH (fillfactor = 70);
CREATE TABLE event (
    run_id bigint      NOT NULL,
    seq    bigint      NOT NULL,
    at     timestamptz NOT NULL,
    data   bytea       NOT NULL,
    PRIMARY KEY (run_id, seq)
);
