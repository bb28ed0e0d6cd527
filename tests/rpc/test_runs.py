"""Starting, looking at and watching runs; keeping versions of workflows."""

from __future__ import annotations

import asyncio
import hashlib
import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import grpc
import orjson
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headway.api.definitions.v1 import definitions_pb2
from headway.api.events.v1 import events_pb2
from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.client import Client
from headway.coordinator.ids import KEY_BUCKETS, key_bucket
from headway.coordinator.rpc import messages, server
from tests.rpc.world import EVENT, ONE, TWO, Coordinator, World, refusal_of

# --- starts


async def test_a_start_with_a_key_is_one_run_however_often_it_is_asked_for(world: World) -> None:
    await world.first.deploy(ONE)
    requests = [
        runs_pb2.StartRequest(workflow="one", key="k", input=given, request_id=str(uuid4()))
        for given in (b'{"a": 1, "b": 2}', b'{"b":2,"a":1}')
    ]

    answers = [await world.first.runs.Start(request) for request in requests]

    assert answers[0].run_id == answers[1].run_id
    assert [answer.existed for answer in answers] == [False, True]
    assert (await world.first.get(answers[0].run_id)).run.key == "k"


async def test_a_run_tells_the_trace_that_it_was_started_in(world: World) -> None:
    await world.first.deploy(ONE)
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    traced = await world.first.start("one", traceparent=f"00-{trace_id}-00f067aa0ba902b7-01")
    untraced = await world.first.start("one")

    assert (await world.first.get(traced)).run.trace_id == trace_id
    assert (await world.first.get(untraced)).run.trace_id == ""


@pytest.mark.parametrize(
    "change", [{"input": b"{}"}, {"workflow": "two"}, {"version": 1}], ids=["input", "workflow", "version"]
)
async def test_a_key_used_for_another_request_is_refused(change: dict[str, Any], world: World) -> None:
    await world.first.deploy(ONE, TWO)
    fields: dict[str, Any] = {"workflow": "one", "key": "k", "input": b"[1]"}
    await world.first.runs.Start(runs_pb2.StartRequest(**fields, request_id=str(uuid4())))

    again = runs_pb2.StartRequest(**(fields | change), request_id=str(uuid4()))
    refusal = await refusal_of(world.first.runs.Start(again))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "KEY_REUSED")
    assert refusal.metadata == {"key": "k"}
    assert await world.one("SELECT count(*) FROM runs") == 1


async def test_a_key_belongs_to_its_namespace(world: World) -> None:
    for namespace in ("a", "b"):
        await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=ONE, namespace=namespace))

    ids = [await world.first.start("one", key="k", namespace=namespace) for namespace in ("a", "b")]

    assert len(set(ids)) == 2


async def test_a_start_whose_key_was_claimed_but_whose_run_is_missing_is_completed_by_the_repeat(world: World) -> None:
    await world.first.deploy(ONE)
    claimed = UUID(int=uuid4().int & ~0xFFFF)
    digest = hashlib.sha256(orjson.dumps(["one", 0, {"n": 1}])).hexdigest()
    await world.database.execute(
        "INSERT INTO start_keys VALUES ($1, 'default', 'k', $2, $3, now())", key_bucket("default", "k"), claimed, digest
    )

    run_id = await world.first.start("one", {"n": 1}, key="k")

    assert run_id == claimed.hex
    assert await world.dispatch(run_id)


async def test_a_start_repeated_by_its_request_id_after_a_new_version_keeps_the_old_one(world: World) -> None:
    await world.first.deploy(ONE)
    request = runs_pb2.StartRequest(workflow="one", request_id=str(uuid4()))
    first = await world.first.runs.Start(request)
    await world.first.deploy(ONE + "  more: {type: call, handler: h}\n")

    second = await world.first.runs.Start(request)

    assert (second.run_id, second.existed, second.version) == (first.run_id, False, 1)  # as the first time


@pytest.mark.parametrize(
    "other", [{"workflow": "two"}, {"namespace": "b"}, {"input": b'{"x":1}'}], ids=["workflow", "namespace", "input"]
)
async def test_a_request_id_of_another_start_is_refused(other: dict[str, Any], world: World) -> None:
    await world.first.deploy(ONE, TWO)
    await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=ONE, namespace="b"))
    request_id = str(uuid4())
    await world.first.start("one", request_id=request_id)

    fields: dict[str, Any] = {"workflow": "one"}
    again = runs_pb2.StartRequest(**(fields | other), request_id=request_id)
    refusal = await refusal_of(world.first.runs.Start(again))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "KEY_REUSED")


