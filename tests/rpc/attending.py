"""A worker's stream of Attend, and how many offers each coordinator has heard."""

from __future__ import annotations

import asyncio
from typing import Any

from headway.api.tasks.v1 import tasks_pb2
from tests.rpc.world import Coordinator, Dispatch, until


class Attending:
    """A worker's stream of Attend."""

    def __init__(self, coordinator: Coordinator, owner: str, *queues: str) -> None:
        self._coordinator = coordinator
        self._opening = tasks_pb2.AttendRequest(owner=owner, queues=queues or ("default",))
        self.call: Any = coordinator.tasks.Attend()
        self.offers = 0
        self.taken = 0

    async def open(self) -> None:
        await self.call.write(self._opening)
        await self.call.initial_metadata()

    async def offer(self, slots: int, *, taken: int | None = None) -> None:
        """Offer slots; return once the coordinator has heard of it."""
        before = heard(self._coordinator)
        self.offers += 1
        offer = tasks_pb2.Offer(number=self.offers, slots=slots, taken=self.taken if taken is None else taken)
        await self.call.write(tasks_pb2.AttendRequest(offer=offer))
        await until(lambda: heard(self._coordinator) > before, "the offer is heard")

    async def read(self) -> tasks_pb2.AttendResponse:
        async with asyncio.timeout(10):
            response: tasks_pb2.AttendResponse = await self.call.read()
        self.taken += len(response.granted)
        return response

    async def tasks(self, count: int) -> list[Dispatch]:
        """The next so many tasks that come, by path."""
        found: list[Dispatch] = []
        while len(found) < count:
            found += [Dispatch(t.grant.run_id, t.grant.path, t.attempt) for t in (await self.read()).granted]
        return sorted(found, key=lambda dispatch: dispatch.path)

    async def leave(self) -> None:
        self.call.cancel()
        await until(lambda: not self._coordinator.engine.offers._turns, "the stream is over")


HEARD: dict[int, int] = {}


def heard(coordinator: Coordinator) -> int:
    return HEARD.get(id(coordinator.engine.offers), 0)
