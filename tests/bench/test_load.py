"""The load is as high as it should be, and no run is forgotten."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from bench.checking import Expected, WrongResult
from bench.load import Keeper, Work, start_all
from bench.records import RECORD, Records
from bench.starting import start_each
from headway.client import NewRun, Refused, Started

WORK = Work(workflow="line", input={}, last_step=0, expected=Expected(output=None, tasks=1))


@dataclass
class Engine:
    """Starts runs, and ends each a moment later."""

    records: Records
    lasts: float = 0.005
    fails_at: int | None = None
    started: list[str] = field(default_factory=list[str])
    most: int = 0

    async def start_many(self, runs: list[NewRun]) -> list[Started | Refused]:
        await asyncio.sleep(0)
        return [self._start(run.workflow) for run in runs]

    def _start(self, workflow: str) -> Started | Refused:
        number = len(self.started)
        if number == self.fails_at:
            return Refused("WORKFLOW_NOT_FOUND", "no such workflow", {}, grpc.StatusCode.UNKNOWN)
        self.started.append(f"{workflow}-{number}")
        self.most = max(self.most, len(self.started) - self.records.finished)
        asyncio.get_running_loop().call_later(self.lasts, self.records.take, RECORD.pack(b"r" * 16, 0, 1, 2))
        return Started(run_id=self.started[-1], existed=False, version=1)


def rig_with(**fields: Any) -> Any:
    records = Records()
    records.begin(0)
    return SimpleNamespace(records=records, client=Engine(records, **fields))


async def test_as_many_are_kept_in_flight_as_are_asked_for() -> None:
    rig = rig_with()
    keeper = Keeper(rig, WORK, 7)
    rounds = iter(range(40))
    await keeper.keep(lambda: next(rounds, None) is not None)
    runs = await keeper.started()
    assert rig.client.most == 7
    assert sorted(runs) == sorted(rig.client.started)
    assert len(runs) > 7


async def test_no_more_are_started_than_there_should_be_in_all() -> None:
    rig = rig_with()
    runs = await start_all(rig, WORK, runs=25, in_flight=10)
    assert len(runs) == len(set(runs)) == len(rig.client.started) == 25


async def test_a_start_that_fails_is_not_swallowed() -> None:
    rig = rig_with(fails_at=3)
    with pytest.raises(WrongResult, match="refused"):
        await start_all(rig, WORK, runs=25, in_flight=2)


async def test_ids_come_in_the_order_of_the_starts() -> None:
    rig = rig_with()
    ids = await start_each(rig.client, [(f"w{number}", {}) for number in range(200)])
    assert [one.partition("-")[0] for one in ids] == [f"w{number}" for number in range(200)]