def test_keys_have_buckets_of_their_own_for_ever() -> None:
    assert key_bucket("default", "order-1") == key_bucket("default", "order-1") < KEY_BUCKETS
    assert len({key_bucket("default", f"order-{n}") for n in range(2_000)}) > 200


async def test_new_runs_are_spread_over_the_buckets(world: World) -> None:
    await world.first.deploy(ONE)

    ids = [await world.first.start("one") for _ in range(24)]

    assert {UUID(run_id).bytes[-1] for run_id in ids} == {0, 1}
    strays = "SELECT count(*) FROM runs WHERE bucket <> ('x' || right(run_id::text, 4))::bit(16)::int"
    assert await world.one(strays) == 0


# --- looking


async def test_pages_of_runs_are_whole_and_ordered_even_when_runs_are_created_at_one_instant(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [await world.first.start("one") for _ in range(23)]
    await world.database.execute("UPDATE runs SET created_at = '2026-01-01 00:00:00.123456Z'")

    seen: list[str] = []
    sizes: list[int] = []
    token = ""
    while True:
        page = await world.first.runs.List(runs_pb2.ListRequest(page_size=5, page_token=token))
        seen += [run.run_id for run in page.runs]
        sizes.append(len(page.runs))
        token = page.next_page_token
        if not token:
            break

    assert seen == sorted(ids, reverse=True)
    assert sizes == [5, 5, 5, 5, 3]


async def test_a_page_that_ends_with_the_last_run_is_the_last(world: World) -> None:
    await world.first.deploy(ONE)
    for _ in range(5):
        await world.first.start("one")

    page = await world.first.runs.List(runs_pb2.ListRequest(page_size=5))

    assert (len(page.runs), page.next_page_token) == (5, "")


async def test_a_run_that_starts_while_pages_are_read_moves_nothing(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [await world.first.start("one") for _ in range(4)]
    first = await world.first.runs.List(runs_pb2.ListRequest(page_size=2))
    await world.first.start("one")

    second = await world.first.runs.List(runs_pb2.ListRequest(page_size=2, page_token=first.next_page_token))

    assert [run.run_id for run in (*first.runs, *second.runs)] == ids[::-1]


async def test_runs_are_found_by_workflow_state_and_namespace(world: World) -> None:
    await world.first.deploy(ONE, EVENT)
    cancelled, other = await world.first.start("one"), await world.first.start("waiting")
    running = await world.first.start("one")
    await world.first.cancel(cancelled)

    async def found(namespace: str = "", **fields: Any) -> list[str]:
        request = runs_pb2.ListRequest(namespace=namespace, filter=runs_pb2.RunFilter(**fields))
        return [run.run_id for run in (await world.first.runs.List(request)).runs]

    assert await found() == [running, other, cancelled]
    assert await found(workflow="one") == [running, cancelled]
    assert await found(states=[runs_pb2.RUN_STATE_CANCELLED]) == [cancelled]
    assert await found(workflow="waiting", states=[runs_pb2.RUN_STATE_FAILED]) == []
    assert await found(namespace="b") == []


async def test_a_history_is_read_in_pages_without_a_gap(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")
    for n in range(10):
        await world.first.signal(run_id, "other", n)

    async def page(from_seq: int, size: int) -> tuple[list[int], int]:
        request = runs_pb2.GetHistoryRequest(run_id=run_id, from_seq=from_seq, page_size=size)
        response = await world.first.runs.GetHistory(request)
        return [event.seq for event in response.events], response.next_seq

    assert await page(0, 4) == ([1, 2, 3, 4], 5)
    assert await page(5, 7) == ([5, 6, 7, 8, 9, 10, 11], 0)
    assert await page(-9, 1) == ([1], 2)
    assert await page(12, 5) == ([], 0)
    assert await page((1 << 63) - 1, 5) == ([], 0)


async def test_a_page_of_history_ends_where_its_bytes_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")
    for n in range(6):
        await world.first.signal(run_id, "other", n)
    monkeypatch.setattr(messages, "PAGE_BYTES", 600)

    async with Client(world.first.address) as client:
        seen = [event.seq async for event in client.history(run_id)]

    assert seen == [1, 2, 3, 4, 5, 6, 7]
    first = await world.first.runs.GetHistory(runs_pb2.GetHistoryRequest(run_id=run_id))
    assert 1 <= len(first.events) < 7
    assert first.next_seq == len(first.events) + 1


async def test_grants_that_do_not_fit_into_one_answer_are_granted_when_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    for _ in range(3):
        await world.first.start("one", {"pad": "x" * 300})
    dispatches = await world.dispatches()
    monkeypatch.setattr(messages, "PAGE_BYTES", 700)

    first = await world.first.lease_all(dispatches, key="k")
    again = await world.first.lease_all(dispatches[2:], key="k")

    granted, busy = tasks_pb2.LEASE_ANSWER_GRANTED, tasks_pb2.LEASE_ANSWER_BUSY
    assert [result.answer for result in first] == [granted, granted, busy]
    assert [result.answer for result in again] == [granted]


async def test_a_run_that_is_too_large_to_be_shown_is_shown_without_what_is_too_large(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))
    await world.first.grant(first)
    await world.first.succeed(first, "x" * 500)
    second = await world.dispatch(first.run_id)
    await world.first.grant(second)
    await world.first.fail(second, message="m" * 600, trace="t" * 600, final=True)
    monkeypatch.setattr(messages, "PAGE_BYTES", 1_000)

    shown = (await world.first.get(first.run_id)).tasks

    assert [len(task.output) for task in shown] == [502, 0]
    assert (shown[1].error.failure_class, shown[1].error.type) == ("exec_failed", "Broken")
    assert (shown[1].error.message, shown[1].error.trace) == ("", "")


@pytest.mark.parametrize("given", ["sorry", 5, None, {"a": [1]}, "m" * 100_000])
async def test_a_finish_node_may_end_a_run_with_a_message_of_any_kind(given: object, world: World) -> None:
    await world.first.deploy(
        "workflow: ended\nnodes:\n  end: {type: finish, outcome: failed, message: '${input.why}'}\n"
    )

    run_id = await world.first.start("ended", {"why": given})

    run = (await world.first.get(run_id)).run
    assert run.state == runs_pb2.RUN_STATE_FAILED
    text = given if isinstance(given, str) else orjson.dumps(given).decode()
    cut = text[: messages.ERROR_LIMIT] + " …"
    assert run.error.message == (cut if len(text) > messages.ERROR_LIMIT else text)
    (listed,) = (await world.first.runs.List(runs_pb2.ListRequest())).runs
    assert listed.error == run.error


async def test_a_task_shows_where_it_stands(world: World) -> None:
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))
    ready = await world.first.task(first.run_id, "first")
    await world.first.grant(first, "w9")
    running = await world.first.task(first.run_id, "first")
    await world.first.fail(first, "w9", message="no", details=b'{"code": 4}')
    retrying = await world.first.task(first.run_id, "first")

    assert (ready.state, ready.owner, ready.HasField("started_at")) == (runs_pb2.TASK_STATE_READY, "", False)
    assert (running.state, running.owner) == (runs_pb2.TASK_STATE_RUNNING, "w9")
    assert running.HasField("lease_expires_at")
    assert (retrying.state, retrying.attempt, retrying.tries) == (runs_pb2.TASK_STATE_RETRYING, 2, 1)
    assert (retrying.error.type, retrying.error.details) == ("Broken", b'{"code":4}')
    assert retrying.HasField("due_at")
    assert retrying.started_at == running.started_at
    (left,) = retrying.attempts
    assert (left.attempt, left.owner, left.outcome, left.error.message) == (1, "w9", "failed", "no")


