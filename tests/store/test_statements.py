"""Every statement against the real schema."""

import asyncpg
import pytest

from headway.coordinator.store import statements
from headway.coordinator.store.statements import SQL


@pytest.mark.parametrize("name", SQL)
async def test_each_statement_is_understood_by_the_schema(name: str, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)

    try:
        prepared = await connection.prepare(SQL[name])

        assert prepared.get_query() == SQL[name]
    finally:
        await connection.close()


def test_every_statement_names_its_columns() -> None:
    texts = {name: text for name, text in SQL.items() if "SELECT *" in text}

    assert not texts


def test_a_statement_that_is_there_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_FILES", ("runs", "runs"))

    with pytest.raises(ValueError, match="is there twice"):
        statements._load()
