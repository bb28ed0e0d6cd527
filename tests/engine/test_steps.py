"""Most decisions are written by one statement, the others by general ones: the same rows come of it either way.

Runs of generated workflows are driven by chance. Each batch is saved twice in its transaction: by the general
statements alone and, when that has been taken back, as always.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import asyncpg
import orjson
import pytest

from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import WORKER_NODES, EdgeKind, FailureClass, Node, NodeType, TimeOuts
from headway.coordinator.core.plan_codec import encode_plan
from headway.coordinator.engine import deciding
from headway.coordinator.engine.eager import Wish
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.lanes import Call, Ticket
from headway.coordinator.engine.leasing import LeaseAsk
from headway.coordinator.engine.submissions import (
    Cancel,
    Expire,
    Fire,
    Report,
    ReportCancelled,
    ReportFailed,
    ReportReleased,
    ReportSucceeded,
    Retry,
    Signal,
    Start,
    Submission,
)
from headway.coordinator.ids import run_id_in
from headway.coordinator.store import saving
from headway.coordinator.store.changes import Saving
from headway.coordinator.store.pool import Connection, open_pool
from headway.coordinator.store.steps import Steps
from tests.core.flows import computed, edge, plan, reference
from tests.core.generated import ERRORS, INPUT, OUTPUTS, SIGNALS, Seeded, show, workflow
from tests.orphans import orphans
from tests.rpc.world import EMPTY

MORE = int(os.environ.get("HEADWAY_MORE", "1"))  # as in tests/core: so many times as many drives
DRIVES = 12  # of each temper
ROUNDS = 18  # batches of each drive
RUNS = 4  # at the beginning of each drive
TABLES = (
    "runs", "tasks", "outputs", "run_events", "outbox", "tokens", "timers", "attempts", "signals", "requests",
)  # fmt: skip
OWNERS = ("one", "other")
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"

Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Ways:
    """How often what was saved in which way.

    Attributes:
        straight: what was written by the one statement, by kind; without locks apart.
        general: runs that were written by the general statements.
        left: batches of which nothing was written without locks.
    """

    straight: Counter[str] = field(default_factory=Counter[str])
    general: int = 0
    left: int = 0

    async def save(self, connection: Connection, bucket: int, batch: Iterable[Saving], now: datetime) -> bool:
        """Stands in for `save`."""
        savings = list(batch)
        expected = await self._by_general_statements(connection, bucket, savings, now)

        with self._watched() as taken:
            was_straight = await saving.save(connection, bucket, savings, now)

        assert await self._rows(connection, bucket, savings) == expected
        self._count(taken)
        return was_straight

    async def save_straight(self, connection: Connection, bucket: int, batch: Iterable[Saving], now: datetime) -> bool:
        """Stands in for `save_straight`."""
        savings = list(batch)
        before = await self._rows(connection, bucket, savings)
        expected = await self._by_general_statements(connection, bucket, savings, now)

        with self._watched() as taken:
            is_saved = await saving.save_straight(connection, bucket, savings, now)

        assert await self._rows(connection, bucket, savings) == (expected if is_saved else before)
        if is_saved:
            assert all(was_taken for _, was_taken in taken)
            self._count(taken)
            self.straight["without locks"] += len(taken)
        else:
            self.left += 1
        return is_saved

    async def _by_general_statements(
        self, connection: Connection, bucket: int, savings: Sequence[Saving], now: datetime
    ) -> Rows:
        rehearsal = connection.transaction()
        await rehearsal.start()
        with patch.object(Steps, "take", lambda _self, _saving: False):
            await saving.save(connection, bucket, savings, now)
        rows = await self._rows(connection, bucket, savings)
        await rehearsal.rollback()
        return rows

    async def _rows(self, connection: Connection, bucket: int, savings: Sequence[Saving]) -> Rows:
        run_ids = [each.held.run_id for each in savings]
        return {
            table: [
                dict(record)
                for record in await connection.fetch(
                    f"SELECT * FROM {table} AS x WHERE bucket = $1 AND run_id = ANY ($2) ORDER BY x::text",
                    bucket,
                    run_ids,
                )
            ]
            for table in TABLES
        }

    @contextmanager
    def _watched(self) -> Iterator[list[tuple[Saving, bool]]]:
        """What `take` is asked for, and what it answers."""
        taken: list[tuple[Saving, bool]] = []
        take = Steps.take

        def watched(steps: Steps, each: Saving) -> bool:
            taken.append((each, take(steps, each)))
            return taken[-1][1]

        with patch.object(Steps, "take", watched):
            yield taken

    def _count(self, taken: Sequence[tuple[Saving, bool]]) -> None:
        for each, was_taken in taken:
            if was_taken:
                self.straight.update(kinds(each))
            else:
                self.general += 1


def kinds(each: Saving) -> list[str]:
    """What a run that went straight on had changed."""
    run, was = each.changes.run, each.held.was_run
    assert run is not None
    found = ["run started" if was is None else "run ended" if run.state is RunState.SUCCEEDED else "run moved"]
    found += ["several events"] * (len(each.events) > 1)
    found += ["task done" if path in each.held.was else f"task {row.state}" for path, row in each.changes.tasks.items()]
    return found


@dataclass(frozen=True)
class Temper:
    """How the runs of a test go, and how many of the changes saved in it went which way at the least.

    Attributes:
        unruly: how often other things happen than work that goes well.
        plain: their workflows are.
    """

    unruly: int
    plain: bool
    straight: int
    general: int


TEMPERS = {
    "calm": Temper(unruly=0, plain=True, straight=200, general=80),
    "mixed": Temper(unruly=1, plain=True, straight=120, general=100),
    "wild": Temper(unruly=3, plain=False, straight=40, general=100),
}
KINDS = {
    "run started", "run moved", "run ended", "several events", "task ready", "task running", "task done",
    "task succeeded", "without locks",
}  # fmt: skip


def plain(choices: Seeded) -> Graph:
    """A workflow whose edges, but for those of switches, are all taken when nothing fails."""
    graph = workflow(choices, simple=True, most_nodes=12)
    nodes = [_plain_node(choices, node) for node in graph.plan.nodes.values()]
    switches = {node.id for node in nodes if node.type is NodeType.SWITCH}
    edges = [
        replace(each, when=None, on=each.on if each.source in switches else EdgeKind.SUCCESS)
        for each in graph.plan.edges
    ]
    return Graph(plan(_ended(choices, nodes), edges))


def tree(choices: Seeded) -> Graph:
    """A workflow of workers' nodes in which nothing comes together: no tokens are kept of it."""
    calls = [
        Node(
            id=f"n{place}",
            type=NodeType.CALL,
            handler="do.it",
            queue=choices.of(("default", "default", "second")),
            input=choices.of((None, reference("input"), computed("input.n + 1"))),
        )
        for place in range(choices.whole(2, 8))
    ]
    edges = [
        edge(calls[choices.whole(max(0, place - 2), place - 1)].id, calls[place].id) for place in range(1, len(calls))
    ]
    return Graph(plan(_ended(choices, [_plain_node(choices, call) for call in calls]), edges))