async def test_a_task_that_is_tried_again_keeps_the_instant_of_its_first_lease(world: World) -> None:
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))
    await world.first.grant(first)
    began = (await world.first.task(first.run_id, "first")).started_at
    await world.first.fail(first)
    await world.first.fire(await world.let_timers_come_due(first.run_id))

    await world.first.grant(await world.dispatch(first.run_id))

    assert (await world.first.task(first.run_id, "first")).started_at == began


# --- watching


async def test_a_watch_tells_every_event_from_a_number_on_and_ends_with_the_run_across_coordinators(
    world: World,
) -> None:
    other = await world.coordinator()
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))

    async def watch(coordinator: Coordinator, from_seq: int) -> None:
        request = runs_pb2.WatchRequest(run_id=first.run_id, from_seq=from_seq)
        async for response in coordinator.runs.Watch(request):
            seen.setdefault(id(coordinator), []).append(response.event.seq)

    seen: dict[int, list[int]] = {}
    watches = [asyncio.ensure_future(watch(c, n)) for c, n in ((world.first, 0), (other, 2))]

    await world.first.grant(first)
    await other.succeed(first)
    second = await world.dispatch(first.run_id)
    await other.grant(second)
    await world.first.succeed(second)

    await asyncio.wait_for(asyncio.gather(*watches), 20)
    assert seen == {id(world.first): [1, 2, 3], id(other): [2, 3]}
    assert world.first.engine.watchers._events == {}


