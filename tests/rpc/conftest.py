"""The session's database, coordinators on it, and workers that attend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headway.coordinator.engine import offering
from tests.rpc.attending import HEARD, Attending
from tests.rpc.world import Coordinator, World, database, lasting_database_url, world

__all__ = ["attend", "counted", "database", "lasting_database_url", "world"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the offers that each coordinator has heard."""
    hear = offering.Offers.hear

    def count(offers: offering.Offers, *arguments: Any) -> None:
        hear(offers, *arguments)
        HEARD[id(offers)] = HEARD.get(id(offers), 0) + 1

    monkeypatch.setattr(offering.Offers, "hear", count)


@pytest.fixture
async def attend(world: World) -> AsyncIterator[Callable[..., Any]]:
    """Opens streams, and closes them in the end."""
    streams: list[Attending] = []

    async def open_one(owner: str = "w1", *queues: str, slots: int = 0, at: Coordinator | None = None) -> Attending:
        streams.append(attending := Attending(at or world.first, owner, *queues))
        await attending.open()
        if slots:
            await attending.offer(slots)
        return attending

    yield open_one
    for stream in streams:
        stream.call.cancel()
