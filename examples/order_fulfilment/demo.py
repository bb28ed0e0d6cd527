"""`make demo`: all orders through a real stack, while a worker and the coordinator are killed with SIGKILL.

Starts Headway (each service its own process, over an embedded PostgreSQL and Redis), the shop and a worker in
TypeScript, deploys the workflow, starts every order, kills, waits, prints one table, and checks the shop's ledger.
Exit code 0 only if every check holds.
"""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from rich.console import Console
from rich.status import Status

from examples.order_fulfilment import checks, steps
from examples.order_fulfilment.havoc import Havoc
from examples.order_fulfilment.processes import (
    ROOT,
    TYPESCRIPT,
    TypeScript,
    open_shop,
    prepare_typescript,
    typescript_worker,
)
from examples.order_fulfilment.reporting import Row, show_table, show_verdicts
from headway.cli.stack import Shape, Stack
from headway.client import Client, RunDetails, TaskState

HERE = Path(__file__).parent
DATA = ROOT / ".headway" / "demo"
WORKFLOW = "order_fulfilment"
HANDLERS = "examples.order_fulfilment.handlers"
INVOICES = "examples.order_fulfilment.invoices"  # the step of the worker in TypeScript, for machines without Node

PACE = 0.25  # seconds between two orders
FIRST_KILL = 8  # with this order, the worker
SECOND_KILL = 16  # with this one, the coordinator
LONGEST = 100.0  # seconds that the orders may take in all
SETTINGS = {
    "HEADWAY_LOG_FORMAT": "text",
    "HEADWAY_WORKER_CLAIM_IDLE": "5s",  # messages that a killed worker had read are taken over soon
}


@dataclass(slots=True)
class Show:
    """A demo under way.

    Attributes:
        orders: As in orders.json.
        runs: Run id by order.
        repeated: Runs that a second start with the same key gave, by order.
        ended: Orders whose run is over.
    """

    console: Console
    status: Status
    orders: Sequence[Mapping[str, Any]]
    runs: dict[str, str] = field(default_factory=dict[str, str])
    repeated: dict[str, str] = field(default_factory=dict[str, str])
    ended: set[str] = field(default_factory=set[str])
    began_at: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(
            f"[dim]{time.monotonic() - self.began_at:5.1f} s[/]  {text}", highlight=False, soft_wrap=True
        )

    def tell_progress(self) -> None:
        """Renew the line that moves."""
        self.status.update(f"{len(self.runs)} of {len(self.orders)} orders started, {len(self.ended)} ended")


async def main() -> int:
    """Run the demo; returns the exit code."""
    console = Console()
    orders = json.loads((HERE / "orders.json").read_text(encoding="utf-8"))["orders"]
    if not console.is_terminal:  # the moving line says it there
        console.print("starting the stack …")
    with console.status("starting the stack …") as status:
        show = Show(console=console, status=status, orders=orders)
        try:
            good = await _demo(show)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, people need to know where to look
            text = "; ".join(str(each) for each in _leaves(error))
            console.print(f"[red]✗[/] the demo failed: {type(error).__name__}: {text}", highlight=False, soft_wrap=True)
            good = False
    console.print(f"logs and the shop's ledger: {DATA}", highlight=False, soft_wrap=True)
    return 0 if good else 1


async def _demo(show: Show) -> bool:
    logs = DATA / "logs"  # the stack makes it anew
    DATA.mkdir(parents=True, exist_ok=True)
    ledger, diary = DATA / "ledger.jsonl", DATA / "steps.jsonl"
    for old in (ledger, diary):
        old.unlink(missing_ok=True)
    async with AsyncExitStack() as cleanup:
        if shutil.which("npm") and not (TYPESCRIPT / "dist" / "worker.js").exists():
            show.say("building the TypeScript worker (npm) …")
        typescript = await prepare_typescript(DATA / "npm.log")
        stack = await cleanup.enter_async_context(_stack(typescript, diary))
        shop = await cleanup.enter_async_context(open_shop(ledger, logs / "shop.log", os.environ))
        if typescript.node:
            worker = typescript_worker(typescript.node, logs / "worker-ts.log", stack.environment)
            await cleanup.enter_async_context(worker)
            show.say("the stack is up; a worker in TypeScript numbers the invoices")
        else:
            show.say(f"the stack is up; a Python worker numbers the invoices: {typescript.why_not}")
        client = await cleanup.enter_async_context(Client(stack.address))
        deployed = await client.deploy((HERE / "order_fulfilment.yaml").read_text(encoding="utf-8"))
        show.say(f"deployed {deployed.workflow}, version {deployed.version}")
        havoc = Havoc(stack, client, diary, show.say)
        async with asyncio.timeout(LONGEST):
            await _let_it_run(show, client, havoc, shop)
            details = {order: await client.get(run) for order, run in show.runs.items()}
        entries = await asyncio.to_thread(_read_ledger, shop)
    show.status.stop()
    show_table(show.console, [_row(order, found) for order, found in details.items()])
    evidence = _evidence(show, details, ledger=entries, diary=steps.read(diary), kills=havoc.kills)
    return show_verdicts(show.console, checks.judge(evidence))


