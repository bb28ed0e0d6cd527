"""Reports that ask for a next task, and what they are answered."""

from __future__ import annotations

from typing import Any

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.engine import eager
from tests.rpc.world import Coordinator, Dispatch, World, succeeded

LINE = (
    "workflow: line\nnodes:\n"
    "  a: {type: call, handler: h.a, input: '${input}', lease: 60s}\n"
    "  b: {type: call, handler: h.b, input: {got: '${nodes.a.output}'}, lease: 60s}\n"
    "  c: {type: call, handler: h.c, input: '${input}', lease: 60s}\n"
    "  d: {type: call, handler: h.d, input: '${nodes.a.output}', lease: 60s}\n"
    "edges: [[a, b, c, d]]\n"
)


LENGTH = 2 * eager.IN_A_ROW + 5


LONG = (
    "workflow: long\nnodes:\n"
    + "".join(f"  n{place}: {{type: call, handler: h, lease: 60s}}\n" for place in range(LENGTH))
    + f"edges: [[{', '.join(f'n{place}' for place in range(LENGTH))}]]\n"
)


def wishing(dispatch: Dispatch, output: object = None, *, key: str = "next", trace: str = "") -> tasks_pb2.ReportItem:
    """The report of a success that asks for a next task."""
    item = succeeded(dispatch, output)
    item.next_grant_key, item.traceparent = key, trace
    return item


async def report_all(
    coordinator: Coordinator, *items: tasks_pb2.ReportItem, owner: str = "w1", **fields: Any
) -> list[tasks_pb2.ReportResult]:
    fields.setdefault("queues", ("default",))
    return list((await coordinator.tasks.Report(tasks_pb2.ReportRequest(owner=owner, items=items, **fields))).results)


async def report(
    coordinator: Coordinator, dispatch: Dispatch, output: object = None, *, key: str = "next", **fields: Any
) -> tasks_pb2.ReportResult:
    """Report a success and ask for a next task."""
    (result,) = await report_all(coordinator, wishing(dispatch, output, key=key), **fields)
    return result


def answer(result: tasks_pb2.ReportResult) -> tuple[str, str | None]:
    """The answer, and the path of the next task if there is one."""
    name = tasks_pb2.ReportAnswer.Name(result.answer).removeprefix("REPORT_ANSWER_")
    return name, result.next.grant.path if result.HasField("next") else None


def granted(result: tasks_pb2.ReportResult) -> Dispatch:
    """The next task, as if a message had named it."""
    assert result.HasField("next"), result
    run_id, path = result.next.task_id.split(":")
    return Dispatch(run_id, path, result.next.attempt)


async def leased(world: World, workflow: str, given: object = None, owner: str = "w1") -> Dispatch:
    """A run whose only first task is held."""
    dispatch = await world.dispatch(await world.first.start(workflow, given))
    await world.first.grant(dispatch, owner)
    return dispatch


async def one_bucket(world: World) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")
    await world.first.engine._refresh()
