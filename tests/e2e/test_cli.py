"""Every command against a real stack: what people read, the one document that programs read, the exit codes."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from headway.cli.stack import Shape, Stack
from headway.client import Client, DefinitionFaulty

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ORDER = """\
workflow: order
input_schema:
  {type: object, required: [customer, amount], properties: {customer: {type: string}, amount: {type: number}}}
nodes:
  greet:   {type: python, input: "${input.customer}", code: "def run(input): return 'hello ' + input"}
  approve: {type: wait_for_event, event: approval}
  charge:  {type: call, handler: cashier.charge, queue: cashier,
            input: {card: "${nodes.approve.output.card}", amount: "${input.amount}"}}
  done:    {type: finish, output: {greeting: "${nodes.greet.output}", charged: "${nodes.charge.output.charged}"}}
edges:
  - [greet, approve, charge, done]
"""
PAYMENT = """\
workflow: payment
nodes:
  charge: {type: call, handler: cashier.charge, queue: cashier, input: "${input}"}
  done:   {type: finish, output: "${nodes.charge.output.charged}"}
edges:
  - [charge, done]
"""
PAYMENTS = """\
workflow: payments
nodes:
  each:
    type: map
    over: "${input}"
    max_concurrency: 50
    tolerate: {percent: 1}
    body: {type: call, handler: cashier.charge, queue: cashier, input: "${item}"}
  done: {type: finish, output: "${nodes.each.counts}"}
edges:
  - [each, done]
"""
ARRIVALS = """\
workflow: arrivals
nodes:
  each:
    type: map
    over: "${input}"
    body:
      nodes:
        charge: {type: call, handler: cashier.charge, queue: cashier, input: {card: good, amount: "${item}"}}
        poll:
          type: repeat
          until: last.arrived
          max_iterations: 5
          delay: 10ms
          body:
            {type: call, handler: cashier.ask, queue: cashier,
             input: {asked: "${index}", after: "${nodes.charge.output.charged}"}}
      edges:
        - [charge, poll]
  done: {type: finish, output: "${nodes.each.output}"}
edges:
  - [each, done]
"""
FAULTY = """\
workflow: faulty
nodes:
  one: {type: calls, handler: a.b}
  two: {type: call}
  three: {type: wait, duration: 5 parsecs}
  four: {type: set, values: {x: "${input.}"}}
edges:
  - [two, nine]