def _evidence(
    show: Show,
    details: Mapping[str, RunDetails],
    *,
    ledger: Sequence[Mapping[str, Any]],
    diary: Sequence[steps.Step],
    kills: Sequence[checks.Kill],
) -> checks.Evidence:
    return checks.Evidence(
        orders=show.orders,
        ends={order: checks.End(state=found.run.state, outcome=_outcome(found)) for order, found in details.items()},
        repeated_starts=[(show.runs[order], run) for order, run in show.repeated.items()],
        ledger=ledger,
        steps=diary,
        attempts=[attempt for found in details.values() for attempt in _attempts(found)],
        kills=kills,
    )


def _stack(typescript: TypeScript, diary: Path) -> Stack:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    shape = Shape(
        port=0,
        workers=2,
        modules=(HANDLERS,) if typescript.node else (HANDLERS, INVOICES),
        environment={**SETTINGS, steps.DIARY: str(diary), "PYTHONPATH": path},
    )
    return Stack(DATA, shape, fresh=True)


async def _let_it_run(show: Show, client: Client, havoc: Havoc, shop: str) -> None:
    """Start all orders at their pace, kill in between, and wait until all have ended."""
    async with asyncio.TaskGroup() as group:
        for order in show.orders:
            name = order["order_id"]
            order_input = {key: order[key] for key in ("order_id", "customer", "items", "amount_cents", "card")}
            order_input["shop"] = shop
            show.runs[name] = (await client.start(WORKFLOW, order_input, key=name)).run_id
            group.create_task(_wait_for(show, client, name))
            if order["flags"].get("approval") == "granted":
                group.create_task(_approve(show, client, name))
            if len(show.runs) % 5 == 0:  # somebody pressed the button twice
                show.repeated[name] = (await client.start(WORKFLOW, order_input, key=name)).run_id
            if len(show.runs) == FIRST_KILL:
                group.create_task(havoc.kill_worker())
            if len(show.runs) == SECOND_KILL:
                group.create_task(havoc.kill_coordinator())
            show.tell_progress()
            await asyncio.sleep(PACE)


async def _wait_for(show: Show, client: Client, order: str) -> None:
    await client.wait(show.runs[order])
    show.ended.add(order)
    show.tell_progress()


async def _approve(show: Show, client: Client, order: str) -> None:
    """Approve an order once it asks for it."""
    run = show.runs[order]
    async for _ in client.watch(run):
        tasks = (await client.get(run)).tasks
        if any(task.path == "approval" and task.state is TaskState.WAITING for task in tasks):
            break
    await client.signal(run, "approval", {"approved": True, "by": "Dana from accounting"})
    show.say(f"approved {order}")


def _read_ledger(shop: str) -> list[dict[str, Any]]:
    with urlopen(f"{shop}/ledger") as response:  # noqa: S310 - our own shop's address
        entries: list[dict[str, Any]] = json.load(response)["entries"]
        return entries


def _outcome(details: RunDetails) -> str:
    output = details.run.output
    return str(output["outcome"]) if isinstance(output, dict) and "outcome" in output else str(details.run.state)


def _row(order: str, details: RunDetails) -> Row:
    leased = [task for task in details.tasks if task.started_at is not None]
    return Row(
        order=order,
        outcome=_outcome(details),
        attempts=sum(task.attempt for task in leased),
        retried=sum(1 for task in leased for attempt in task.attempts if attempt.outcome in {"failed", "timeout"}),
        lost=sum(task.losses for task in leased),
        seconds=_seconds(details.run.finished_at) - _seconds(details.run.created_at),
    )


def _attempts(details: RunDetails) -> list[checks.Attempt]:
    return [
        checks.Attempt(
            task=f"{task.path} of run {details.run.run_id}",
            number=attempt.attempt,
            leased=_seconds(attempt.leased_at),
            ended=_seconds(attempt.ended_at),
        )
        for task in details.tasks
        for attempt in task.attempts
        if attempt.leased_at is not None
    ]


def _seconds(instant: datetime | None) -> float:
    return instant.timestamp() if instant is not None else 0.0


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        sys.exit(130)
