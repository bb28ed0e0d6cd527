"""That a row without its run would be seen, whichever table it is in."""

from __future__ import annotations

import asyncpg

from tests.orphans import orphans

ROWS = """
INSERT INTO outputs (bucket, run_id, path, attempt, role, data) VALUES (0, $1, 'a', 1, 'o', 'null');
INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
                   created_at, reported)
VALUES (0, $1, 'a', 'pending', 1, 1, 0, 0, 'default', '', '', 0, now(), false);
INSERT INTO attempts (bucket, run_id, path, attempt, ended_at, outcome, reported)
VALUES (0, $1, 'b', 1, now(), 'lost', false);
INSERT INTO tokens VALUES (0, $1, 'a', '', '', '', '', '{}');
INSERT INTO loops (bucket, run_id, path, attempt, total, started, open, succeeded, failed, cancelled, output_bytes,
                   failures, closing, redo_failed)
VALUES (0, $1, 'm', 1, 0, 0, 0, 0, 0, 0, 0, '[]', false, false);
INSERT INTO scopes (bucket, run_id, path, loop, index, state, attempt, failing, stopped, open_tasks, succeeded_tasks,
                    unhandled_tasks, output_bytes, created_at)
VALUES (0, $1, 'm[0]', 'm', 0, 'running', 1, false, false, 1, 0, 0, 0, now());
INSERT INTO effects VALUES (0, $1, 1, 'a', 1, 'output');
INSERT INTO waits VALUES (0, $1, 'a', 'x', 1);
INSERT INTO run_events (bucket, run_id, seq, format, type, at, path, attempt, event, actions)
VALUES (0, $1, 1, 1, 'RunStarted', now(), '', 0, '', '');
INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, trace, created_at)
VALUES (0, gen_random_uuid(), 'dispatch', $1, 'default', 'a', 1, 'q', 'h', '', now());
INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, body, trace, created_at)
VALUES (0, gen_random_uuid(), 'handover', $1, 'default', '', 0, '', '', '{}', '', now());
INSERT INTO timers VALUES (0, $1, 'a', 'wait', 1, now());
INSERT INTO signals (bucket, run_id, seq, name, payload, received_at) VALUES (0, $1, 1, 'x', 'null', now());
INSERT INTO requests VALUES (0, $1, gen_random_uuid(), 'Signal', '', '{}');
INSERT INTO stale_reports VALUES (0, $1, 'a', 1, 'w', 'STALE_ATTEMPT', now());
INSERT INTO start_keys VALUES (0, 'default', 'k', $1, 'd', now())
"""
RUN_ID = "'00000000-0000-0000-0000-000000010000'"


async def test_every_row_of_a_run_that_is_not_there_is_counted(database: asyncpg.Connection[asyncpg.Record]) -> None:
    await database.execute(ROWS.replace("$1", RUN_ID))

    assert await orphans(database) == {
        "attempts": 1,
        "attempts of no task": 1,
        "effects": 1,
        "loops": 1,
        "outbox": 1,
        "outputs": 1,
        "requests": 1,
        "run_events": 1,
        "scopes": 1,
        "signals": 1,
        "stale_reports": 1,
        "tasks": 1,
        "timers": 1,
        "tokens": 1,
        "waits": 1,
    }
