"""The SQL of this service, by name."""

from importlib.resources import files
from typing import Final

from headway.runtime.sql import load_statements

_TEXTS = load_statements(
    files("headway.coordinator.store").joinpath("sql"),
    "starts.sql",
    "steps.sql",
    "runs.sql",
    "lists.sql",
    "deleting.sql",
    "tasks.sql",
    "loops.sql",
    "children.sql",
    "leases.sql",
    "beats.sql",
    "outbox.sql",
    "workers.sql",
    "explain.sql",
    "definitions.sql",
)
# The same columns and look-ups, without locks.
_READ_STEPS = _TEXTS["lock_steps"].replace("FOR UPDATE SKIP LOCKED", "LIMIT 1").replace("FOR UPDATE", "OFFSET 0")
# Those of the run itself before those of its items: a large map is not to hide what is beside it.
_READ_OPEN_TASKS = (
    _TEXTS["lock_open_tasks"]
    .replace("ORDER BY t.run_id, t.path", "ORDER BY strpos(t.path, '[') > 0, t.path")
    .replace("FOR UPDATE OF t", "LIMIT $3")
)
_READ_UNHANDLED_TASKS = (
    _TEXTS["lock_unhandled_tasks"]
    .replace("ORDER BY", "  AND strpos(t.path, '.') = 0\nORDER BY")
    .replace("t.run_id, t.path\nFOR UPDATE OF t", "t.finished_at, t.path\nLIMIT $3")
)
SQL: Final = {
    **_TEXTS,
    "read_steps": _READ_STEPS,
    "read_open_tasks": _READ_OPEN_TASKS,
    "read_unhandled_tasks": _READ_UNHANDLED_TASKS,
}
