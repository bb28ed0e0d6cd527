"""What goes over the wire for each call, and what comes back as plain Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from headway.api.definitions.v1 import definitions_pb2
from headway.api.runs.v1 import runs_pb2
from headway.client import Client, NewRun, ReopenedChild, RetryPlan, RunFilter, RunState, TaskState
from tests.client.scripted_coordinator import ScriptedCoordinator

NOON = datetime(2026, 1, 2, 12, 0, 0, 500_000, tzinfo=UTC)


def stamp(instant: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(instant)
    return message


async def test_start_sends_the_input_as_json_with_the_namespace_key_and_version(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1", existed=True, version=4))

    started = await client.start("orders", {"näme": [1, 2.5, None, True]}, key="order-7", version=4)

    request = coordinator.requests["runs.Start"][0]
    assert request.namespace == "shop"
    assert request.workflow == "orders"
    assert request.input == '{"näme":[1,2.5,null,true]}'.encode()
    assert request.key == "order-7"
    assert request.version == 4
    assert (started.run_id, started.existed, started.version) == ("r1", True, 4)


async def test_start_without_input_or_key_sends_an_empty_object_and_no_key(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1"))

    await client.start("orders")

    request = coordinator.requests["runs.Start"][0]
    assert request.input == b"{}"
    assert not request.HasField("key")


async def test_an_input_of_none_is_null_and_one_that_is_left_out_an_empty_object(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1"))
    coordinator.script("runs.StartMany", runs_pb2.StartManyResponse())
    coordinator.script("runs.SignalWithStart", *[runs_pb2.SignalWithStartResponse()] * 2)

    await client.start("orders", None)
    await client.start_many([NewRun("orders", None), NewRun("orders")])
    await client.signal_with_start("orders", "k", "paid", input=None)
    await client.signal_with_start("orders", "k", "paid")

    assert coordinator.requests["runs.Start"][0].input == b"null"
    assert [item.input for item in coordinator.requests["runs.StartMany"][0].items] == [b"null", b"{}"]
    assert [request.start.input for request in coordinator.requests["runs.SignalWithStart"]] == [b"null", b"{}"]


async def test_an_empty_key_is_sent_for_the_server_to_refuse(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1"))

    await client.start("orders", key="")

    assert coordinator.requests["runs.Start"][0].HasField("key")


async def test_start_sends_the_trace_of_the_current_span(client: Client, coordinator: ScriptedCoordinator) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1"))
    context = trace.SpanContext(
        trace_id=0xABC, span_id=0xDEF, is_remote=False, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED)
    )

    with trace.use_span(trace.NonRecordingSpan(context)):
        await client.start("orders")
    await client.start("orders")

    traced, untraced = coordinator.requests["runs.Start"]
    assert traced.traceparent == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert untraced.traceparent == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": "\ud800"}, {"a": object()}])
async def test_what_json_cannot_say_is_refused_before_the_call(
    value: object, client: Client, coordinator: ScriptedCoordinator
) -> None:
    with pytest.raises((TypeError, ValueError)):
        await client.start("orders", value)  # pyright: ignore[reportArgumentType] - the point of the test

    assert coordinator.requests["runs.Start"] == []


async def test_get_hands_out_plain_values_and_instants_in_utc(client: Client, coordinator: ScriptedCoordinator) -> None:
    task = runs_pb2.Task(
        path="charge",
        type="call",
        state=runs_pb2.TASK_STATE_RETRYING,
        attempt=3,
        due_at=stamp(NOON),
        error=runs_pb2.TaskError(failure_class="exec_failed", type="HTTPError", message="503", details=b'{"a":1}'),
        attempts=[runs_pb2.Attempt(attempt=1, owner="w1", outcome="lost")],
    )
    run = runs_pb2.Run(
        run_id="r1", state=runs_pb2.RUN_STATE_RUNNING, created_at=stamp(NOON), output=b"[1]", input=b"{}", epoch=1
    )
    stale = runs_pb2.StaleReport(path="charge", attempt=1, owner="w1", answer="LEASE_LOST", at=stamp(NOON))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run, tasks=[task], stale_reports=[stale]))

    details = await client.get("r1")

    assert details.run.state is RunState.RUNNING
    assert details.run.created_at == NOON
    assert details.run.finished_at is None
    assert details.run.output == [1]
    assert details.run.input == {}
    assert details.run.key is None
    (charge,) = details.tasks
    assert charge.state is TaskState.RETRYING
    assert charge.due_at == NOON
    assert charge.error is not None
    assert charge.error.details == {"a": 1}
    assert charge.attempts[0].outcome == "lost"
    assert details.stale_reports[0].answer == "LEASE_LOST"


async def test_what_is_left_out_says_so_and_a_task_and_items_from_an_index_on_are_asked_for(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    error = runs_pb2.TaskError(failure_class="exec_failed", type="HTTPError", left_out=True)
    task = runs_pb2.Task(path="charge", output_left_out=70_000, error=error)
    coordinator.script("runs.Get", runs_pb2.GetResponse(tasks=[task], more_stale_reports=True))
    item = runs_pb2.Item(path="each[7]", index=7, output_left_out=80_000)
    coordinator.script("runs.ListItems", runs_pb2.ListItemsResponse(items=[item]))

    details = await client.get_task("r1", "charge")
    items = [each async for each in client.items("r1", "each", from_index=7, page_size=2)]

    (charge,) = details.tasks
    assert (charge.output, charge.output_left_out, details.more_stale_reports) == (None, 70_000, True)
    assert charge.error is not None
    assert charge.error.left_out
    assert [each.output_left_out for each in items] == [80_000]
    assert [(each.path, each.scope) for each in coordinator.requests["runs.Get"]] == [("charge", "")]
    assert [(each.from_index, each.page_size) for each in coordinator.requests["runs.ListItems"]] == [(7, 2)]


async def test_a_state_that_a_newer_server_added_reads_as_unspecified(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    run = runs_pb2.Run.FromString(b"\x28\x63")  # field 5, state, as 99

    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run))

    assert (await client.get("r1")).run.state is RunState.UNSPECIFIED


def test_every_state_of_the_protocol_has_a_name() -> None:
    assert {state.value for state in RunState} == {
        name.removeprefix("RUN_STATE_").lower()
        for name in runs_pb2.DESCRIPTOR.enum_types_by_name["RunState"].values_by_name
    }
    assert {state.value for state in TaskState} == {
        name.removeprefix("TASK_STATE_").lower()
        for name in runs_pb2.DESCRIPTOR.enum_types_by_name["TaskState"].values_by_name
    }


async def test_list_walks_all_pages(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script(
        "runs.List",
        runs_pb2.ListResponse(runs=[runs_pb2.Run(run_id="r3"), runs_pb2.Run(run_id="r2")], next_page_token="t"),
        runs_pb2.ListResponse(runs=[runs_pb2.Run(run_id="r1")]),
    )

    runs = [run.run_id async for run in client.list(RunFilter(workflow="orders", states=(RunState.FAILED,)))]

    assert runs == ["r3", "r2", "r1"]
    first, second = coordinator.requests["runs.List"]
    assert (first.filter.workflow, list(first.filter.states), first.page_token) == (
        "orders",
        [runs_pb2.RUN_STATE_FAILED],
        "",
    )
    assert second.page_token == "t"


async def test_list_asks_for_no_page_that_is_not_read(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[runs_pb2.Run(run_id="r1")], next_page_token="t"))

    async for _ in client.list():
        break

    assert len(coordinator.requests["runs.List"]) == 1


async def test_history_walks_all_pages(client: Client, coordinator: ScriptedCoordinator) -> None:
    def page(request: runs_pb2.GetHistoryRequest) -> runs_pb2.GetHistoryResponse:
        first = request.from_seq
        return runs_pb2.GetHistoryResponse(
            events=[runs_pb2.Event(seq=first, type="RunStarted", event=b'{"a":1}')],
            next_seq=first + 1 if first < 3 else 0,
        )

    coordinator.script("runs.GetHistory", page)

    events = [event async for event in client.history("r1")]

    assert [event.seq for event in events] == [1, 2, 3]
    assert events[0].event == {"a": 1}
    assert events[0].actions is None


async def test_signal_sends_null_for_no_payload(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Signal", runs_pb2.SignalResponse(seq=9))

    assert (await client.signal("r1", "paid")).seq == 9
    assert coordinator.requests["runs.Signal"][0].payload == b"null"


async def test_cancel_sends_reason_and_grace(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Cancel", runs_pb2.CancelResponse(state=runs_pb2.RUN_STATE_RUNNING))

    state = await client.cancel("r1", "wrong order", grace=timedelta(seconds=1.5))
    await client.cancel("r1")

    assert state is RunState.RUNNING
    with_grace, without = coordinator.requests["runs.Cancel"]
    assert with_grace.reason == "wrong order"
    assert with_grace.grace.ToTimedelta() == timedelta(seconds=1.5)
    assert not without.HasField("grace")


async def test_retry_sends_its_nodes_and_hands_out_the_plan(client: Client, coordinator: ScriptedCoordinator) -> None:
    child = runs_pb2.ReopenedChild(path="a", run_id="c1", workflow="leaf", nodes=["x"])
    answer = runs_pb2.RetryResponse(chosen=["a"], reset=["b"], kept=["c"], epoch=2, children=[child])
    coordinator.script("runs.Retry", answer)

    plan = await client.retry("r1", ["a"], dry_run=True, render_inputs=True)

    taken_up = ReopenedChild(path="a", run_id="c1", workflow="leaf", nodes=("x",))
    assert plan == RetryPlan(chosen=("a",), reset=("b",), kept=("c",), epoch=2, children=(taken_up,))
    request = coordinator.requests["runs.Retry"][0]
    assert list(request.from_nodes) == ["a"]
    assert request.dry_run
    assert request.render_inputs


async def test_definitions_can_be_deployed_listed_read_and_rolled_back(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    stored = definitions_pb2.Definition(workflow="orders", version=2, deployed=True, created_at=stamp(NOON))
    coordinator.script("definitions.Deploy", definitions_pb2.DeployResponse(workflow="orders", version=2, changed=True))
    coordinator.script("definitions.List", definitions_pb2.ListResponse(definitions=[stored]))
    coordinator.script(
        "definitions.Get",
        definitions_pb2.GetResponse(definition=definitions_pb2.Definition(source="x", plan=b'{"nodes":{}}')),
    )
    coordinator.script("definitions.SetDeployedVersion", definitions_pb2.SetDeployedVersionResponse(definition=stored))

    deployed = await client.deploy("workflow: orders")
    (listed,) = await client.list_definitions("orders")
    read = await client.get_definition("orders")
    rolled_back = await client.set_deployed_version("orders", 2)

    assert (deployed.version, deployed.changed) == (2, True)
    assert listed.created_at == NOON
    assert read.plan == {"nodes": {}}
    assert rolled_back.definition.deployed
    assert coordinator.requests["definitions.Get"][0].version == 0
    assert coordinator.requests["definitions.SetDeployedVersion"][0].namespace == "shop"


async def test_check_tells_warnings_from_faults(client: Client, coordinator: ScriptedCoordinator) -> None:
    warning = definitions_pb2.Fault(line=1, column=1, code="unused", warning=True)
    fault = definitions_pb2.Fault(line=2, column=1, code="cycle")
    coordinator.script(
        "definitions.Check",
        definitions_pb2.CheckResponse(workflow="w", faults=[warning]),
        definitions_pb2.CheckResponse(workflow="w", faults=[warning, fault]),
    )

    assert (await client.check("w")).deployable
    assert not (await client.check("w")).deployable


async def test_a_message_above_grpcs_own_limit_of_4_mib_passes(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    run = runs_pb2.Run(run_id="r1", output=b'"' + b"x" * (8 << 20) + b'"')
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run))

    output = (await client.get("r1")).run.output

    assert isinstance(output, str)
    assert len(output) == 8 << 20
