"""Random plays: what workers, timers, users and a bad network may do next, chosen by numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from headway.coordinator.core.admission import Answer
from headway.coordinator.core.machines import SKIP_TRANSITION, RunState, TaskState
from headway.coordinator.core.plan import WORKER_NODES, FailureClass, Json, NodeType
from headway.coordinator.core.refusals import (
    InvalidArgument,
    IterationDropped,
    NodeNotReached,
    NodeNotSkippable,
    NodeUndoes,
    NothingToRetry,
    RunClosed,
)
from headway.coordinator.core.rows import ChildRow
from tests.core.generated import ERRORS, OUTPUTS, PAYLOADS, SIGNALS, Choices
from tests.core.simulator import World
from tests.core.tables import child_of

OWNERS = ("worker", "other")
CHILD_ENDS = ("succeeded", "succeeded", "failed", "cancelled", "refused", "unstarted")


class Player:
    """Plays a world by chance."""

    def __init__(self, world: World, chance: Choices, *, calm: bool = False) -> None:
        self.world = world
        self.chance = chance
        self.calm = calm  # nothing but work, time-outs aside: no user, no loss

    def play(self) -> None:
        """One thing happens."""
        world, chance = self.world, self.chance
        world.chance = chance.whole(0, 99) / 100
        world.share = self._seldom()
        world.advance(milliseconds=chance.of((0, 0, 1, 50, 300)))
        plays: list[tuple[int, Callable[[], object]]] = [(8, self.lease), (8, self.report), (4, self.child)]
        if not self.calm:
            plays += [
                (2, self.lose), (2, self.renew), (2, self.stale_report), (1, self.lease_again), (1, self.early_reaper),
                (2, self.timer), (2, self.signal), (1, self.cancel),
                (1, self.pause), (3, self.resume), (2, self.skip),
            ]  # fmt: skip
        else:
            plays += [(3, self.timer)]
        chance.of([play for weight, play in plays for _ in range(weight)])()

    def _seldom(self) -> bool:
        return self.chance.of((False, False, True))

    def finish(self, limit: int = 4_000) -> None:
        """Drive everything to its end: leases, reports, timers in time, and a signal where only one can help."""
        world = self.world
        world.share = False
        for _ in range(limit):
            if world.run.is_final:
                return
            if world.run.is_paused and (not world.running() or self._seldom()):
                world.resume()
            elif world.running():
                self.report_one(self.chance.of(world.running()))
            elif world.ready() and world.lease(self.chance.of(world.ready())) is Answer.GRANTED:
                pass  # of a run that stops, its item is yet to be told
            elif self.children():
                self.child()
            elif world.db.timers and not (world.waiting() and self._seldom()):
                world.fire(world.next_timer())
            elif world.waiting():
                world.signal(self._awaited(self.chance.of(world.waiting())), {"by": "somebody"})
            else:
                raise AssertionError(f"the run hangs: {world.states()}")
        raise AssertionError(f"the run does not end: {world.states()}")

    def _awaited(self, path: str) -> str:
        """The name of the signal that a node waits for, which an expression may have given."""
        kept = self.world.task(path).input
        return self.world.graph.node(path).event or (
            "none" if kept is None else str(self.world.db.payloads[kept].value)
        )

    # --- workers

    def lease(self) -> None:
        if ready := self.world.ready():
            run = self.world.run
            expected = Answer.RUN_PAUSED if run.is_paused else Answer.GRANTED
            expected = Answer.RUN_CLOSED if run.is_stopping else expected  # its item is yet to be told of the stop
            assert self.world.lease(self.chance.of(ready), owner=self.chance.of(OWNERS)) is expected

    def report(self) -> None:
        if running := self.world.running():
            self.report_one(self.chance.of(running))

    def report_one(self, path: str) -> None:
        """The holder reports; it counts."""
        world = self.world
        owner = world.task(path).owner or ""
        before = world.task(path).attempt
        answer = self._report(path, before, owner)
        assert answer is Answer.ACCEPTED
        if self._seldom():  # the answer is lost: it reports again
            seq = world.run.seq
            assert self._report(path, before, owner) is Answer.DUPLICATE
            assert world.run.seq == seq

    def _report(self, path: str, attempt: int, owner: str) -> Answer:
        world, chance = self.world, self.chance
        match chance.of(("succeed", "succeed", "succeed", "fail", "fail", "final", "stopped", "release")):
            case "succeed":
                return world.succeed(path, chance.of(OUTPUTS), attempt=attempt, owner=owner)
            case "fail" | "final" as how:
                failure_class = chance.of((FailureClass.EXEC_FAILED, FailureClass.VERDICT_FAIL))
                return world.fail(
                    path,
                    chance.of(ERRORS),
                    final=how == "final",
                    failure_class=failure_class,
                    attempt=attempt,
                    owner=owner,
                )
            case "stopped":
                return world.stopped(path, attempt=attempt, owner=owner)
            case _:
                return world.release(path, attempt=attempt, owner=owner)

    def stale_report(self) -> None:
        """A report of an attempt that is over, or from somebody who does not hold it."""
        world = self.world
        if not world.db.tasks:
            return
        path = self.chance.of(sorted(world.db.tasks))
        row, seq = world.task(path), world.run.seq
        attempt = self.chance.whole(1, row.attempt)
        if attempt == row.attempt and row.state is TaskState.RUNNING:
            answer = self._report(path, attempt, "nobody")
            assert answer is Answer.LEASE_LOST
        else:
            answer = self._report(path, attempt, self.chance.of(OWNERS))
            assert answer is not Answer.ACCEPTED
        assert world.run.seq == seq

    def lease_again(self) -> None:
        """A second delivery of what is held, or of an old attempt."""
        world = self.world
        if running := world.running():
            row = world.task(self.chance.of(running))
            expires_at = row.lease_expires_at
            assert world.lease(row.path) is Answer.HELD
            assert world.lease(row.path, grant_key=row.grant_key, owner="somebody else") is Answer.HELD
            assert world.lease(row.path, grant_key=row.grant_key, owner=row.owner or "") is Answer.GRANTED
            assert world.task(row.path).lease_expires_at == expires_at
            if row.attempt > 1:
                assert world.lease(row.path, attempt=row.attempt - 1) is Answer.STALE_ATTEMPT

    def renew(self) -> None:
        if running := self.world.running():
            row = self.world.task(self.chance.of(running))
            answer, cancel = self.world.renew(row.path, owner=row.owner or "")
            assert answer is Answer.RENEWED
            if self._seldom() and row.owner == "worker":
                self.world.beat(row.path, progress=self.chance.of((True, False)))
            assert cancel == (self.world.run.is_stopping or row.cause is not None)
            assert self.world.renew(row.path, owner="nobody") == (Answer.LEASE_LOST, False)

    def lose(self) -> None:
        if running := self.world.running():
            self.world.lose(self.chance.of(running))

    def early_reaper(self) -> None:
        """The reaper is told of a lease that has been renewed meanwhile."""
        for path in self.world.running():
            expires_at = self.world.task(path).lease_expires_at
            if expires_at is not None and expires_at > self.world._event_time():
                seq = self.world.run.seq
                assert not self.world.expire(path)
                assert self.world.run.seq == seq

    # --- runs that subflow nodes started

    def children(self) -> list[ChildRow]:
        """Those that are waited for."""
        return [row for _, row in sorted(self.world.db.children.items()) if row.is_open]

    def child(self) -> None:
        """One of them ends, however it likes, perhaps told of twice; or one is told of that nobody waits for."""
        world, chance = self.world, self.chance
        waited_for = self.children()
        rows = [*waited_for, *world.db.children.values()]
        if not rows:
            return
        row = chance.of(rows)
        ends = ("started", "refused") if row.detached else CHILD_ENDS
        was_taken_up = row.child != child_of(row.path, row.attempt)
        state = chance.of((*ends, "gone") if was_taken_up else ends)
        error: dict[str, Json] | None = {"failure_class": "timeout", "message": "late", "paths": ["a"], "type": "NO"}
        counts = row.is_open
        for _ in range(2):
            seq = world.run.seq
            told = world.child(row.path, state, chance.of(OUTPUTS), error=error, attempt=row.attempt, child=row.child)
            assert told == counts
            assert world.run.seq == seq + counts
            counts = False
        assert not world.child(row.path, "succeeded", None, attempt=row.attempt, child="f" * 32)

    # --- timers and users

    def timer(self) -> None:
        """A timer that is due, in any order; or time passes until one is."""
        world = self.world
        if due := world.due():
            world.fire(self.chance.of(due))
        elif world.db.timers and self.chance.of((True, False)):
            world.fire(world.next_timer())

    def signal(self) -> None:
        with pytest.raises(RunClosed) if self.world.run.is_final else nullcontext():
            self.world.signal(self.chance.of(SIGNALS), self.chance.of(PAYLOADS))

    def cancel(self) -> None:
        with pytest.raises(RunClosed) if self.world.run.is_final else nullcontext():
            self.world.cancel(grace_ms=self.chance.of((0, 500)), compensate=self.chance.of((True, True, False)))

    def pause(self) -> None:
        run = self.world.run
        if not (run.is_final or run.is_stopping or run.is_paused):
            self.world.pause(stop_clock=self._seldom())

    def resume(self) -> None:
        if self.world.run.is_paused:
            self.world.resume()

    def skip(self) -> None:
        """Somebody gives a node of a paused run its output."""
        world = self.world
        if world.run.is_paused and world.db.tasks:
            row = world.task(self.chance.of(sorted(world.db.tasks)))
            may = row.state in SKIP_TRANSITION and world.graph.node(row.path).body is None
            seq = world.run.seq
            output: Json = {"to": "nowhere"} if world.graph.node(row.path).type is NodeType.SWITCH else {"by": "hand"}
            with nullcontext() if may else pytest.raises((NodeNotSkippable, NodeNotReached, InvalidArgument)):
                world.skip(row.path, output)
            assert world.run.seq == seq + may

    def skip_one_that_failed(self) -> bool:
        """Somebody gives a node of a failed run its output, which goes on then. False: there is none to be skipped."""
        world = self.world
        if world.state is not RunState.FAILED:
            return False
        failed = [path for path, row in sorted(world.db.tasks.items()) if row.state is TaskState.FAILED]
        fit = [path for path in failed if world.graph.node(path).type in WORKER_NODES]
        if not fit:
            return False
        path = self.chance.of(fit)
        epoch = world.run.epoch
        try:
            world.skip(path, {"by": "hand"})
        except (NodeNotSkippable, NodeNotReached, NodeUndoes):
            return False
        assert (world.task(path).state, world.task(path).cause) == (TaskState.SUCCEEDED, "skipped")
        assert world.run.epoch == epoch + 1
        return True

    def retry(self) -> bool:
        """Retry the finished run, dry at first. False: refused."""
        world, chance = self.world, self.chance
        chosen: tuple[str, ...] = ()
        if world.db.tasks and chance.of((True, False)):
            chosen = tuple({chance.of(sorted(world.db.tasks)) for _ in range(chance.whole(1, 2))})
        try:
            foreseen = world.dry_run(*chosen)
        except (NothingToRetry, NodeNotReached, NodeUndoes, IterationDropped, InvalidArgument):
            return False
        before = {path: (row.state, row.attempt, row.generation) for path, row in world.db.tasks.items()}
        opened = world.retry(*chosen, render_inputs=self._seldom())
        assert (opened.chosen, opened.reset, opened.kept) == (foreseen.starts, foreseen.reset, foreseen.kept)
        for path in (path for path in foreseen.kept if not world.graph.owner(path)):
            row = world.task(path)
            assert (row.state, row.attempt, row.generation) == before[path], f"{path} was to stay as it is"
        return True
