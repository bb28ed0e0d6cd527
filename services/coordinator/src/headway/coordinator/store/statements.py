"""The SQL of this service, by name."""

from importlib.resources import files
from typing import Final

from headway.runtime.sql import load_statements

SQL: Final = load_statements(
    files("headway.coordinator.store").joinpath("sql"),
    "steps.sql",
    "runs.sql",
    "tasks.sql",
    "leases.sql",
    "outbox.sql",
    "definitions.sql",
)