async def test_a_watch_of_a_finished_run_tells_the_rest_and_ends(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")
    await world.first.cancel(run_id)

    async def numbers(from_seq: int) -> list[tuple[int, int]]:
        request = runs_pb2.WatchRequest(run_id=run_id, from_seq=from_seq)
        return [(r.event.seq, r.state) async for r in world.first.runs.Watch(request)]

    assert await numbers(-3) == [(1, runs_pb2.RUN_STATE_CANCELLED), (2, runs_pb2.RUN_STATE_CANCELLED)]
    assert await numbers(2) == [(2, runs_pb2.RUN_STATE_CANCELLED)]
    assert await numbers(3) == []


# --- definitions


async def deployed(world: World, source: str) -> tuple[int, bool]:
    response = await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=source))
    return response.version, response.changed


async def current(world: World) -> int:
    request = definitions_pb2.GetRequest(workflow="one")
    return (await world.first.definitions.Get(request)).definition.version


async def test_deploying_the_same_content_changes_nothing_and_older_content_deploys_its_version(world: World) -> None:
    newer = ONE + "# newer\n"

    answers = [await deployed(world, source) for source in (ONE, ONE, newer, newer, ONE, ONE)]

    assert answers == [(1, True), (1, False), (2, True), (2, False), (1, True), (1, False)]
    assert await current(world) == 1
    assert await world.one("SELECT count(*) FROM definitions") == 2


async def test_an_older_version_can_be_deployed_and_open_runs_keep_theirs(world: World) -> None:
    await world.first.deploy(ONE, ONE + "  more: {type: call, handler: h.more}\n")
    on_two = await world.first.start("one")

    request = definitions_pb2.SetDeployedVersionRequest(workflow="one", version=1)
    answers = [await world.first.definitions.SetDeployedVersion(request) for _ in range(2)]
    on_one = await world.first.start("one")
    pinned = await world.first.start("one", version=2)

    assert [(answer.definition.version, answer.definition.deployed) for answer in answers] == [(1, True)] * 2
    versions = [(await world.first.get(run_id)).run.version for run_id in (on_two, on_one, pinned)]
    assert versions == [2, 1, 2]
    assert len(await world.dispatches(pinned)) == 2


async def test_deploys_of_one_workflow_at_once_leave_one_deployed_version_and_no_gap(world: World) -> None:
    other = await world.coordinator()
    sources = [f"{ONE}# {n}\n" for n in range(6)]

    await asyncio.gather(*((world.first, other)[n % 2].deploy(source) for n, source in enumerate(sources)))

    listed = (await world.first.definitions.List(definitions_pb2.ListRequest(workflow="one"))).definitions
    assert [definition.version for definition in listed] == [6, 5, 4, 3, 2, 1]
    assert sum(definition.deployed for definition in listed) == 1


async def test_a_definition_comes_back_as_it_was_written(world: World) -> None:
    await world.first.deploy(ONE)

    stored = (await world.first.definitions.Get(definitions_pb2.GetRequest(workflow="one", version=1))).definition

    assert stored.source == ONE
    assert stored.digest == hashlib.sha256(ONE.encode()).hexdigest()
    assert json.loads(stored.plan)
    checked = await world.first.definitions.Check(definitions_pb2.CheckRequest(source=ONE))
    assert (checked.workflow, list(checked.faults)) == ("one", [])


# --- hand-overs, health, reflection


async def test_a_handover_is_applied_once_and_nonsense_is_told_apart(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id, done = [await world.first.start("waiting") for _ in range(2)]
    await world.first.cancel(done)

    def handover(to: str = run_id, request_id: str | None = None, event: object = None) -> events_pb2.Handover:
        body = {"name": "x", "payload": 1} if event is None else event
        return events_pb2.Handover(
            request_id=request_id or str(uuid4()), run_id=to, type="SignalReceived", event=orjson.dumps(body)
        )

    good = handover()
    bad = [
        handover("nonsense"),
        handover(request_id="nonsense"),
        handover(event=[]),
        handover(event={"name": 5, "payload": 1}),
        handover(event={"name": "\x00", "payload": 1}),
        handover(event={"name": "x", "payload": "\x00"}),
        handover(event={"name": "x"}),
    ]
    request = events_pb2.DeliverRequest(handovers=[good, handover(done), handover("0" * 32), *bad])

    answers = [list((await world.first.events.Deliver(request)).answers) for _ in range(2)]

    applied, closed, failed = (
        events_pb2.DELIVER_ANSWER_APPLIED,
        events_pb2.DELIVER_ANSWER_RUN_CLOSED,
        events_pb2.DELIVER_ANSWER_FAILED,
    )
    assert answers == [[applied, closed, closed, *[failed] * 7]] * 2
    assert await world.one("SELECT count(*) FROM signals") == 1


async def test_every_service_is_healthy_and_can_be_reflected_on(world: World) -> None:
    channel: Any = world.first.channel  # the stubs of grpcio's own services have types for its other channel
    health: Any = health_pb2_grpc.HealthStub(channel)
    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)

    for name in ("", *server.SERVICES):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    call = reflection.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = {service.name async for answer in call for service in answer.list_services_response.service}
    assert set(server.SERVICES) <= names
    assert len(server.SERVICES) == 6


