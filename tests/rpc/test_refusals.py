"""Every refusal with its status, its reason and its facts, as a client reads them."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from headway.api.definitions.v1 import definitions_pb2 as definitions
from headway.api.runs.v1 import runs_pb2 as runs
from headway.api.tasks.v1 import tasks_pb2 as tasks
from headway.api.timers.v1 import timers_pb2 as timers
from headway.coordinator.core import refusals
from headway.coordinator.core.machines import IllegalTransition, LeaseRequired, TerminalState
from headway.coordinator.core.refusals import Refusal
from headway.coordinator.engine.definitions import Faulty
from headway.coordinator.rpc import refusing
from headway.coordinator.rpc.refusing import STATUS
from tests.rpc.world import EVENT, ONE, TWO, Coordinator, Dispatch, World, refusal_of

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
EXISTS = grpc.StatusCode.ALREADY_EXISTS

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
    """What the rows of the table call with."""

    c: Coordinator
    open: str
    done: str

    def start(self, workflow: str = "one", **fields: Any) -> Any:
        fields.setdefault("request_id", str(uuid4()))
        return self.c.runs.Start(runs.StartRequest(workflow=workflow, **fields))

    def signal(self, run_id: str | None = None, **fields: Any) -> Any:
        fields = {"request_id": str(uuid4()), "name": "x"} | fields
        return self.c.runs.Signal(runs.SignalRequest(run_id=run_id or self.open, **fields))

    def cancel(self, run_id: str | None = None, **fields: Any) -> Any:
        fields.setdefault("request_id", str(uuid4()))
        return self.c.runs.Cancel(runs.CancelRequest(run_id=run_id or self.open, **fields))

    def retry(self, run_id: str, *nodes: str, **fields: Any) -> Any:
        fields.setdefault("request_id", str(uuid4()))
        return self.c.runs.Retry(runs.RetryRequest(run_id=run_id, from_nodes=nodes, **fields))

    def get(self, run_id: str, **fields: Any) -> Any:
        return self.c.runs.Get(runs.GetRequest(run_id=run_id, **fields))

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

    def definition(self, workflow: str, **fields: Any) -> Any:
        return self.c.definitions.Get(definitions.GetRequest(workflow=workflow, **fields))

    def definitions(self, **fields: Any) -> Any:
        return self.c.definitions.List(definitions.ListRequest(**fields))


Call = Callable[[Scene], Awaitable[Any]]


def token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


CASES: list[tuple[str, Call, grpc.StatusCode, str, dict[str, str]]] = [
    # runs that are not there, or not in the right state
    ("get unknown", lambda s: s.get(UNKNOWN), NOT_FOUND, "RUN_NOT_FOUND", {"run_id": UNKNOWN, "namespace": "default"}),
    ("get of another namespace", lambda s: s.get(s.open, namespace="b"), NOT_FOUND, "RUN_NOT_FOUND", {"namespace": "b"}),
    ("get no id", lambda s: s.get(""), NOT_FOUND, "RUN_NOT_FOUND", {"run_id": ""}),
    ("get a word", lambda s: s.get("nonsense"), NOT_FOUND, "RUN_NOT_FOUND", {"run_id": "nonsense"}),
    ("get NUL", lambda s: s.get("\x00" * 32), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("get out of buckets", lambda s: s.get("f" * 32), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("get long", lambda s: s.get("x" * 100_000), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("get umlauts", lambda s: s.get("ü" * 1_000), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("history unknown", lambda s: s.history(UNKNOWN), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("watch unknown", lambda s: s.watch(UNKNOWN), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("watch bad namespace", lambda s: s.watch(s.open, namespace="\x00"), INVALID, "INVALID_ARGUMENT", {"field": "namespace"}),
    ("signal unknown", lambda s: s.signal(UNKNOWN), NOT_FOUND, "RUN_NOT_FOUND", {"run_id": UNKNOWN}),
    ("signal elsewhere", lambda s: s.signal(namespace="b"), NOT_FOUND, "RUN_NOT_FOUND", {"namespace": "b"}),
    ("signal closed", lambda s: s.signal(s.done), PRECONDITION, "RUN_CLOSED", {"state": "succeeded"}),
    ("cancel unknown", lambda s: s.cancel(UNKNOWN), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("cancel closed", lambda s: s.cancel(s.done), PRECONDITION, "RUN_CLOSED", {"state": "succeeded"}),
    ("retry unknown", lambda s: s.retry(UNKNOWN), NOT_FOUND, "RUN_NOT_FOUND", {}),
    ("retry open", lambda s: s.retry(s.open), PRECONDITION, "RUN_NOT_FINISHED", {"state": "running"}),
    ("retry open, dry", lambda s: s.retry(s.open, dry_run=True), PRECONDITION, "RUN_NOT_FINISHED", {}),
    ("retry of nothing", lambda s: s.retry(s.done), PRECONDITION, "NOTHING_TO_RETRY", {}),
    ("retry unknown node", lambda s: s.retry(s.done, "nope"), NOT_FOUND, "NODE_NOT_FOUND", {"node": "nope", "version": "1"}),
    ("retry NUL node", lambda s: s.retry(s.done, "\x00"), NOT_FOUND, "NODE_NOT_FOUND", {}),
    ("retry long node", lambda s: s.retry(s.done, "n" * 100_000), NOT_FOUND, "NODE_NOT_FOUND", {}),
    ("retry unreached", lambda s: s.retry(s.done, "late"), PRECONDITION, "NODE_NOT_REACHED", {"node": "late"}),
    # starts
    ("start unknown", lambda s: s.start("nope"), NOT_FOUND, "WORKFLOW_NOT_FOUND", {"workflow": "nope", "version": "deployed"}),
    ("start no version", lambda s: s.start(version=9), NOT_FOUND, "WORKFLOW_NOT_FOUND", {"version": "9"}),
    ("start elsewhere", lambda s: s.start(namespace="b"), NOT_FOUND, "WORKFLOW_NOT_FOUND", {"namespace": "b"}),
    ("start version < 0", lambda s: s.start(version=-1), INVALID, "INVALID_ARGUMENT", {"field": "version"}),
    ("start version max", lambda s: s.start(version=(1 << 31) - 1), NOT_FOUND, "WORKFLOW_NOT_FOUND", {}),
    ("start nothing", lambda s: s.start(""), INVALID, "INVALID_ARGUMENT", {"field": "workflow"}),
    ("start NUL", lambda s: s.start("a\x00"), INVALID, "INVALID_ARGUMENT", {"field": "workflow"}),
    ("start in NUL", lambda s: s.start(namespace="a\x00"), INVALID, "INVALID_ARGUMENT", {"field": "namespace"}),
    ("start in long", lambda s: s.start(namespace="a" * 201), INVALID, "INVALID_ARGUMENT", {"field": "namespace"}),
    ("key empty", lambda s: s.start(key=""), INVALID, "INVALID_KEY", {}),
    ("key NUL", lambda s: s.start(key="a\x00"), INVALID, "INVALID_KEY", {}),
    ("key long", lambda s: s.start(key="k" * 201), INVALID, "INVALID_KEY", {}),
    ("no request id", lambda s: s.start(request_id=""), INVALID, "INVALID_REQUEST_ID", {"request_id": ""}),
    ("bad request id", lambda s: s.start(request_id="1"), INVALID, "INVALID_REQUEST_ID", {"request_id": "1"}),
    ("long request id", lambda s: s.start(request_id="1" * 99_999), INVALID, "INVALID_REQUEST_ID", {}),
    ("signal bad request id", lambda s: s.signal(request_id="x"), INVALID, "INVALID_REQUEST_ID", {}),
    ("cancel bad request id", lambda s: s.cancel(request_id="x"), INVALID, "INVALID_REQUEST_ID", {}),
    ("retry bad request id", lambda s: s.retry(s.done, request_id="x"), INVALID, "INVALID_REQUEST_ID", {}),
    # payloads
    ("input too large", lambda s: s.start(input=b'"' + b"x" * MIB + b'"'), INVALID, "PAYLOAD_TOO_LARGE", {"field": "input", "size": str(MIB + 2), "limit": str(MIB)}),
    ("input no JSON", lambda s: s.start(input=b"{"), INVALID, "INVALID_PAYLOAD", {"field": "input"}),
    ("input NaN", lambda s: s.start(input=b"NaN"), INVALID, "INVALID_PAYLOAD", {}),
    ("input no UTF-8", lambda s: s.start(input=b'"\xff"'), INVALID, "INVALID_PAYLOAD", {}),
    ("input UTF-16", lambda s: s.start(input='"a"'.encode("utf-16")), INVALID, "INVALID_PAYLOAD", {}),
    ("input surrogate", lambda s: s.start(input=b'"\\ud800"'), INVALID, "INVALID_PAYLOAD", {}),
    ("input NUL escaped", lambda s: s.start(input=b'{"a": "\\u0000"}'), INVALID, "INVALID_PAYLOAD", {}),
    ("input NUL in key", lambda s: s.start(input=b'{"a\\u0000": 1}'), INVALID, "INVALID_PAYLOAD", {}),
    ("input NUL raw", lambda s: s.start(input=b'"\x00"'), INVALID, "INVALID_PAYLOAD", {}),
    ("input 2^63", lambda s: s.start(input=b"[9223372036854775808]"), INVALID, "INVALID_PAYLOAD", {}),
    ("input -2^63-1", lambda s: s.start(input=b"-9223372036854775809"), INVALID, "INVALID_PAYLOAD", {}),
    ("input endless number", lambda s: s.start(input=b"1" * 9_999), INVALID, "INVALID_PAYLOAD", {}),
    ("input deep", lambda s: s.start(input=deep(101)), INVALID, "INVALID_PAYLOAD", {}),
    ("input very deep", lambda s: s.start(input=deep(1_000)), INVALID, "INVALID_PAYLOAD", {}),
    ("input deep, long number", lambda s: s.start(input=b"[" * 999 + b"1234567890123456789" + b"]" * 999), INVALID, "INVALID_PAYLOAD", {}),
    ("input endlessly deep", lambda s: s.start(input=deep(200_000)), INVALID, "INVALID_PAYLOAD", {}),
    ("input long key at fault", lambda s: s.start(input=json.dumps({"k" * 99_999: "\x00"}).encode()), INVALID, "INVALID_PAYLOAD", {}),
    ("input against schema", lambda s: s.start("strict", input=b'{"order": {"lines": [{"count": 1}, {"count": "2"}]}}'), INVALID, "INVALID_INPUT", {"path": "$.order.lines[1].count"}),
    ("input without what is required", lambda s: s.start("strict"), INVALID, "INVALID_INPUT", {"path": "$.order"}),
    ("signal too large", lambda s: s.signal(payload=b"[" + b"1," * MIB + b"1]"), INVALID, "PAYLOAD_TOO_LARGE", {"field": "payload"}),
    ("signal no JSON", lambda s: s.signal(payload=b"'"), INVALID, "INVALID_PAYLOAD", {"field": "payload"}),
    ("signal no name", lambda s: s.signal(name=""), INVALID, "INVALID_SIGNAL_NAME", {}),
    ("signal NUL name", lambda s: s.signal(name="\x00"), INVALID, "INVALID_SIGNAL_NAME", {}),
    ("signal long name", lambda s: s.signal(name="n" * 201), INVALID, "INVALID_SIGNAL_NAME", {}),
    # numbers
    ("grace < 0", lambda s: s.cancel(grace=Duration(seconds=-1)), INVALID, "INVALID_ARGUMENT", {"field": "grace"}),
    ("grace of 2 days", lambda s: s.cancel(grace=Duration(seconds=172_800)), INVALID, "INVALID_ARGUMENT", {"field": "grace"}),
    ("grace for ever", lambda s: s.cancel(grace=Duration(seconds=1 << 62)), INVALID, "INVALID_ARGUMENT", {"field": "grace"}),
    ("page < 0", lambda s: s.list(page_size=-1), INVALID, "INVALID_ARGUMENT", {"field": "page_size"}),
    ("page > 1000", lambda s: s.list(page_size=1_001), INVALID, "INVALID_ARGUMENT", {"field": "page_size"}),
    ("history page < 0", lambda s: s.history(s.open, page_size=-1), INVALID, "INVALID_ARGUMENT", {"field": "page_size"}),
    ("history page > 1000", lambda s: s.history(s.open, page_size=1_001), INVALID, "INVALID_ARGUMENT", {}),
    ("list no such state", lambda s: s.list(state=77), INVALID, "INVALID_ARGUMENT", {"field": "state"}),
    ("list NUL", lambda s: s.list(workflow="\x00"), INVALID, "INVALID_ARGUMENT", {"field": "workflow"}),
    ("token a word", lambda s: s.list(page_token="next"), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token no time", lambda s: s.list(page_token=token(f"soon|{UNKNOWN}")), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token no id", lambda s: s.list(page_token=token("2026-01-01T00:00:00+00:00|x")), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token no zone", lambda s: s.list(page_token=token(f"2026-01-01T00:00:00|{UNKNOWN}")), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token year 1", lambda s: s.list(page_token=token(f"0001-01-01T00:00:00+14:00|{UNKNOWN}")), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token year 9999", lambda s: s.list(page_token=token(f"9999-12-31T23:59:59-14:00|{UNKNOWN}")), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token no UTF-8", lambda s: s.list(page_token=base64.urlsafe_b64encode(b"\xff\xfe").decode()), INVALID, "INVALID_PAGE_TOKEN", {}),
    ("token umlauts", lambda s: s.list(page_token="ü" * 10), INVALID, "INVALID_PAGE_TOKEN", {}),
    # workers
    ("no owner", lambda s: s.lease(""), INVALID, "INVALID_OWNER", {}),
    ("NUL owner", lambda s: s.lease("w\x00"), INVALID, "INVALID_OWNER", {}),
    ("long owner", lambda s: s.lease("w" * 201), INVALID, "INVALID_OWNER", {}),
    ("257 leases", lambda s: s.lease(size=257), INVALID, "BATCH_TOO_LARGE", {"size": "257", "limit": "256"}),
    ("257 renewals", lambda s: s.c.tasks.Renew(tasks.RenewRequest(owner="w", items=[tasks.RenewItem()] * 257)), INVALID, "BATCH_TOO_LARGE", {}),
    ("257 reports", lambda s: s.c.tasks.Report(tasks.ReportRequest(owner="w", items=[tasks.ReportItem()] * 257)), INVALID, "BATCH_TOO_LARGE", {}),
    ("renew no owner", lambda s: s.c.tasks.Renew(tasks.RenewRequest()), INVALID, "INVALID_OWNER", {}),
    ("report no owner", lambda s: s.c.tasks.Report(tasks.ReportRequest()), INVALID, "INVALID_OWNER", {}),
    ("1001 timers", lambda s: s.c.timers.Fire(timers.FireRequest(timers=[timers.Timer()] * 1_001)), INVALID, "BATCH_TOO_LARGE", {"limit": "1000"}),
    # definitions
    ("deploy nothing", lambda s: s.deploy(""), INVALID, "DEFINITION_FAULTY", {}),
    ("deploy no YAML", lambda s: s.deploy("a: [b"), INVALID, "DEFINITION_FAULTY", {"count": "1"}),
    ("deploy too large", lambda s: s.deploy("#" * (MIB + 1)), INVALID, "PAYLOAD_TOO_LARGE", {"field": "source"}),
    ("deploy NUL", lambda s: s.deploy("a: \x00"), INVALID, "INVALID_ARGUMENT", {"field": "source"}),
    ("deploy in NUL", lambda s: s.deploy(ONE, namespace="\x00"), INVALID, "INVALID_ARGUMENT", {"field": "namespace"}),
    ("set version 0", lambda s: s.version("one", 0), INVALID, "INVALID_ARGUMENT", {"field": "version"}),
    ("set version 7", lambda s: s.version("one", 7), NOT_FOUND, "WORKFLOW_NOT_FOUND", {"version": "7"}),
    ("set of nothing", lambda s: s.version("", 1), INVALID, "INVALID_ARGUMENT", {"field": "workflow"}),
    ("definition unknown", lambda s: s.definition("nope"), NOT_FOUND, "WORKFLOW_NOT_FOUND", {"version": "deployed"}),
    ("definition version < 0", lambda s: s.definition("one", version=-1), NOT_FOUND, "WORKFLOW_NOT_FOUND", {}),
    ("definition NUL", lambda s: s.definition("\x00"), INVALID, "INVALID_ARGUMENT", {"field": "workflow"}),
    ("definitions NUL", lambda s: s.definitions(workflow="\x00"), INVALID, "INVALID_ARGUMENT", {"field": "workflow"}),
]  # fmt: skip


async def scene(world: World) -> Scene:
    await world.first.deploy(ONE, EVENT, SCHEMA)
    done = await world.first.start("waiting")
    await world.first.signal(done, "approval")
    dispatch = await world.dispatch(done)
    await world.first.grant(dispatch)
    await world.first.succeed(dispatch)
    return Scene(world.first, await world.first.start("waiting"), done)


async def test_each_refusal_has_its_status_its_reason_and_its_facts_and_changes_nothing(world: World) -> None:
    made = await scene(world)
    counted = "SELECT (SELECT count(*) FROM run_events) + (SELECT count(*) FROM definitions) + (SELECT count(*) FROM start_keys)"
    before = await world.one(counted)
    wrong: list[str] = []

    for name, call, code, reason, metadata in CASES:
        refusal = await refusal_of(call(made))
        if (refusal.code, refusal.reason) != (code, reason) or not metadata.items() <= refusal.metadata.items():
            wrong.append(f"{name}: {refusal.code.name} {refusal.reason} {refusal.metadata} {refusal.message[:300]}")

    assert not wrong, "\n".join(wrong)
    assert await world.one(counted) == before


def _subclasses(cls: type[Refusal]) -> set[type[Refusal]]:
    return {cls for direct in cls.__subclasses__() for cls in (direct, *_subclasses(direct))}


def test_the_table_names_every_refusal_and_nothing_else() -> None:
    reasons = {cls.reason for cls in (*_subclasses(Refusal), IllegalTransition, TerminalState, LeaseRequired)}

    assert reasons | {"STORE_UNAVAILABLE"} == set(STATUS)


def test_no_refusal_is_the_servers_own_fault() -> None:
    assert not {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.OK} & set(STATUS.values())


@pytest.mark.parametrize("cls", sorted(_subclasses(Refusal) - {Faulty}, key=lambda cls: cls.reason), ids=lambda c: c.reason)
def test_a_refusals_docstring_is_its_message(cls: type[Refusal]) -> None:
    names = [name.partition("!")[0] for name in _placeholders(cls.__doc__ or "")]

    refusal = cls(**{name: f"<{name}>" for name in names})

    assert all(f"<{name}>" in str(refusal) for name in names)
    assert cls.reason == cls.reason.upper()
    assert cls in vars(refusals).values()


def _placeholders(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]


async def test_a_definition_with_very_many_faults_is_refused_with_as_many_as_fit(world: World) -> None:
    source = "workflow: w\nnodes:\n" + "".join(f"  n{n}: {{typo: üüüüüüüüüüüüüüüüüü}}\n" for n in range(1_900))

    refusal = await refusal_of(world.first.definitions.Deploy(definitions.DeployRequest(source=source)))

    assert (refusal.code, refusal.reason) == (INVALID, "DEFINITION_FAULTY")
    bad = error_details_pb2.BadRequest()
    assert refusal.details is not None
    assert any(detail.Unpack(bad) for detail in refusal.details.details if detail.Is(bad.DESCRIPTOR))
    assert bad.field_violations[0].field == "3:3"
    assert 5 < len(bad.field_violations) < int(refusal.metadata["count"])
    checked = await world.first.definitions.Check(definitions.CheckRequest(source=source))
    assert len([fault for fault in checked.faults if not fault.warning]) == int(refusal.metadata["count"])


def test_what_is_cut_is_cut_between_characters() -> None:
    assert refusing.cut("ü" * 300, 200).encode()[-3:] == "…".encode()
    assert len(refusing.cut("ü" * 300, 200).encode()) <= 200
    assert refusing.cut("ü" * 100, 200) == "ü" * 100


# --- items of lists


async def held(world: World, source: str = ONE) -> Dispatch:
    await world.first.deploy(source)
    dispatch = await world.dispatch(await world.first.start(source.split()[1]))
    await world.first.grant(dispatch)
    return dispatch


async def test_malformed_leases_are_refused_one_by_one(world: World) -> None:
    await world.first.deploy(ONE)
    good = await world.dispatch(await world.first.start("one"))
    numbers = count()

    def item(task_id: str = good.task_id, attempt: int = 1, key: str | None = None) -> tasks.LeaseItem:
        return tasks.LeaseItem(task_id=task_id, attempt=attempt, grant_key=f"{next(numbers)}" if key is None else key)

    items = [
        item("nonsense"),
        item(f"{good.run_id}:"),
        item(f"{good.run_id}:\x00"),
        item(f"{good.run_id}:nowhere"),
        item(f"{UNKNOWN}:work"),
        item(key=""),
        item(key="k" * 101),
        item(key="\x00"),
        item(attempt=-5),
        item(attempt=(1 << 63) - 1),
        item(),
    ]

    results = (await world.first.tasks.Lease(tasks.LeaseRequest(owner="w", items=items))).results

    assert [result.refusal.reason for result in results] == ["TASK_NOT_FOUND"] * 5 + ["INVALID_ARGUMENT"] * 3 + [""] * 3
    assert {result.refusal.metadata["field"] for result in results[5:8]} == {"grant_key"}
    assert [result.answer for result in results[8:]] == [
        tasks.LEASE_ANSWER_STALE_ATTEMPT,
        tasks.LEASE_ANSWER_STALE_ATTEMPT,
        tasks.LEASE_ANSWER_GRANTED,
    ]


async def test_malformed_renewals_are_refused_one_by_one(world: World) -> None:
    good = await held(world)
    ids = ["", "x:y", f"{good.run_id}:nowhere", f"{UNKNOWN}:work", good.task_id]

    response = await world.first.tasks.Renew(
        tasks.RenewRequest(owner="w1", items=[tasks.RenewItem(task_id=task_id, attempt=1) for task_id in ids])
    )

    assert [result.refusal.reason for result in response.results] == ["TASK_NOT_FOUND"] * 4 + [""]
    assert response.results[4].answer == tasks.RENEW_ANSWER_RENEWED


async def test_malformed_reports_are_refused_one_by_one_before_anything_is_written(world: World) -> None:
    good = await held(world)
    done = tasks.Succeeded(output=b"1")

    def item(**fields: Any) -> tasks.ReportItem:
        return tasks.ReportItem(**({"task_id": good.task_id, "attempt": 1, "succeeded": done} | fields))

    items = [
        item(task_id="nonsense"),
        item(task_id=f"{good.run_id}:no\x00where"),
        item(attempt=0),
        item(attempt=-1),
        tasks.ReportItem(task_id=good.task_id, attempt=1),
        item(succeeded=tasks.Succeeded(output=b"x" * (MIB + 1))),
        item(succeeded=tasks.Succeeded(output=b"{")),
        item(succeeded=tasks.Succeeded(output=b'"\\u0000"')),
        item(succeeded=tasks.Succeeded(output=b"[1234567890123456789012]")),
        item(succeeded=tasks.Succeeded(output=deep(200))),
        tasks.ReportItem(task_id=good.task_id, attempt=1, failed=tasks.Failed(details=b"[]")),
        tasks.ReportItem(task_id=good.task_id, attempt=1, failed=tasks.Failed(details=b'{"a":"' + b"x" * 16_384 + b'"}')),
    ]  # fmt: skip

    answers = await world.first.report("w1", *items)

    assert answers == [
        *["TASK_NOT_FOUND"] * 2,
        *["INVALID_ARGUMENT"] * 3,
        "PAYLOAD_TOO_LARGE",
        *["INVALID_PAYLOAD"] * 5,
        "PAYLOAD_TOO_LARGE",
    ]
    assert await world.one("SELECT count(*) FROM run_events") == 1
    assert await world.first.succeed(good) == "ACCEPTED"


async def test_the_largest_payload_passes_and_comes_back_whole(world: World) -> None:
    largest = b'"' + b"x" * (MIB - 2) + b'"'
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(
        (await world.first.runs.Start(runs.StartRequest(workflow="one", input=largest, request_id=str(uuid4())))).run_id
    )

    grant = await world.first.grant(dispatch)
    item = tasks.ReportItem(task_id=dispatch.task_id, attempt=1, succeeded=tasks.Succeeded(output=largest))

    assert grant.input == largest
    assert await world.first.report("w1", item) == ["ACCEPTED"]
    shown = await world.first.get(dispatch.run_id)
    assert shown.run.input == largest
    assert shown.tasks[0].output == b""  # over what is shown with its run


async def test_a_handlers_error_is_cut_and_its_nuls_are_replaced(world: World) -> None:
    good = await held(world)

    answer = await world.first.fail(
        good,
        type="T\x00" + "y" * 500,
        message="m\x00" + "y" * 10_000,
        trace="t\x00" + "y" * 100_000,
        details=b'{"code": 7}',
        failure_class=77,
        final=True,
    )

    assert answer == "ACCEPTED"
    error = (await world.first.task(good.run_id, "work")).error
    assert (len(error.type), len(error.message), len(error.trace)) == (200, 4_096, 16_384)
    assert (error.type[:2], error.message[:2], error.trace[:2]) == ("T\ufffd", "m\ufffd", "t\ufffd")
    assert (error.failure_class, error.details) == ("exec_failed", b'{"code":7}')


@pytest.mark.parametrize("trace", ["\x00", "nonsense", "00-" + "z" * 32 + "-" + "0" * 16 + "-01", "x" * 100_000])
async def test_a_trace_that_is_none_never_makes_a_request_fail(trace: str, world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two", traceparent=trace)
    dispatch = await world.dispatch(run_id)
    lease = tasks.LeaseItem(task_id=dispatch.task_id, attempt=1, grant_key="k", traceparent=trace)

    granted = (await world.first.tasks.Lease(tasks.LeaseRequest(owner="w", items=[lease]))).results[0]
    report = tasks.ReportItem(
        task_id=dispatch.task_id, attempt=1, succeeded=tasks.Succeeded(output=b"1"), traceparent=trace
    )

    assert granted.grant.traceparent == ""
    assert await world.first.report("w", report) == ["ACCEPTED"]
    assert await world.one("SELECT trace FROM outbox") == ""


async def test_a_trace_passes_through_untouched_when_tracing_is_off(world: World) -> None:
    await world.first.deploy(ONE)
    trace = f"00-{'a' * 32}-{'b' * 16}-01"

    await world.first.start("one", traceparent=trace)

    assert await world.one("SELECT trace FROM outbox") == trace


async def test_timers_that_name_nothing_are_answered_item_by_item(world: World) -> None:
    good = await held(world)
    answers = await world.first.fire(
        timers=[
            timers.Timer(run_id="nonsense", path="", kind="wait", attempt=0),
            timers.Timer(run_id=good.run_id, path="\x00", kind="wait", attempt=1),
            timers.Timer(run_id=good.run_id, path="work", kind="\x00", attempt=1),
            timers.Timer(run_id=good.run_id, path="work", kind="tea", attempt=1),
            timers.Timer(run_id=good.run_id, path="nowhere", kind="wait", attempt=-1),
            timers.Timer(run_id=UNKNOWN, path="", kind="run_deadline", attempt=0),
        ],
        leases=[
            timers.ExpiredLease(run_id="nonsense", path="work", attempt=1),
            timers.ExpiredLease(run_id=good.run_id, path="a\x00b", attempt=1),
            timers.ExpiredLease(run_id=good.run_id, path="nowhere", attempt=1),
            timers.ExpiredLease(run_id=good.run_id, path="work", attempt=7),
        ],
    )

    assert answers == [*["FAILED"] * 3, *["STALE"] * 3, *["FAILED"] * 2, *["STALE"] * 2]
    assert await world.one("SELECT count(*) FROM run_events") == 1
