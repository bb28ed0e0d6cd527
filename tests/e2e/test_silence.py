"""What a coordinator's log has of a database that is down: a line when it goes away, one when it is back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client
from tests.waiting import until

pytestmark = pytest.mark.slow
GONE, BACK = "the database does not serve; trying again", "the database serves again"


async def test_a_coordinator_without_its_database_says_so_once_and_once_that_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADWAY_DATABASE_URL", raising=False)
    monkeypatch.delenv("HEADWAY_REDIS_URL", raising=False)
    shape = Shape(port=0, environment={"HEADWAY_LOG_FORMAT": "json"})
    async with Stack(tmp_path / "data", shape) as stack, Client(stack.address) as client:
        await client.deploy("workflow: idle\nnodes: {ask: {type: wait_for_event, event: go}}\n")
        await client.start("idle")
        log, postgres = stack.log_file("coordinator-1"), stack.servers.postgres
        assert postgres is not None
        before = len(lines(log))
        await asyncio.to_thread(postgres.kill)
        starts = [asyncio.create_task(client.start("idle")) for _ in range(5)]  # the client repeats them
        await asyncio.sleep(8)
        await asyncio.to_thread(postgres.restart)
        await asyncio.gather(*starts, return_exceptions=True)
        await until(lambda: any(line["message"] == BACK for line in lines(log)), "the database is back")
        said = [line for line in lines(log)[before:] if line["level"] != "debug"]

    told = [line["message"] for line in said if "serve" in line["message"]]
    assert told == [GONE, BACK]
    assert len(said) <= len(told) + 3, "and a line at most for each transaction that was cut short"
    assert not [line for line in said if "error" in line], "no trace"


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]