async def test_the_client_and_the_server_understand_each_other(world: World) -> None:
    await world.first.deploy(EVENT)

    async with Client(world.first.address) as client:
        started = await client.start("waiting", {"a": 1}, key="k")
        seq = (await client.signal(started.run_id, "approval", {"ok": True})).seq
        dispatch = await world.dispatch(started.run_id)
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch)
        outcome = await client.wait(started.run_id)
        listed = [run.run_id async for run in client.list()]

    assert (seq, outcome.state.name, listed) == (2, "SUCCEEDED", [started.run_id])


COUNTED = (
    "workflow: counted\nnodes:\n  docs: {type: wait_for_event, event: '${input.name}', count: 2, "
    "filter: 'payload.ok', timeout: 1h}\n"
)


async def test_signals_with_one_id_count_once_and_a_wait_takes_as_many_as_it_needs(world: World) -> None:
    await world.first.deploy(COUNTED)
    run_id = await world.first.start("counted", {"name": "document"})

    first = await world.first.signal(run_id, "document", {"ok": True, "n": 1}, id="letter-1")
    again = await world.first.signal(run_id, "document", {"ok": True, "n": 1}, id="letter-1")
    await world.first.signal(run_id, "document", {"ok": False, "n": 2}, id="letter-2")
    assert (await world.first.task(run_id, "docs")).waits_for == "document"
    await world.first.signal(run_id, "document", {"ok": True, "n": 3}, id="letter-3")

    assert first == again
    task = await world.first.task(run_id, "docs")
    assert json.loads(task.output) == [{"ok": True, "n": 1}, {"ok": True, "n": 3}]
    assert await world.first.state(run_id) == "SUCCEEDED"


async def test_a_signal_whose_id_came_before_is_answered_as_it_was_and_says_whether_it_differs(world: World) -> None:
    await world.first.deploy(COUNTED)
    run_id = await world.first.start("counted", {"name": "document"}, key="k")

    async with Client(world.first.address) as client:
        first = await client.signal(run_id, "document", {"n": 1}, id="7")
        again = await client.signal_key("k", "document", {"n": 1}, id="7")
        other = await client.signal(run_id, "document", {"n": 2}, id="7")
        started = await client.signal_with_start("counted", "k", "document", {"n": 2}, id="7")
        of_another_name = await client.signal(run_id, "letter", {"n": 2}, id="7")

    told = [(each.seq, each.is_repeat, each.differs) for each in (first, again, other, started, of_another_name)]
    assert told == [(2, False, False), (2, True, False), (2, True, True), (2, True, True), (3, False, False)]
    assert await world.one("SELECT count(*) FROM signals WHERE name = 'document'") == 1


async def test_name_and_id_of_a_signal_do_not_run_together(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")

    async with Client(world.first.address) as client:
        one = await client.signal(run_id, "a", 1, id="b\nc")
        other = await client.signal(run_id, "a\nb", 2, id="c")

    assert [(each.seq, each.is_repeat) for each in (one, other)] == [(2, False), (3, False)]


async def test_a_signal_past_its_time_is_not_taken(world: World) -> None:
    await world.first.deploy(
        "workflow: late\nnodes:\n  work: {type: call, handler: h}\n  ask: {type: wait_for_event, event: approval}\n"
        "edges: [[work, ask]]\n"
    )
    run_id = await world.first.start("late")
    await world.first.signal(run_id, "approval", 1, ttl=timedelta(minutes=1))
    await world.database.execute("UPDATE signals SET expires_at = expires_at - interval '2 minutes'")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)

    await world.first.succeed(dispatch)

    assert (await world.first.task(run_id, "ask")).state == runs_pb2.TASK_STATE_WAITING
