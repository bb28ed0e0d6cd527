"""Others on the same machine: the same ten steps on DBOS, on Restate, and as plain transactions in pgbench."""