"""
FAULTY_PLACES = ["3:15", "4:3", "5:33", "6:42", "8:11"]
NOBODY = "0" * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Headway:
    """Runs `headway …` as a process of its own."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    async def __call__(self, *arguments: str, stdin: str = "") -> Result:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headway.cli", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=self.stack.environment,
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin.encode())
        return Result(code=process.returncode or 0, out=out.decode(), err=err.decode())

    async def text(self, *arguments: str, code: int = 0, stdin: str = "") -> list[str]:
        """The lines on standard output."""
        result = await self(*arguments, stdin=stdin)
        assert result.code == code, result
        return result.out.splitlines()

    async def document(self, *arguments: str, code: int = 0) -> Any:
        """The one document on standard output."""
        result = await self(*arguments, "--json")
        assert result.code == code, result
        return json.loads(result.out)

    async def refusal(self, *arguments: str, reason: str) -> str:
        """The one sentence of a refusal: on standard error for people, in the document for programs."""
        result = await self(*arguments, "--json")
        assert result.code == 2, result
        error = json.loads(result.out)["error"]
        assert error["reason"] == reason
        assert result.err.startswith(f"headway: {error['message']}")
        return str(error["message"])

    async def until(self, run_id: str, event: str, path: str) -> None:
        """Wait until a run's history has an event."""
        async with asyncio.timeout(30), Client(self.stack.address) as client:
            async for progress in client.watch(run_id):
                if (progress.event.type, progress.event.path) == (event, path):
                    return
        raise AssertionError(f"run {run_id} ended without {event} of {path}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def headway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Headway]:
    """A stack with both workflows deployed."""
    folder = tmp_path_factory.mktemp("cli")
    shape = Shape(port=0, modules=("tests.e2e.cashier",), environment={"PYTHONPATH": str(Path(__file__).parents[2])})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HEADWAY_DATABASE_URL", "HEADWAY_REDIS_URL", "HEADWAY_COORDINATOR", "HEADWAY_NAMESPACE"):
            patch.delenv(name, raising=False)
        async with Stack(folder / "data", shape) as stack:
            async with Client(stack.address) as client:
                await client.deploy(ORDER)
                await client.deploy(PAYMENT)
            yield Headway(stack)


async def _waiting(headway: Headway, *options: str) -> str:
    """A new run that waits for its approval."""
    given = json.dumps({"customer": "ann", "amount": 12})
    started = await headway.document("start", "order", "--input", given, *options)
    run_id: str = started["run_id"]
    await headway.until(run_id, "NodeCompleted", "greet")
    return run_id


async def test_a_run_that_waits_says_for_what_and_ends_well_when_it_comes(headway: Headway) -> None:
    run_id = await _waiting(headway)

    shown, document = await asyncio.gather(headway.text("show", run_id), headway.document("show", run_id))
    signalled = await headway.document("signal", run_id, "approval", "--payload", '{"card": "good"}')
    watched = await headway.text("watch", run_id)

    assert "  approve: signal 'approval'" in shown
    assert document["waits_for"] == ["approve: signal 'approval'"]
    assert {task["path"]: task["waits_for"] for task in document["tasks"]} == {"greet": "", "approve": "approval"}
    assert document["run"]["state"] == "running"
    assert (signalled["run_id"], signalled["name"]) == (run_id, "approval")
    assert watched[-1].startswith("succeeded after ")

    watched, lines, history, table = await asyncio.gather(
        headway.document("watch", run_id),
        headway.text("watch", run_id, "--json-lines"),
        headway.document("history", run_id),
        headway.text("history", run_id),
    )

    assert watched["output"] == {"greeting": "hello ann", "charged": 12}
    assert watched["events"] == history["events"] == [json.loads(line)["event"] for line in lines]
    assert [event["seq"] for event in history["events"]] == list(range(1, len(table)))
    assert history["events"][signalled["seq"] - 1]["type"] == "SignalReceived"
    assert (await headway.document("show", run_id))["waits_for"] == []

    refused = await headway.refusal("signal", run_id, "approval", reason="RUN_CLOSED")
    assert "is succeeded" in refused
    await headway.refusal("cancel", run_id, reason="RUN_CLOSED")
    await headway.refusal("retry", run_id, reason="NOTHING_TO_RETRY")


async def test_a_failed_run_is_retried_from_where_it_went_wrong_and_cancelled(headway: Headway) -> None:
    run_id = await _waiting(headway, "--key", "order-7")
    refused = await headway.refusal("retry", run_id, reason="RUN_NOT_FINISHED")
    assert "is running" in refused
    payload = '{"card": "bad"}'
    told = await headway.text("signal", run_id, "approval", "--payload", "@-", stdin=payload)
    assert told[0].startswith(f"run {run_id} has received approval (event ")

    watched = await headway.text("watch", run_id, code=1)
    shown, document = await asyncio.gather(headway.text("show", run_id), headway.document("watch", run_id, code=1))

    assert watched[-1].endswith("CardDeclined: no funds")
    assert shown[shown.index("charge failed: exec_failed CardDeclined") + 1] == "  no funds"
    assert document["error"]["paths"] == ["charge"]

    assert await headway.text("retry", run_id, "--dry-run") == [
        f"run {run_id} would be reopened as epoch 2",
        "  starts again  charge",
        "  reset         -",
        "  kept          greet, approve",
    ]
    plan = await headway.document("retry", run_id, "--from", "approve", "--dry-run")
    assert (plan["chosen"], plan["reset"], plan["kept"], plan["dry_run"]) == (["approve"], ["charge"], ["greet"], True)
    assert (await headway.document("show", run_id))["run"]["epoch"] == 1
    await headway.refusal("retry", run_id, "--from", "nobody", reason="NODE_NOT_FOUND")
    await headway.refusal("retry", run_id, "--from", "done", reason="NODE_NOT_REACHED")

    assert (await headway.text("retry", run_id, "--from", "approve"))[0] == f"run {run_id} is reopened as epoch 2"
    assert (await headway.document("show", run_id))["waits_for"] == [
        "approve: signal 'approval'",
        "charge: branches that lead to it",
    ]
    assert await headway.text("cancel", run_id, "--reason", "wrong customer") == [f"run {run_id} is cancelled"]
    watched = await headway.text("watch", run_id, code=1)
    assert watched[-1].startswith("cancelled after ")

    assert (await headway.document("retry", run_id))["epoch"] == 3
    assert (await headway.document("cancel", run_id)) == {"run_id": run_id, "state": "cancelled"}


async def test_start_wait_ends_as_the_run_does(headway: Headway, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('{"card": "good", "amount": 3}')
    bad = '{"card": "bad", "amount": 4}'

    good = await headway.text("start", "payment", "--wait", "--input", f"@{tmp_path / 'good.json'}")
    failed = await headway.document("start", "payment", "--wait", "--input", bad, code=1)

    assert re.fullmatch(r"run \w+ started \(payment version 1\)", good[0])
    assert good[-1] == "output    3"
    assert (failed["state"], failed["error"]["message"]) == ("failed", "charge: CardDeclined: no funds")


async def test_list_finds_runs_by_workflow_and_state(headway: Headway) -> None:
    run_id = (await headway.text("start", "order", "--input", '{"customer": "bo", "amount": 1}'))[0].split()[1]

    _, *rows = await headway.text("list", "--limit", "1")
    document = await headway.document("list", "--workflow", "order", "--state", "running")

    assert [row.split()[0] for row in rows] == [run_id]
    assert run_id in [run["run_id"] for run in document["runs"]]
    assert {(run["workflow"], run["state"]) for run in document["runs"]} == {("order", "running")}
    assert await headway.document("list", "--workflow", "none") == {"runs": [], "more": False}


async def test_a_key_names_one_run_and_refuses_another_request(headway: Headway) -> None:
    start = ("start", "order", "--key", "k", "--input")
    first = await headway.document(*start, '{"customer": "cy", "amount": 1}')

    again = await headway.document(*start, '{"amount": 1, "customer": "cy"}')
    refused = await headway.refusal(*start, '{"customer": "cy", "amount": 2}', reason="KEY_REUSED")

    assert (first["existed"], again["existed"]) == (False, True)
    assert again["run_id"] == first["run_id"]
    assert "The key 'k' was used for another start" in refused


async def test_a_run_that_is_not_there_is_named(headway: Headway) -> None:
    told = f"There is no run {NOBODY} in namespace default."

    commands = (["show"], ["history"], ["watch"], ["signal", "approval"], ["cancel"], ["retry"])

    people = await headway("show", NOBODY)
    programs = await asyncio.gather(
        *(headway.refusal(command, NOBODY, *rest, reason="RUN_NOT_FOUND") for command, *rest in commands)
    )

    remedy = "`headway list` shows the runs of a --namespace."
    assert (people.code, people.out, people.err) == (2, "", f"headway: {told} {remedy}\n")
    assert set(programs) == {told}


async def test_what_is_wrong_with_an_input_is_said_with_its_place(headway: Headway) -> None:
    start = ("start", "order", "--input")

    broken = await headway.refusal(*start, '{"customer": }', reason="USAGE")
    wrong = await headway.refusal(*start, '{"customer": "di", "amount": "3"}', reason="INVALID_INPUT")
    unknown = await headway.refusal("start", "nothing", reason="WORKFLOW_NOT_FOUND")

    assert "--input" in broken
    assert "line 1 column 14" in broken
    assert "$.amount" in wrong
    assert "Workflow nothing has no deployed version in namespace default: deploy it first." in unknown


@pytest.mark.parametrize("command", ["check", "deploy"])
async def test_every_fault_of_a_file_is_printed_with_its_place(command: str, headway: Headway, tmp_path: Path) -> None:
    file = tmp_path / "faulty.yaml"
    file.write_text(FAULTY)

    people = await headway.text(command, str(file), code=1)
    programs = await headway.document(command, str(file), code=1)

    (checked,) = programs["files"]
    faults = checked["faults"]
    assert [f"{fault['line']}:{fault['column']}" for fault in faults] == FAULTY_PLACES
    for line, fault in zip(people, faults, strict=False):
        assert line.startswith(f"{file}:{fault['line']}:{fault['column']}: error: {fault['message']}")
        assert line.endswith(fault["remedy"])


async def test_a_file_is_deployed_once(headway: Headway, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(PAYMENT.replace("payment", "once"))
    second.write_text(PAYMENT)

    told = await headway.text("deploy", str(first), str(second))
    document = await headway.document("deploy", str(first))
    checked = await headway.text("check", str(first))

    assert told == [f"once version 1 deployed ({first})", f"payment version 1 was deployed already ({second})"]
    (again,) = document["deployed"]
    effect = again.pop("effect")
    assert again == {"file": str(first), "workflow": "once", "version": 1, "changed": False}
    assert (effect["previous_version"], effect["open_runs"]["by_version"]) == (1, {})
    assert checked == ["1 file, 0 errors, 0 warnings"]


async def test_a_refused_deploy_names_more_faults_than_a_refusal_carries(headway: Headway) -> None:
    source = PAYMENT + "".join(f"  - [charge, nowhere_{number}]\n" for number in range(200))

    async with Client(headway.stack.address) as client:
        checked = await client.check(source)
        with pytest.raises(DefinitionFaulty) as raised:
            await client.deploy(source)

    assert sum("nowhere_" in fault.message for fault in raised.value.faults) == 200
    assert raised.value.faults == checked.faults


async def test_a_python_step_leaves_no_noise_in_the_workers_log(headway: Headway) -> None:
    await _waiting(headway)

    log = headway.stack.log_file("worker-1").read_text()

    assert "fork" not in log


async def test_a_thousand_items_go_through_a_map_and_are_shown_by_pages(headway: Headway, tmp_path: Path) -> None:
    source, given = tmp_path / "payments.yaml", tmp_path / "input.json"
    source.write_text(PAYMENTS)
    given.write_text(json.dumps([{"card": "bad" if n == 617 else "good", "amount": n} for n in range(1_000)]))
    await headway.document("deploy", str(source))

    started = await headway.document("start", "payments", "--input", f"@{given}", "--wait")
    run_id = started["run_id"]

    assert started["output"] == {"total": 1_000, "succeeded": 999, "failed": 1, "cancelled": 0, "left_out": 0}
    document, shown = await asyncio.gather(headway.document("show", run_id), headway.text("show", run_id))
    assert [task["path"] for task in document["tasks"]] == ["each", "done"]
    counts = {"total": 1_000, "running": 0, "succeeded": 999, "failed": 1, "cancelled": 0, "undone": 0, "left_out": 0}
    assert document["tasks"][0]["items"] == counts
    assert any("999 of 1000 done, 1 failed" in line for line in shown), shown
    items, failed, tasks = await asyncio.gather(
        headway.document("show", run_id, "each", "--limit", "1000"),
        headway.text("show", run_id, "each", "--state", "failed"),
        headway.document("show", run_id, "each[617]"),
    )
    assert [item["output"] for item in items["items"][:2]] == [{"charged": 0}, {"charged": 1}]
    assert len(items["items"]) == 1_000
    assert len(failed) == 2
    assert "CardDeclined" in tasks["tasks"][0]["error"]["type"]
    await headway.refusal("show", run_id, "done[0]", reason="NODE_NOT_FOUND")


async def test_repeats_in_a_map_end_each_in_its_own_time(headway: Headway, tmp_path: Path) -> None:
    source = tmp_path / "arrivals.yaml"
    source.write_text(ARRIVALS)
    await headway.document("deploy", str(source))

    started = await headway.document("start", "arrivals", "--input", "[0, 2, 1]", "--wait")

    assert started["output"] == [{"arrived": True}] * 3
    shown = await headway.document("show", started["run_id"], "each[1].poll")
    assert [item["output"]["arrived"] for item in shown["items"]] == [False, False, True]
