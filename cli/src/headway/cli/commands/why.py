"""The command that says why a run stands where it stands."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from headway.cli import clock
from headway.cli.command import Command, Exit, Session
from headway.cli.commands.runs import add_run
from headway.cli.telling import run_state_text
from headway.client import Explanation, Reason, ReasonKind, Run

SHOWN_ALIKE = 3  # of reasons of one kind about one node, in different items; --json has them all
MOST_NODES = 20  # that are told one by one; of more, those of each kind together
MOST_STEPS = 5
OVERDUE = timedelta(seconds=10)  # more than clocks differ
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Command):
    """Say what a run waits for, node by node: a worker, a lease, a time, a signal, other branches, its next try.

    Also what has failed so that the run fails when the rest is over. Of a run that is over: what decided its end. Of a
    node in many items three are told, and the others counted; so it is with many nodes that wait in the same way.
    `--json` has the kind and the facts of each reason, and says with `left_out` how many more there are.
    """

    name: ClassVar = ("why",)
    help: ClassVar = "say what a run waits for, or why it ended as it did"

    run_id: str

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run."""
        add_run(parser)

    async def run(self, session: Session) -> Exit:
        """Ask and print."""
        async with session.client() as client:
            found = await client.explain(self.run_id)
        output = session.output
        if not output.for_people:
            output.document(
                {
                    "run_id": found.run.run_id,
                    "state": found.run.state,
                    "message": found.message,
                    "reasons": found.reasons,
                    "left_out": found.left_out,
                }
            )
            return Exit.SUCCESS
        state = run_state_text(found.run)
        state.append(f"  {found.message}", style="default")
        output.say(state)
        alike = _alike(found.reasons)
        for like, reasons in alike.items():
            for reason in reasons[:SHOWN_ALIKE]:
                output.say(f"  {reason.path}  [{reason.kind}]")
                output.say(f"    {reason.message}")
            if len(reasons) > SHOWN_ALIKE:
                of = f" of {like[0]}" if like[0] else ""
                output.say(f"  … and {len(reasons) - SHOWN_ALIKE} more{of}  [{like[1]}]", style="dim")
        if found.left_out:
            what = "tasks and items that failed" if found.run.state.is_final else "open tasks"
            output.say(f"  … and {found.left_out} more {what}", style="dim")
        for step in _next_steps(found, alike.values()):
            output.say(f"next: {step}", style="dim")
        return Exit.SUCCESS


def _alike(reasons: Sequence[Reason]) -> dict[tuple[str, str], list[Reason]]:
    """Reasons by node and kind, items and iterations of a node together; of very many nodes, by kind alone."""
    alike: dict[tuple[str, str], list[Reason]] = {}
    for reason in reasons:
        alike.setdefault((_INDEX.sub("[…]", reason.path), reason.kind), []).append(reason)
    if len(alike) <= MOST_NODES:
        return alike
    kinds: dict[tuple[str, str], list[Reason]] = {}
    for (_, kind), some in alike.items():
        kinds.setdefault(("", kind), []).extend(some)
    return kinds


def _next_steps(found: Explanation, alike: Iterable[Sequence[Reason]]) -> list[str]:
    """What an operator would look at or do next, each said once; nothing where the run goes on by itself."""
    run = found.run
    urgency = [*NEXT]
    first = sorted((reason for reason, *_ in alike), key=lambda reason: urgency.index(reason.kind))
    steps = [step for reason in first for step in NEXT[reason.kind](run, reason)]
    if run.paused_at is not None:
        steps.append(f"headway resume {run.run_id}")
    return list(dict.fromkeys(steps))[:MOST_STEPS]


def _look_into(run: Run, reason: Reason) -> Iterator[str]:
    """A subflow node's failure names its run."""
    details = None if reason.error is None else reason.error.details
    if isinstance(details, dict) and "workflow" in details and "run_id" in details:
        yield f"headway why {details['run_id']}"
    if run.state.is_final:
        yield f"headway retry {run.run_id} --dry-run"


def _mend(run: Run, reason: Reason) -> Iterator[str]:
    """Its handler is missing where the queue is read; else the earlier attempts say what to mend."""
    if reason.error is not None and reason.error.type == "UnknownHandler":
        yield f"headway worker MODULE --queue {reason.queue} (a MODULE that registers {reason.handler})"
    else:
        yield from _find_service(run, reason) or [
            f"headway show {run.run_id} {reason.path}: mend what its error tells; it is tried again by itself"
        ]


def _find_service(_run: Run, reason: Reason) -> list[str]:
    """What is overdue waits for a service that is down."""
    is_overdue = reason.until is not None and clock.now() - reason.until > OVERDUE
    return ["see to the timers service; its log says what is the matter"] if is_overdue else []


def _nothing(_run: Run, _reason: Reason) -> Iterable[str]:
    """It goes on by itself, or with what other reasons tell."""
    return ()


def _signal(run: Run, reason: Reason) -> Iterator[str]:
    """It can be sent by hand; unless its time is up, and nobody says so."""
    yield from _find_service(run, reason) or [f"headway signal {run.run_id} {reason.signal}"]


NEXT: Mapping[ReasonKind, Callable[[Run, Reason], Iterable[str]]] = {
    ReasonKind.UNPUBLISHED: lambda *_: ["see to the relay and to Redis; the relay's log says which"],
    ReasonKind.NO_WORKER: lambda _, reason: [f"headway worker MODULE --queue {reason.queue}"],
    ReasonKind.FAILED: _look_into,
    ReasonKind.CLOSED: _look_into,
    ReasonKind.RETRY: _mend,
    ReasonKind.LEASE_EXPIRED: _find_service,
    ReasonKind.TIMER: _find_service,
    ReasonKind.CHILD: lambda _, reason: [f"headway why {reason.child_run_id}"] if reason.child_run_id else [],
    ReasonKind.SIGNAL: _signal,
    ReasonKind.PAUSED: lambda run, _: [f"headway resume {run.run_id}"],
    ReasonKind.QUEUED: lambda _, reason: [
        f"headway worker MODULE --queue {reason.queue} (one more), or headway list --state running: what has the slots?"
    ],
    ReasonKind.LEASED: lambda _, reason: [
        f"if it takes too long, look at worker {reason.owner} (host and process id), and end it: another takes over"
    ],
    ReasonKind.STOPPING: _nothing,
    ReasonKind.BRANCHES: _nothing,
    ReasonKind.ITEMS: _nothing,
    ReasonKind.UNSPECIFIED: _nothing,
}
"""What comes next, by kind: the most urgent first."""