def _ended(choices: Seeded, nodes: list[Node]) -> list[Node]:
    """The last one may be the end of the run."""
    if nodes[-1].type is not NodeType.CALL or choices.of((True, False)):
        return nodes
    message, output = (choices.of((None, reference("input"))) for _ in range(2))
    return [*nodes[:-1], Node(id=nodes[-1].id, type=NodeType.FINISH, message=message, output=output)]


def _plain_node(choices: Seeded, node: Node) -> Node:
    if node.type is NodeType.CALL and choices.whole(0, 7) == 0:
        return Node(id=node.id, type=NodeType.WAIT_FOR_EVENT, event=SIGNALS[0])
    if node.type is NodeType.WAIT or (node.type is NodeType.CALL and choices.whole(0, 5) == 0):
        return Node(id=node.id, type=NodeType.SET, values={f"v_{node.id}": reference("input.list")})
    if node.type in WORKER_NODES:
        limit = TimeOuts(attempt_ms=choices.of((None, 7_000, 60_000)))
        return replace(node, lease_ms=choices.of((8_000, 60_000)), timeouts=limit)
    return node


class Drive:
    """Some runs of one workflow in bucket 0, and who works on them."""

    def __init__(
        self, engine: Engine, database: asyncpg.Connection[asyncpg.Record], choices: Seeded, temper: Temper
    ) -> None:
        self.database = database
        self.choices = choices
        self.graph = choices.of((plain, tree))(choices) if temper.plain else workflow(choices)
        engine.plans.put(("default", "generated", 1), orjson.dumps(encode_plan(self.graph.plan)))
        self.decide = engine._decision_lane(0)._commit
        self.lease = engine._lease_lane(0)._commit
        self.keys = count()
        self.work: list[Callable[[], Submission | Sequence[Submission] | None]] = [*[self.success] * 8, self.start]
        self.plays = [
            *self.work,
            self.start_and_tell,
            *[self.fire] * 2,
            *[self.signal] * 2,
            *[
                self.failure, self.failure, self.give_back, self.stop_early, self.lose, self.cancel,
                 self.retry, self.retry, self.stale,
            ] * temper.unruly,
        ]  # fmt: skip

    async def round(self) -> None:
        """Workers lease; then some things happen in one transaction."""
        self.runs = await self.database.fetch("SELECT run_id, state FROM runs ORDER BY run_id")
        self.timers = await self.database.fetch("SELECT run_id, path, kind, attempt FROM timers ORDER BY run_id, path")
        ready = await self.database.fetch("SELECT run_id, path, attempt FROM tasks WHERE state = 'ready' ORDER BY 1, 2")
        await self.lease_some([task for task in ready if self.choices.of((True, True, False))])
        self.running = await self.database.fetch(
            "SELECT run_id, path, attempt, owner FROM tasks WHERE state = 'running' ORDER BY run_id, path"
        )
        if self.choices.whole(0, 19) == 0:
            await self.database.execute("UPDATE runs SET last_event_at = clock_timestamp() + interval '20 ms'")
        items: list[Submission] = []
        plays = self.choices.of((self.plays, self.work))
        for _ in range(self.choices.whole(1, 8)):
            chosen = self.choices.of(plays)()
            items += [chosen] if isinstance(chosen, Submission) else chosen or []
        if items:
            await self.let_come_due(items)
            await self.commit(items)

    async def lease_some(self, tasks: Sequence[asyncpg.Record]) -> None:
        asks = [
            LeaseAsk(owner=self.choices.of(OWNERS), grant_key=f"delivery {next(self.keys)}", trace="", **dict(task))
            for task in tasks
        ]
        if asks:
            await self.lease([Ticket(ask, Call(1), 0) for ask in asks])

    async def let_come_due(self, items: Sequence[Submission]) -> None:
        for item in items:
            if isinstance(item, Fire):
                await self.database.execute(
                    "UPDATE timers SET due_at = clock_timestamp()"
                    " WHERE (run_id, path, kind, attempt) = ($1, $2, $3, $4)",
                    *item.timer,
                )
            elif isinstance(item, Expire):
                await self.database.execute(
                    "UPDATE tasks SET lease_expires_at = clock_timestamp() WHERE (run_id, path) = ($1, $2)"
                    " AND state = 'running'",
                    item.run_id,
                    item.path,
                )

    async def commit(self, items: Sequence[Submission]) -> None:
        tickets = [Ticket(item, Call(1), 0) for item in items]
        committed = await self.decide(tickets)
        assert {ticket for ticket, _ in committed.outcomes} == set(tickets)

    # --- what happens

    def start(self) -> Submission:
        return Start(
            run_id=run_id_in(0, UUID(int=self.choices.whole(0, 1 << 127))),
            graph=self.graph,
            workflow="generated",
            version=1,
            key=self.choices.of((None, "key")),
            run_trace=self.choices.of(("", TRACE)),
            input=Document.of(INPUT),
            labels={},
            in_namespace="default",
        )

    def start_and_tell(self) -> Sequence[Submission]:
        """A signal in the transaction of the start."""
        start = self.start()
        return start, Signal(run_id=start.run_id, request_id=uuid4(), name="none waits", payload=Document.of(1))

    def success(self) -> Report | None:
        wish = Wish(
            room=1 << 20,
            grant_key=f"report {next(self.keys)}",
            namespace=self.choices.of(("default", "default", "default", "other")),
            queues=frozenset({"second", self.choices.of(("default", "default", "other"))}),
        )
        return self.report(
            ReportSucceeded, output=Document.of(self.choices.of(OUTPUTS)), wish=self.choices.of((wish, wish, None))
        )

    def failure(self) -> Report | None:
        failure = Failure(
            failure_class=self.choices.of((FailureClass.EXEC_FAILED, FailureClass.VERDICT_FAIL)),
            type=self.choices.of(ERRORS),
            message="it broke",
        )
        return self.report(ReportFailed, failure=failure, final=self.choices.of((True, False)))

    def give_back(self) -> Report | None:
        return self.report(ReportReleased)

    def stop_early(self) -> Report | None:
        return self.report(ReportCancelled)

    def stale(self) -> Report | None:
        return self.report(ReportSucceeded, output=Document.of(1), owner="nobody")

    def report(self, cls: Callable[..., Report], **fields: Any) -> Report | None:
        if not self.running:
            return None
        task = self.choices.of(self.running)
        fields.setdefault("owner", task["owner"])
        return cls(
            run_id=task["run_id"],
            path=task["path"],
            attempt=task["attempt"],
            trace=self.choices.of(("", TRACE)),
            **fields,
        )

    def lose(self) -> Expire | None:
        if not self.running:
            return None
        task = self.choices.of(self.running)
        return Expire(run_id=task["run_id"], path=task["path"], attempt=task["attempt"])

    def fire(self) -> Fire | None:
        return Fire(**dict(self.choices.of(self.timers))) if self.timers else None

    def run_id(self) -> UUID:
        return self.choices.of(self.runs)["run_id"]

    def signal(self) -> Submission:
        return Signal(
            run_id=self.run_id(), request_id=uuid4(), name=self.choices.of(SIGNALS), payload=Document.of({"by": "you"})
        )

    def cancel(self) -> Submission:
        return Cancel(run_id=self.run_id(), request_id=uuid4(), reason="", grace_ms=self.choices.of((0, 500)))

    def retry(self) -> Submission:
        return Retry(
            run_id=self.run_id(),
            request_id=uuid4(),
            chosen=(),
            render_inputs=self.choices.of((True, False)),
            dry_run=False,
        )


