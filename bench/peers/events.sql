-- One event of a run of ten: the least that must be durable, in one transaction. A run begins where the last one ended.
\set step :step + 1
\if :step > 10
\set step 1
\set number :number + 1
\endif
\set run :client_id * 100000000 + :number
\set next :step + 1
\if :step = 1
BEGIN;
INSERT INTO run (run_id, state, seq) VALUES (:run, 'running', 0);
INSERT INTO task (run_id, step, state) VALUES (:run, 1, 'ready');
COMMIT;
\endif
BEGIN;
SELECT seq FROM run WHERE run_id = :run FOR UPDATE;
UPDATE task SET state = 'succeeded', output = convert_to(repeat('x', 200), 'UTF8') WHERE run_id = :run AND step = :step;
\if :step < 10
INSERT INTO task (run_id, step, state) VALUES (:run, :next, 'ready');
\endif
INSERT INTO event (run_id, seq, at, data) VALUES (:run, :step, now(), convert_to(repeat('x', 200), 'UTF8'));
\if :step < 10
UPDATE run SET seq = :step WHERE run_id = :run;
\else
UPDATE run SET seq = :step, state = 'succeeded' WHERE run_id = :run;
\endif
COMMIT;
