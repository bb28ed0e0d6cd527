"""Every reason for a refusal is met here, with its status and its facts, as a client reads them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2

from headway.api.definitions.v1 import definitions_pb2 as definitions
from headway.api.runs.v1 import runs_pb2 as runs
from headway.api.tasks.v1 import tasks_pb2 as tasks
from headway.api.timers.v1 import timers_pb2 as timers
from headway.coordinator.core import refusals
from headway.coordinator.core.refusals import Refusal
from headway.coordinator.engine import lanes
from headway.coordinator.engine.definitions import Faulty
from headway.coordinator.rpc import refusing
from headway.coordinator.rpc.filters import fingerprint
from headway.coordinator.rpc.refusing import STATUS
from headway.coordinator.store.listing import RunFilter
from tests.rpc.children import LEAF, PARENT, begun, carry, handovers
from tests.rpc.world import EVENT, ONE, Coordinator, Dispatch, World, refusal_of, unpacked

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
EXISTS = grpc.StatusCode.ALREADY_EXISTS

LOOP = (
    "workflow: loop\nnodes:\n"
    "  poll: {type: repeat, while: index < 3, max_iterations: 5, keep_last: 1, body: {type: call, handler: h}}\n"
)
TRIP = (
    "workflow: trip\nnodes:\n"
    "  book: {type: call, handler: h, compensate: give_back}\n"
    "  give_back: {type: call, handler: h}\n"
    "  go: {type: call, handler: h}\n"
    "edges: [[book, go]]\n"
)

UNKNOWN = "0123456789abcdef0123456789ab0000"
MIB = 1 << 20
SCHEMA = (
    "workflow: strict\n"
    "input_schema: {type: object, required: [order], properties: {order: {type: object, properties:"
    " {lines: {type: array, items: {type: object, properties: {count: {type: integer}}}}}}}}\n"
    "nodes:\n  work: {type: call, handler: h}\n"
)


@dataclass
class Scene:
    """What the rows of the table call with.

    Attributes:
        held: paused while a worker runs its node.
        stopping: cancelled while a worker runs its node.
        looped: over, its first iteration dropped; its version is not deployed any more.
        undone: failed, and undone.
        untold: over, which its parent has not heard of.
    """

    c: Coordinator
    open: str
    done: str
    held: str
    stopping: str
    looped: str
    undone: str
    untold: str

    def start(self, workflow: str = "one", **fields: Any) -> Any:
        fields.setdefault("request_id", str(uuid4()))
        return self.c.runs.Start(runs.StartRequest(workflow=workflow, **fields))

    def signal(self, run_id: str | None = None, **fields: Any) -> Any:
        fields = {"request_id": str(uuid4()), "name": "x"} | fields
        return self.c.runs.Signal(runs.SignalRequest(run_id=run_id or self.open, **fields))

    def signal_by(self, key: str, **fields: Any) -> Any:
        return self.c.runs.Signal(runs.SignalRequest(key=key, name="x", request_id=str(uuid4()), **fields))

    def cancel(self, run_id: str | None = None, **fields: Any) -> Any:
        fields.setdefault("request_id", str(uuid4()))
        return self.c.runs.Cancel(runs.CancelRequest(run_id=run_id or self.open, **fields))

    def pause(self, run_id: str, **fields: Any) -> Any:
        return self.c.runs.Pause(runs.PauseRequest(run_id=run_id, request_id=str(uuid4()), **fields))

    def skip(self, run_id: str, node: str) -> Any:
        return self.c.runs.Skip(runs.SkipRequest(run_id=run_id, node=node, output=b"1", request_id=str(uuid4())))

    def retry(self, run_id: str, *nodes: str, **fields: Any) -> Any:
        fields.setdefault("request_id", str(uuid4()))
        return self.c.runs.Retry(runs.RetryRequest(run_id=run_id, from_nodes=nodes, **fields))

    def get(self, run_id: str, **fields: Any) -> Any:
        return self.c.runs.Get(runs.GetRequest(run_id=run_id, **fields))

    def items(self, run_id: str, path: str) -> Any:
        return self.c.runs.ListItems(runs.ListItemsRequest(run_id=run_id, path=path))

    def list(self, **fields: Any) -> Any:
        return self.c.runs.List(runs.ListRequest(**fields))

    def history(self, run_id: str, **fields: Any) -> Any:
        return self.c.runs.GetHistory(runs.GetHistoryRequest(run_id=run_id, **fields))

    async def watch(self, run_id: str, **fields: Any) -> None:
        async for _ in self.c.runs.Watch(runs.WatchRequest(run_id=run_id, **fields)):
            pass

    def lease(self, owner: str = "w", size: int = 0) -> Any:
        items = [tasks.LeaseItem(task_id="x", attempt=1, grant_key="k")] * size
        return self.c.tasks.Lease(tasks.LeaseRequest(owner=owner, items=items))

    def deploy(self, source: str, **fields: Any) -> Any:
        return self.c.definitions.Deploy(definitions.DeployRequest(source=source, **fields))

    def version(self, workflow: str, version: int, **fields: Any) -> Any:
        request = definitions.SetDeployedVersionRequest(workflow=workflow, version=version, **fields)
        return self.c.definitions.SetDeployedVersion(request)

    def delete(self, workflow: str, version: int, **fields: Any) -> Any:
        request = definitions.DeleteVersionRequest(workflow=workflow, version=version, **fields)
        return self.c.definitions.DeleteVersion(request)

    def definition(self, workflow: str, **fields: Any) -> Any:
        return self.c.definitions.Get(definitions.GetRequest(workflow=workflow, **fields))

    def definitions(self, **fields: Any) -> Any:
        return self.c.definitions.List(definitions.ListRequest(**fields))


Call = Callable[[Scene], Awaitable[Any]]


def token(text: str, *, workflow: str = "", key_prefix: str = "") -> str:
    """A page token of a filter: its order, and where the page begins."""
    order, place = text.split("|", 1)
    mark = fingerprint(RunFilter(namespace="default", workflow=workflow, key_prefix=key_prefix))
    return base64.urlsafe_b64encode(f"{order}|{mark}|{place}".encode()).decode()


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


Case = tuple[Call, dict[str, str]]

CASES: dict[tuple[grpc.StatusCode, str], dict[str, Case]] = {
    (NOT_FOUND, "RUN_NOT_FOUND"): {
        "get unknown": (lambda s: s.get(UNKNOWN), {"run_id": UNKNOWN, "namespace": "default"}),
        "get of another namespace": (lambda s: s.get(s.open, namespace="b"), {"namespace": "b"}),
        "get no id": (lambda s: s.get(""), {"run_id": ""}),
        "get a word": (lambda s: s.get("nonsense"), {"run_id": "nonsense"}),
        "get NUL": (lambda s: s.get("\x00" * 32), {}),
        "get out of buckets": (lambda s: s.get("f" * 32), {}),
        "get long": (lambda s: s.get("x" * 100_000), {}),
        "get umlauts": (lambda s: s.get("ü" * 1_000), {}),
        "history unknown": (lambda s: s.history(UNKNOWN), {}),
        "watch unknown": (lambda s: s.watch(UNKNOWN), {}),
        "signal unknown": (lambda s: s.signal(UNKNOWN), {"run_id": UNKNOWN}),
        "signal elsewhere": (lambda s: s.signal(namespace="b"), {"namespace": "b"}),
        "cancel unknown": (lambda s: s.cancel(UNKNOWN), {}),
        "retry unknown": (lambda s: s.retry(UNKNOWN), {}),
    },
    (INVALID, "INVALID_ARGUMENT"): {
        "watch bad namespace": (lambda s: s.watch(s.open, namespace="\x00"), {"field": "namespace"}),
        "start version < 0": (lambda s: s.start(version=-1), {"field": "version"}),
        "start nothing": (lambda s: s.start(""), {"field": "workflow"}),
        "start NUL": (lambda s: s.start("a\x00"), {"field": "workflow"}),
        "start in NUL": (lambda s: s.start(namespace="a\x00"), {"field": "namespace"}),
        "start in long": (lambda s: s.start(namespace="a" * 64), {"field": "namespace"}),
        "start in a stream's sign": (
            lambda s: s.start(namespace="a/b"),
            {"field": "namespace", "problem": "it must match [A-Za-z0-9_.-]{1,63}"},
        ),
        "list in a stream's sign": (lambda s: s.list(namespace="{a}"), {"field": "namespace"}),
        "grace < 0": (lambda s: s.cancel(grace=Duration(seconds=-1)), {"field": "grace"}),
        "grace of 2 days": (lambda s: s.cancel(grace=Duration(seconds=172_800)), {"field": "grace"}),
        "grace for ever": (lambda s: s.cancel(grace=Duration(seconds=1 << 62)), {"field": "grace"}),
        "items of a plain node": (lambda s: s.items(s.done, "go"), {"field": "path"}),
        "page < 0": (lambda s: s.list(page_size=-1), {"field": "page_size"}),
        "page > 1000": (lambda s: s.list(page_size=1_001), {"field": "page_size"}),
        "history page < 0": (lambda s: s.history(s.open, page_size=-1), {"field": "page_size"}),
        "history page > 1000": (lambda s: s.history(s.open, page_size=1_001), {}),
        **{
            f"list {name}": (
                lambda s, wanted=wanted: s.list(filter=wanted),
                {"field": f"filter.{name}"},
            )
            for name, wanted in {
                "states": runs.RunFilter(states=[77]),  # pyright: ignore[reportArgumentType] - no such state
                "workflow": runs.RunFilter(workflow="\x00"),
                "version": runs.RunFilter(version=-1),
                "failure_class": runs.RunFilter(failure_class="bad luck"),
                "key": runs.RunFilter(key="x" * 201),
                "key_prefix": runs.RunFilter(key_prefix="\x00"),
                "labels": runs.RunFilter(labels={"": "x"}),
                "run_id_prefix": runs.RunFilter(run_id_prefix="A"),
                "created_from": runs.RunFilter(created_from=Timestamp(seconds=1 << 60)),
                "finished_until": runs.RunFilter(finished_until=Timestamp(nanos=-1)),
            }.items()
        },
        "deploy in NUL": (lambda s: s.deploy(ONE, namespace="\x00"), {"field": "namespace"}),
        "set version 0": (lambda s: s.version("one", 0), {"field": "version"}),
        "set of nothing": (lambda s: s.version("", 1), {"field": "workflow"}),
        "delete version 0": (lambda s: s.delete("one", 0), {"field": "version"}),
        "delete of nothing": (lambda s: s.delete("", 1), {"field": "workflow"}),
        "delete in NUL": (lambda s: s.delete("one", 1, namespace="\x00"), {"field": "namespace"}),
        "definition NUL": (lambda s: s.definition("\x00"), {"field": "workflow"}),
        "definitions NUL": (lambda s: s.definitions(workflow="\x00"), {"field": "workflow"}),
    },
    (PRECONDITION, "VERSION_DEPLOYED"): {
        "delete deployed": (lambda s: s.delete("one", 1), {"workflow": "one", "version": "1"}),
    },
    (PRECONDITION, "VERSION_NEEDED"): {
        "delete of what a run is on": (lambda s: s.delete("loop", 1), {"workflow": "loop", "count": "1"}),
    },
    (NOT_FOUND, "KEY_NOT_FOUND"): {
        "signal by no key": (lambda s: s.signal_by("nobody's"), {"key": "nobody's"}),
        "signal by a key of another workflow": (lambda s: s.signal_by("taken", workflow="one"), {"key": "taken"}),
    },
    (EXISTS, "KEY_REUSED"): {
        "start another by a key": (lambda s: s.start("waiting", key="taken", input=b"7"), {"key": "taken"}),
    },
    (PRECONDITION, "RUN_STOPPING"): {
        "pause while it stops": (lambda s: s.pause(s.stopping), {}),
    },
    (PRECONDITION, "RUN_PAUSED"): {
        "pause in another way": (lambda s: s.pause(s.held, pause_clock=True), {}),
    },
    (PRECONDITION, "RUN_NOT_HELD"): {
        "skip while it goes on": (lambda s: s.skip(s.open, "ask"), {"state": "running"}),
    },
    (PRECONDITION, "NODE_NOT_SKIPPABLE"): {
        "skip what a worker runs": (lambda s: s.skip(s.held, "work"), {"node": "work", "state": "running"}),
    },
    (PRECONDITION, "END_NOT_TOLD"): {
        "delete a child": (lambda s: s.c.runs.Delete(runs.DeleteRequest(run_id=s.untold)), {}),
    },
    (PRECONDITION, "ITERATION_DROPPED"): {
        "retry a dropped iteration": (lambda s: s.retry(s.looped, "poll[0]"), {"kept": "1"}),
    },
    (PRECONDITION, "NODE_UNDOES"): {
        "retry what undoes": (lambda s: s.retry(s.undone, "give_back"), {"node": "give_back", "undone": "book"}),
    },
    (PRECONDITION, "RUN_CLOSED"): {
        "signal closed": (lambda s: s.signal(s.done), {"state": "succeeded", "request": "signal"}),
        "cancel closed": (lambda s: s.cancel(s.done), {"state": "succeeded", "request": "cancel"}),
    },
    (PRECONDITION, "RUN_NOT_FINISHED"): {
        "retry open": (lambda s: s.retry(s.open), {"state": "running"}),
        "retry open, dry": (lambda s: s.retry(s.open, dry_run=True), {}),
    },
    (PRECONDITION, "NOTHING_TO_RETRY"): {
        "retry of nothing": (lambda s: s.retry(s.done), {}),
    },
    (NOT_FOUND, "NODE_NOT_FOUND"): {
        "items of an unknown node": (lambda s: s.items(s.done, "nope"), {"node": "nope"}),
        "retry unknown node": (lambda s: s.retry(s.done, "nope"), {"node": "nope", "version": "1"}),
        "retry NUL node": (lambda s: s.retry(s.done, "\x00"), {}),
        "retry long node": (lambda s: s.retry(s.done, "n" * 100_000), {}),
    },
    (PRECONDITION, "NODE_NOT_REACHED"): {
        "retry unreached": (lambda s: s.retry(s.done, "late"), {"node": "late"}),
    },
    (NOT_FOUND, "WORKFLOW_NOT_FOUND"): {
        "start unknown": (lambda s: s.start("nope"), {"workflow": "nope", "version": "deployed"}),
        "start no version": (lambda s: s.start(version=9), {"version": "9"}),
        "start elsewhere": (lambda s: s.start(namespace="b"), {"namespace": "b"}),
        "start version max": (lambda s: s.start(version=(1 << 31) - 1), {}),
        "set version 7": (lambda s: s.version("one", 7), {"version": "7"}),
        "delete version 7": (lambda s: s.delete("one", 7), {"version": "7"}),
        "delete elsewhere": (lambda s: s.delete("one", 1, namespace="b"), {"namespace": "b"}),
        "definition unknown": (lambda s: s.definition("nope"), {"version": "deployed"}),
        "definition version < 0": (lambda s: s.definition("one", version=-1), {}),
    },
    (INVALID, "INVALID_KEY"): {
        "key empty": (lambda s: s.start(key=""), {}),
        "key NUL": (lambda s: s.start(key="a\x00"), {}),
        "key long": (lambda s: s.start(key="k" * 201), {}),
    },
    (INVALID, "INVALID_REQUEST_ID"): {
        "no request id": (lambda s: s.start(request_id=""), {"request_id": ""}),
        "bad request id": (lambda s: s.start(request_id="1"), {"request_id": "1"}),
        "long request id": (lambda s: s.start(request_id="1" * 99_999), {}),
        "signal bad request id": (lambda s: s.signal(request_id="x"), {}),
        "cancel bad request id": (lambda s: s.cancel(request_id="x"), {}),
        "retry bad request id": (lambda s: s.retry(s.done, request_id="x"), {}),
    },
    (INVALID, "PAYLOAD_TOO_LARGE"): {
        "input too large": (
            lambda s: s.start(input=b'"' + b"x" * MIB + b'"'),
            {"field": "input", "size": str(MIB + 2), "limit": str(MIB)},
        ),
        "signal too large": (lambda s: s.signal(payload=b"[" + b"1," * MIB + b"1]"), {"field": "payload"}),
    },
    (INVALID, "INVALID_PAYLOAD"): {
        "input no JSON": (lambda s: s.start(input=b"{"), {"field": "input"}),
        "input NaN": (lambda s: s.start(input=b"NaN"), {}),
        "input no UTF-8": (lambda s: s.start(input=b'"\xff"'), {}),
        "input UTF-16": (lambda s: s.start(input='"a"'.encode("utf-16")), {}),
        "input surrogate": (lambda s: s.start(input=b'"\\ud800"'), {}),
        "input NUL escaped": (lambda s: s.start(input=b'{"a": "\\u0000"}'), {}),
        "input NUL in key": (lambda s: s.start(input=b'{"a\\u0000": 1}'), {}),
        "input NUL raw": (lambda s: s.start(input=b'"\x00"'), {}),
        "input 2^63": (lambda s: s.start(input=b"[9223372036854775808]"), {}),
        "input -2^63-1": (lambda s: s.start(input=b"-9223372036854775809"), {}),
        "input endless number": (lambda s: s.start(input=b"1" * 9_999), {}),
        "input deep": (lambda s: s.start(input=deep(101)), {}),
        "input very deep": (lambda s: s.start(input=deep(1_000)), {}),
        "input deep, long number": (lambda s: s.start(input=b"[" * 999 + b"1234567890123456789" + b"]" * 999), {}),
        "input endlessly deep": (lambda s: s.start(input=deep(200_000)), {}),
        "input long key at fault": (lambda s: s.start(input=json.dumps({"k" * 99_999: "\x00"}).encode()), {}),
        "signal no JSON": (lambda s: s.signal(payload=b"'"), {"field": "payload"}),
    },
    (INVALID, "INVALID_INPUT"): {
        "input against schema": (
            lambda s: s.start("strict", input=b'{"order": {"lines": [{"count": 1}, {"count": "2"}]}}'),
            {"path": "$.order.lines[1].count"},
        ),
        "input without what is required": (lambda s: s.start("strict"), {"path": "$.order"}),
    },
    (INVALID, "INVALID_LABEL"): {
        "label without a name": (lambda s: s.start(labels={"": "x"}), {}),
        "label without a value": (lambda s: s.start(labels={"a": ""}), {}),
        "label long": (lambda s: s.start(labels={"a": "x" * 201}), {}),
        "label NUL": (lambda s: s.start(labels={"a": "\x00"}), {}),
        "labels many": (lambda s: s.start(labels={f"l{number}": "x" for number in range(17)}), {}),
    },
    (INVALID, "INVALID_SIGNAL_NAME"): {
        "signal no name": (lambda s: s.signal(name=""), {}),
        "signal NUL name": (lambda s: s.signal(name="\x00"), {}),
        "signal long name": (lambda s: s.signal(name="n" * 201), {}),
    },
    (INVALID, "INVALID_PAGE_TOKEN"): {
        "token a word": (lambda s: s.list(page_token="next"), {}),
        "token no time": (lambda s: s.list(page_token=token(f"c|{UNKNOWN}|soon")), {}),
        "token no id": (lambda s: s.list(page_token=token("c|x|2026-01-01T00:00:00+00:00")), {}),
        "token no zone": (lambda s: s.list(page_token=token(f"c|{UNKNOWN}|2026-01-01T00:00:00")), {}),
        "token year 1": (lambda s: s.list(page_token=token(f"c|{UNKNOWN}|0001-01-01T00:00:00+14:00")), {}),
        "token year 9999": (lambda s: s.list(page_token=token(f"c|{UNKNOWN}|9999-12-31T23:59:59-14:00")), {}),
        "token no UTF-8": (lambda s: s.list(page_token=base64.urlsafe_b64encode(b"\xff\xfe").decode()), {}),
        "token of another filter": (
            lambda s: s.list(page_token=token(f"c|{UNKNOWN}|2026-01-01T00:00:00+00:00", workflow="one")),
            {},
        ),
        "token of another order": (lambda s: s.list(page_token=token(f"k|{UNKNOWN}|key")), {}),
        "token NUL": (
            lambda s: s.list(
                page_token=token(f"k|{UNKNOWN}|\x00", key_prefix="k"), filter=runs.RunFilter(key_prefix="k")
            ),
            {},
        ),
        "token umlauts": (lambda s: s.list(page_token="ü" * 10), {}),
    },
    (INVALID, "INVALID_OWNER"): {
        "no owner": (lambda s: s.lease(""), {}),
        "NUL owner": (lambda s: s.lease("w\x00"), {}),
        "long owner": (lambda s: s.lease("w" * 201), {}),
        "renew no owner": (lambda s: s.c.tasks.Renew(tasks.RenewRequest()), {}),
        "report no owner": (lambda s: s.c.tasks.Report(tasks.ReportRequest()), {}),
    },
    (INVALID, "BATCH_TOO_LARGE"): {
        "257 leases": (lambda s: s.lease(size=257), {"size": "257", "limit": "256"}),
        "257 renewals": (lambda s: s.c.tasks.Renew(tasks.RenewRequest(owner="w", items=[tasks.RenewItem()] * 257)), {}),
        "257 reports": (
            lambda s: s.c.tasks.Report(tasks.ReportRequest(owner="w", items=[tasks.ReportItem()] * 257)),
            {},
        ),
        "257 starts": (
            lambda s: s.c.runs.StartMany(runs.StartManyRequest(items=[runs.StartRequest()] * 257)),
            {"size": "257", "limit": "256"},
        ),
        "1001 timers": (
            lambda s: s.c.timers.Fire(timers.FireRequest(timers=[timers.Timer()] * 1_001)),
            {"limit": "1000"},
        ),
    },
    (INVALID, "DEFINITION_FAULTY"): {
        "deploy nothing": (lambda s: s.deploy(""), {}),
        "deploy no YAML": (lambda s: s.deploy("a: [b"), {"count": "1"}),
        "deploy NUL": (lambda s: s.deploy("a: \x00"), {"count": "1"}),
        "deploy too large": (lambda s: s.deploy("#" * (MIB + 1)), {"count": "1"}),
    },
}


async def scene(world: World) -> Scene:
    c = world.first
    await c.deploy(ONE, EVENT, SCHEMA, LOOP, TRIP)
    done, held, stopping, looped, undone = [
        await c.start(workflow) for workflow in ("waiting", "one", "one", "loop", "trip")
    ]
    await c.signal(done, "approval")

    async def run(run_id: str, path: str) -> None:
        await c.grant(Dispatch(run_id, path, 1))
        await c.succeed(Dispatch(run_id, path, 1))

    await run(done, "go")
    await run(looped, "poll[0].step")
    await run(looped, "poll[1].step")
    await run(looped, "poll[2].step")
    await run(undone, "book")
    await c.grant(Dispatch(undone, "go", 1))
    await c.fail(Dispatch(undone, "go", 1))
    await run(undone, "give_back")
    await c.deploy(LOOP.replace("< 3", "< 4"))
    for run_id in (held, stopping):
        await c.grant(Dispatch(run_id, "work", 1))
    _, untold = await begun(world, LEAF, PARENT)
    await carry(world, *await handovers(world, "StartChild"))
    await run(untold, "work")
    made = Scene(c, await c.start("waiting", key="taken"), done, held, stopping, looped, undone, untold)
    await made.pause(held)
    await c.cancel(stopping)
    return made


async def test_each_refusal_has_its_status_its_reason_and_its_facts_and_changes_nothing(world: World) -> None:
    made = await scene(world)
    counted = (
        "SELECT (SELECT count(*) FROM run_events) + (SELECT count(*) FROM definitions)"
        " + (SELECT count(*) FROM start_keys)"
    )
    before = await world.one(counted)
    wrong: list[str] = []

    for expected, cases in CASES.items():
        for name, (call, metadata) in cases.items():
            refusal = await refusal_of(call(made))
            if (refusal.code, refusal.reason) != expected or not metadata.items() <= refusal.metadata.items():
                wrong.append(f"{name}: {refusal.code.name} {refusal.reason} {refusal.metadata} {refusal.message[:300]}")

    assert not wrong, "\n".join(wrong)
    assert await world.one(counted) == before


BY_THEMSELVES = ("TASK_NOT_FOUND", "EVENT_UNDECIDABLE", "OVERLOADED", "STORE_UNAVAILABLE")


async def test_reasons_that_no_request_brings_about_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    c = world.first
    await c.deploy(ONE)
    dispatch = Dispatch(await c.start("one"), "work", 1)
    await c.grant(dispatch)

    in_items = [await c.succeed(Dispatch(UNKNOWN, "work", 1))]
    await world.database.execute("UPDATE runs SET open_tasks = 0")  # no decision fits these rows
    in_items.append(await c.succeed(dispatch))
    with monkeypatch.context() as patched:
        patched.setattr(lanes, "BACKLOG", 0)
        overloaded = await refusal_of(c.signal(dispatch.run_id, "x"))
    async with world.hold("run_events"):
        call = asyncio.ensure_future(refusal_of(c.signal(dispatch.run_id, "x")))
        (backend,) = await world.until_blocked()
        await world.database.execute("SELECT pg_terminate_backend($1)", backend)
        unavailable = await call

    assert (*in_items, overloaded.reason, unavailable.reason) == BY_THEMSELVES
    assert (overloaded.code, unavailable.code) == (STATUS["OVERLOADED"], STATUS["STORE_UNAVAILABLE"])


def test_every_reason_is_met_by_these_tests_with_its_status() -> None:
    met = {reason: status for status, reason in CASES} | {reason: STATUS[reason] for reason in BY_THEMSELVES}

    assert met == STATUS


def _subclasses(cls: type[Refusal]) -> set[type[Refusal]]:
    return {cls for direct in cls.__subclasses__() for cls in (direct, *_subclasses(direct))}


def test_the_table_names_every_refusal_and_nothing_else() -> None:
    reasons = {cls.reason for cls in _subclasses(Refusal)}

    assert reasons | {"STORE_UNAVAILABLE"} == set(STATUS)


def test_no_refusal_is_the_servers_own_fault() -> None:
    assert not {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.OK} & set(STATUS.values())


REFUSALS: list[type[Refusal]] = sorted(_subclasses(Refusal) - {Faulty}, key=lambda cls: cls.reason)


@pytest.mark.parametrize("cls", REFUSALS)
def test_a_refusals_docstring_is_its_message(cls: type[Refusal]) -> None:
    names = [name.partition("!")[0] for name in _placeholders(cls.__doc__ or "")]

    refusal = cls(**{name: f"<{name}>" for name in names})

    assert all(f"<{name}>" in str(refusal) for name in names)
    assert cls.reason == cls.reason.upper()
    assert cls in vars(refusals).values()


def _placeholders(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]


async def test_a_definition_with_very_many_faults_is_refused_with_as_many_as_fit(world: World) -> None:
    source = "workflow: w\nnodes:\n" + "".join(f"  n{n}: {{typo: üüüüüüüüüüüüüüüüüü}}\n" for n in range(400))

    refusal = await refusal_of(world.first.definitions.Deploy(definitions.DeployRequest(source=source)))

    assert (refusal.code, refusal.reason) == (INVALID, "DEFINITION_FAULTY")
    bad = error_details_pb2.BadRequest()
    assert unpacked(refusal.details, bad)
    assert bad.field_violations[0].field == "3:3"
    assert 5 < len(bad.field_violations) < int(refusal.metadata["count"])
    checked = await world.first.definitions.Check(definitions.CheckRequest(source=source))
    assert len([fault for fault in checked.faults if not fault.warning]) == int(refusal.metadata["count"])


def test_what_is_cut_is_cut_between_characters() -> None:
    assert refusing.cut("ü" * 300, 200).encode()[-3:] == "…".encode()
    assert len(refusing.cut("ü" * 300, 200).encode()) <= 200
    assert refusing.cut("ü" * 100, 200) == "ü" * 100