@pytest.mark.timeout(240 * MORE)
@pytest.mark.parametrize("name", TEMPERS)
async def test_one_statement_writes_the_rows_that_the_general_statements_would_write(
    name: str,
    lasting_database_url: str,
    database: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    temper, ways = TEMPERS[name], Ways()
    monkeypatch.setattr(deciding, "save", ways.save)
    monkeypatch.setattr(deciding, "save_straight", ways.save_straight)
    monkeypatch.setattr(deciding, "WORTH_IT", 0.0)  # going without locks is always tried
    pool = await open_pool(lasting_database_url, size=4)
    try:
        for seed in range(DRIVES * MORE):
            engine = Engine(pool)
            drive = Drive(engine, database, Seeded(seed), temper)
            try:
                await drive.commit([drive.start() for _ in range(RUNS)])
                for _ in range(ROUNDS):
                    await drive.round()
            except BaseException as error:
                error.add_note(f"seed {seed}, {name}\n{show(drive.graph)}")
                raise
            finally:
                await engine.stop()
            assert await orphans(database) == {}
            await database.execute(EMPTY)
    finally:
        await pool.close()
    assert sum(ways.straight[kind] for kind in ("run started", "run moved", "run ended")) >= temper.straight * MORE
    assert min(ways.general, 2 * ways.left) >= temper.general * MORE
    if temper.plain:
        assert min(ways.straight[kind] for kind in KINDS) >= 2 * MORE, ways
