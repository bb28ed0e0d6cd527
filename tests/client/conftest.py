"""A scripted coordinator and an impatient client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from headway.client import Client, Patience
from tests.client.scripted_coordinator import ScriptedCoordinator

IMPATIENT = Patience(
    try_timeout=timedelta(seconds=5),
    give_up_after=timedelta(seconds=5),
    first_pause=timedelta(milliseconds=1),
    longest_pause=timedelta(milliseconds=10),
)


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def client(coordinator: ScriptedCoordinator) -> AsyncIterator[Client]:
    async with Client(coordinator.address, namespace="shop", patience=IMPATIENT) as made:
        yield made
