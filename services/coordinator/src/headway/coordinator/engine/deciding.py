"""One transaction of the decision lane: lock the runs, load, decide, save, commit.

The loop in short:

    lock the batch's runs in order, skipping those locked elsewhere; take the clock
    load what `wants` names; until all are decided, or the budget is spent: decide, load what is needed, decide again
    lease what the reporters themselves may go on with, and what other workers offer slots for
    save everything set-wise; wake the relays; commit; push what was leased to the others
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from uuid import UUID

import orjson
from msgspec.structs import replace

from headway.coordinator import clock
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.decide import Decision, Need, decide, wants
from headway.coordinator.core.events import LeaseExpired, RunEvent, RunStarted
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import IllegalTransition
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.records import encode_actions, encode_event
from headway.coordinator.core.refusals import Refusal, bare
from headway.coordinator.core.state import Draft, State
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.eager import Continued, Dispatched, Eager
from headway.coordinator.engine.lanes import Committed, Ticket
from headway.coordinator.engine.offering import Claim, Offers
from headway.coordinator.engine.plans import Plans, VersionKey
from headway.coordinator.engine.submissions import (
    OUTDATED,
    Fire,
    Moved,
    Report,
    ReportSucceeded,
    Start,
    Submission,
    TimerKey,
)
from headway.coordinator.store.beats import get_checkpoints, put_checkpoints
from headway.coordinator.store.changes import Applied, EventRecord, Saving
from headway.coordinator.store.errors import NotApplied, translated
from headway.coordinator.store.loading import Found, Held, load, lock_steps, read_steps
from headway.coordinator.store.pool import Connection, Seat, Seats
from headway.coordinator.store.saving import StaleReport, save, save_stale_reports, save_straight
from headway.coordinator.store.starting import WorkflowKey, find_deployed
from headway.coordinator.store.timers import delete_timers, due_timers, find_requests, move_timers

WORTH_IT = 0.4  # of luck: below it, trying to go straight costs more than it saves
ROUNDS = 4  # in which a decision may ask for more, before what it did not ask for yet is loaded along
AHEAD = 64  # outputs that are, each time
BATCH_STEPS = 2_000_000  # of all decisions of one transaction, about an eighth of a second: the rest has the next one
TURN_STEPS = 320_000  # of them, before what else the process does has its turn
ACTION_STEPS = 256  # for each action that is recorded: it is encoded, and its rows are written
MEMORY, IN_VAIN = 0.1, 0.5  # share in it of a batch that could or could not have, and of one that tried in vain

Tickets = Sequence[Ticket[Submission]]


class Decisions:
    """Commits batches of submissions for one bucket."""

    def __init__(
        self,
        bucket: int,
        seats: Seats,
        plans: Plans,
        committed: Callable[[Iterable[UUID]], None],
        run_buckets: Callable[[], int],
        offers: Offers,
    ) -> None:
        """Serve a bucket.

        Args:
            bucket: of all runs that come here.
            seats: of connections.
            plans: shared by all lanes.
            committed: told which runs have new events, after each commit.
            run_buckets: how many buckets new runs are spread over.
            offers: of slots, by workers that attend here.
        """
        self._bucket = bucket
        self._run_buckets = run_buckets
        self._offers = offers
        self._seats = seats
        self._free: list[Seat] = []
        self._plans = plans
        self._committed = committed
        self._luck = 1.0  # how often, lately, batches went straight, or could have

    async def commit(self, tickets: Tickets) -> Committed[Submission]:
        """Decide a batch in one transaction; nothing is answered before it has committed."""
        seat = self._free.pop() if self._free else self._seats.seat()
        try:
            with translated():
                async with seat as connection:
                    batch = await self._decide(connection, tickets)
        finally:
            self._free.append(seat)
        batch.after_commit()
        self._committed(batch.changed_runs())
        return batch.result

    async def _decide(self, connection: Connection, tickets: Tickets) -> "_Batch":
        may_go_straight = all(ticket.item.goes_straight and not ticket.waits for ticket in tickets)
        is_tried = may_go_straight and self._luck > WORTH_IT
        if is_tried and (straight := await self._go_straight(connection, tickets)) is not None:
            return straight
        batch = _Batch(self._bucket, self._plans, tickets, self._run_buckets(), self._offers)
        is_written = False
        try:
            async with connection.transaction():
                was_straight = await batch.decide(connection)
            is_written = True
        finally:
            if not is_written:
                batch.give_back()
        could_have = may_go_straight and was_straight and not is_tried
        self._luck += (could_have - self._luck) * (IN_VAIN if is_tried else MEMORY)
        return batch

    async def _go_straight(self, connection: Connection, tickets: Tickets) -> "_Batch | None":
        """Decide without locks and write in one statement, which is the transaction; None: nothing was written."""
        batch = _Batch(self._bucket, self._plans, tickets, self._run_buckets(), self._offers)
        is_written = False
        try:
            # Rows of two instants do not fit together, a row was changed meanwhile; or they are wrong.
            with suppress(IllegalTransition, LookupError, NotApplied):
                is_written = await batch.decide_straight(connection)
        finally:
            if not is_written:
                batch.give_back()
        return batch if is_written else None


class _Batch:
    """The tickets of one transaction, by run, and what becomes of them."""

    def __init__(self, bucket: int, plans: Plans, tickets: Tickets, run_buckets: int, offers: Offers) -> None:
        self._run_buckets = run_buckets
        self._offers = offers
        self._began_at = clock.monotonic()
        self.result: Committed[Submission] = Committed()
        self._bucket = bucket
        self._plans = plans
        self._tickets = tickets
        self._spent = 0  # steps
        self._questions: Counter[UUID] = Counter()  # of what is being decided about each run
        self._turn_ends = TURN_STEPS
        self._waits = any(ticket.waits for ticket in tickets)  # such a batch is of one run: nothing else is held
        self._by_run: dict[UUID, deque[Ticket[Submission]]] = {}
        for ticket in tickets:
            self._by_run.setdefault(ticket.item.run_id, deque()).append(ticket)
        self._savings: dict[UUID, Saving] = {}
        self._due: set[TimerKey] = set()
        self._meaningless: list[TimerKey] = []
        self._moved: list[tuple[TimerKey, datetime]] = []
        self._checkpoints: dict[tuple[UUID, str], tuple[int, int, bytes]] = {}
        self._stale: list[StaleReport] = []
        self._answered: dict[tuple[UUID, UUID], Applied] = {}
        self._is_tracing = telemetry.is_tracing()
        self._spans: list[telemetry.OpenSpan] = []
        self._dispatched: list[Dispatched] = []
        self._eager = Eager()
        self._deployed: dict[WorkflowKey, int] | None = (
            None  # of remembered versions; None: the statement that saves looks
        )

    async def decide(self, connection: Connection) -> bool:
        """All of the transaction but its beginning and end; True: decide_straight would have done."""
        found = await lock_steps(connection, self._bucket, self._paths(), wait=self._waits)
        await self._find_deployed(connection)
        await self._reduce(connection, found)
        await delete_timers(connection, self._bucket, self._meaningless)  # first: a later event may set one anew
        await move_timers(connection, self._bucket, self._moved)
        checkpoints = [(*task, *kept) for task, kept in self._checkpoints.items()]
        await put_checkpoints(connection, self._bucket, checkpoints, found.now)
        was_straight = await save(connection, self._bucket, self._savings.values(), found.now)
        await save_stale_reports(connection, self._bucket, self._stale, found.now)
        return was_straight and not self._stale

    async def decide_straight(self, connection: Connection) -> bool:
        """The same without a transaction: reads, and one statement that writes all of it; False: it wrote nothing.

        Where a lease has run out its reaper is near: there the locks come first.
        """
        found = await read_steps(connection, self._bucket, self._paths())
        tasks = (task for _, named in found.runs.values() for task in named)
        if any(task.lease_expires_at is not None and task.lease_expires_at <= found.now for task in tasks):
            return False
        await self._reduce(connection, found)
        return not self._stale and await save_straight(connection, self._bucket, self._savings.values(), found.now)

    async def _reduce(self, connection: Connection, found: Found) -> None:
        eager = self._eager
        await self._take(connection, found)
        await self._prepare(connection, found.now)
        await self._decide_all(connection, found.now)
        load = partial(self._load, connection)
        await eager.grant(found.now, load)
        await eager.hand_out(self._dispatched, self._offers, self._began_at, found.now, load)
        self._dispatch()
        if later := eager.later_attempts():
            await self._give_checkpoints(connection, later)
        if eager.granted:
            self.result.outcomes = [
                (ticket, eager.granted.get(ticket, answer)) for ticket, answer in self.result.outcomes
            ]

    async def _give_checkpoints(
        self, connection: Connection, later: Sequence[tuple[Ticket[Submission] | Claim, Continued]]
    ) -> None:
        grants = [continued.grant for _, continued in later]
        asked = [(grant.run_id, grant.path, grant.generation) for grant in grants]
        for place, checkpoint in (await get_checkpoints(connection, self._bucket, asked)).items():
            to, continued = later[place]
            grant = replace(continued.grant, checkpoint=checkpoint)
            self._eager.granted[to] = replace(continued, grant=grant)

    def changed_runs(self) -> list[UUID]:
        """Runs that have new events."""
        return [run_id for run_id, saving in self._savings.items() if saving.events]

    def after_commit(self) -> None:
        """Push, count and end spans: only what is durable is told."""
        leases = [continued.span for continued in self._eager.granted.values()]
        self._eager.push(self._offers)
        telemetry.batch_size.record(len(self.result.outcomes), {"lane": "decisions"})
        for span in (*self._spans, *leases):
            span.end()
        for name, count in Counter(event.type for saving in self._savings.values() for event in saving.events).items():
            telemetry.decisions.add(count, {"type": name})
            if name == LeaseExpired.__name__:
                telemetry.leases_lost.add(count)
        for report in self._stale:
            telemetry.reports_stale.add(1, {"answer": report.answer})
        for saving in self._savings.values():
            run = saving.changes.run
            if run is not None and saving.held.was_run is None and saving.has_lease():
                telemetry.time_to_first_start.record(0.0, {"workflow": run.workflow})
            if run is not None and run.finished_at is not None:
                elapsed = (run.finished_at - run.created_at).total_seconds()
                telemetry.total_time.record(elapsed, {"workflow": run.workflow, "state": run.state})

    def give_back(self) -> None:
        """Nothing was written: what was claimed for it is free again."""
        self._eager.give_back(self._offers)

    # --- lock and load

    def _paths(self) -> dict[UUID, Collection[str]]:
        """Which tasks the tickets name, by run."""
        return {
            run_id: {ticket.item.path for ticket in tickets if ticket.item.path}
            for run_id, tickets in self._by_run.items()
        }

    async def _take(self, connection: Connection, found: Found) -> None:
        """Make each run's state of the rows that were found."""
        graphs: dict[VersionKey, Graph] = {}
        for run_id, named in self._paths().items():
            rows = found.runs.get(run_id)
            if rows is None:
                self._without_lock(run_id, is_there=run_id in found.busy)
                continue
            run, tasks = rows
            if run.is_tombstone:
                self._without_run(run_id)
                continue
            version = (run.namespace, run.workflow, run.version)
            graph = graphs.get(version)
            if graph is None:
                graph = graphs[version] = await self._plans.get(connection, version)
            state = State(graph=graph, run_id=run_id.hex, run=run, tasks=dict.fromkeys(named))
            held = Held(run_id, state, run, run_buckets=self._run_buckets)
            for task in tasks:
                held.take(task)
            self._savings[run_id] = Saving(held)

    def _without_lock(self, run_id: UUID, *, is_there: bool) -> None:
        """A run that is locked elsewhere, or not there: only a start can do with none."""
        if is_there:
            self.result.skipped.extend(self._by_run.pop(run_id))
            return
        start = next((ticket.item for ticket in self._by_run[run_id] if isinstance(ticket.item, Start)), None)
        if start is not None:
            state = State(graph=start.graph, run_id=run_id.hex, complete=True)
            self._savings[run_id] = Saving(Held(run_id, state, run_buckets=self._run_buckets))
            return
        self._without_run(run_id)

    def _without_run(self, run_id: UUID) -> None:
        for ticket in self._by_run.pop(run_id):
            self.result.outcomes.append((ticket, ticket.item.missing()))

    async def _prepare(self, connection: Connection, now: datetime) -> None:
        timers: list[TimerKey] = []
        requests: list[tuple[UUID, UUID]] = []
        wanted: dict[UUID, set[Key]] = {}
        for run_id, tickets in self._by_run.items():
            state = self._savings[run_id].held.state
            for ticket in tickets:
                item = ticket.item
                if isinstance(item, Fire):
                    timers.append(item.timer)
                if item.request_id is not None:
                    requests.append((run_id, item.request_id))
                if not state.complete:
                    for key in wants(state.graph, item.event(now, 0.0)):
                        if key[0] != "task" or key[1] not in state.tasks:
                            wanted.setdefault(run_id, set()).add(key)
        self._due = await due_timers(connection, self._bucket, timers, now)
        self._answered.update(await find_requests(connection, self._bucket, requests))
        if wanted:
            await self._load(connection, wanted)

    async def _load(self, connection: Connection, wanted: dict[UUID, set[Key]]) -> None:
        held = {run_id: self._savings[run_id].held for run_id in wanted}
        await load(connection, self._bucket, held, wanted)

    async def _find_deployed(self, connection: Connection) -> None:
        starts = [
            ticket.item for tickets in self._by_run.values() for ticket in tickets if isinstance(ticket.item, Start)
        ]
        workflows = {(start.in_namespace, start.workflow) for start in starts if start.is_remembered}
        self._deployed = await find_deployed(connection, workflows) if workflows else {}

    # --- decide

    async def _decide_all(self, connection: Connection, now: datetime) -> None:
        asked: dict[UUID, frozenset[Key]] = {}
        rounds = 0
        while self._by_run:
            rounds += 1
            needs: dict[UUID, set[Key]] = {}
            for run_id, tickets in list(self._by_run.items()):
                need = None
                while tickets and need is None:
                    if self._spent >= self._turn_ends and not await self._takes_turns():
                        self._leave()
                        return
                    need = self._decide_run(tickets, now)
                if need is None:
                    del self._by_run[run_id]
                elif asked.get(run_id) == need:  # it was loaded and is still missing: the database lost a row
                    raise LookupError(f"run {run_id.hex}: rows that must exist are missing: {sorted(need, key=str)}")
                else:
                    needs[run_id] = set(need)
                    if rounds > ROUNDS:
                        needs[run_id].update(_outputs_ahead(self._savings[run_id].held.state))
                    asked[run_id] = need
            if needs:
                await self._load(connection, needs)

    async def _takes_turns(self) -> bool:
        """Let others have their turn; False: the budget is spent, and something was decided: the first at least."""
        pending = self._by_run.get(self._tickets[0].item.run_id)
        if self._spent >= BATCH_STEPS and (not pending or pending[0] is not self._tickets[0]):
            return False
        self._turn_ends = self._spent + TURN_STEPS
        await asyncio.sleep(0)
        return True

    def _leave(self) -> None:
        """Leave what was not decided for the next transaction, in the order in which it came."""
        pending = {ticket for tickets in self._by_run.values() for ticket in tickets}
        self.result.left = [ticket for ticket in self._tickets if ticket in pending]

    def _decide_run(self, tickets: deque[Ticket[Submission]], now: datetime) -> frozenset[Key] | None:
        """Decide a run's tickets in order, for a turn; return what is needed for the next one, if anything is."""
        run_id = tickets[0].item.run_id
        while tickets and self._spent < self._turn_ends:
            try:
                self.result.outcomes.append((tickets[0], self._decide_one(tickets[0], now)))
            except Missing as missing:
                self._questions[run_id] += 1
                return missing.keys
            except Refusal as refusal:
                self.result.outcomes.append((tickets[0], bare(refusal)))
            tickets.popleft()
            del self._questions[run_id]
        return None

    def _decide_one(self, ticket: Ticket[Submission], now: datetime) -> object:
        """Return the answer. Raises Missing, Refusal."""
        item = ticket.item
        saving = self._savings[item.run_id]
        state = saving.held.state
        if state.run is not None and item.namespace not in (None, state.run.namespace):
            raise item.missing()
        if state.run is None and not isinstance(item, Start):
            raise item.missing()
        if item.request_id is not None and (known := self._answered.get((item.run_id, item.request_id))) is not None:
            return item.answer_again(known)
        at = now if state.run is None else max(now, state.run.last_event_at)
        event = item.event(at, clock.chance())
        judged = item.judge(Draft(state), event, self._due)
        if judged is None and isinstance(item, Start) and self._is_outdated(saving, item):
            return OUTDATED
        if judged is not None:
            self._note(item, judged)
            if judged is Answer.DUPLICATE and isinstance(item, ReportSucceeded) and item.wish is not None:
                self._eager.repeat(ticket, item, item.wish, saving)
            return judged
        verdict = decide(state, event, questions=self._questions[item.run_id])
        self._spent += verdict.steps
        if isinstance(verdict, Need):
            raise Missing(verdict.keys)
        answer = item.answer(verdict, state)
        if item.dry_run:
            return answer
        dispatched = self._record(saving, item, event, verdict)
        if dispatched is not None and isinstance(item, ReportSucceeded) and item.wish is not None:
            self._eager.consider(ticket, item, item.wish, dispatched)
        if item.request_id is not None and not isinstance(item, Start):
            applied = Applied(call=item.call, fingerprint=item.fingerprint(), answer=answer)
            saving.requests.append((item.request_id, applied))
            self._answered[item.run_id, item.request_id] = applied
        return answer

    def _is_outdated(self, saving: Saving, start: Start) -> bool:
        """Another version is known to be deployed than the start remembers; unless it is known, the save finds out."""
        if self._deployed is None or not start.is_remembered:
            saving.needs_deployed |= start.is_remembered
            return False
        return self._deployed.get((start.in_namespace, start.workflow)) != start.version

    def _note(self, item: Submission, judged: object) -> None:
        """What is worth keeping of something that changed nothing."""
        if isinstance(item, Report) and judged is not Answer.DUPLICATE:
            self._stale.append(
                StaleReport(
                    run_id=item.run_id, path=item.path, attempt=item.attempt, owner=item.owner, answer=str(judged)
                )
            )
        elif isinstance(item, Fire) and item.timer in self._due:
            if isinstance(judged, Moved):
                self._moved.append((item.timer, judged.due_at))
            else:
                self._meaningless.append(item.timer)
            self._due.discard(item.timer)

    def _record(self, saving: Saving, item: Submission, event: RunEvent, decision: Decision) -> Dispatched | None:
        """Keep what was decided; return what it dispatched, if anything."""
        state = saving.held.state
        self._spent += ACTION_STEPS * len(decision.actions)
        state.absorb(decision.changes)
        saving.add(decision.changes)
        run = state.run
        if run is None:
            raise LookupError("a decision without a run")
        if isinstance(item, Report) and item.checkpoint and (task := state.tasks.get(item.path)) is not None:
            self._checkpoints[item.run_id, item.path] = (task.generation, item.attempt, item.checkpoint)
        if isinstance(item, Fire):
            self._due.discard(item.timer)  # told twice in one batch, it fires once
        parent = event.trace if isinstance(event, RunStarted) else item.trace or run.trace
        name = type(event).__name__
        trace = self._begin_span(name, parent, run.seq, state.run_id)
        saving.events.append(
            EventRecord(
                seq=run.seq,
                type=name,
                at=event.at,
                path=item.path,
                attempt=getattr(event, "attempt", 0),
                event=encode_event(event),
                actions=encode_actions(decision.actions),
            )
        )
        for to, kind, body in decision.changes.handovers:
            envelope = orjson.dumps({"type": kind, "event": orjson.Fragment(body.raw)})
            saving.handovers.append((clock.new_uuid(), UUID(to), envelope, trace))
        if not decision.changes.dispatches:
            return None
        before = saving.held.was.get(item.path)
        in_a_row = 1 + (before.eager_grants if before is not None else 0)
        dispatched = Dispatched(saving, decision.changes.dispatches, trace, in_a_row)
        self._dispatched.append(dispatched)
        return dispatched

    def _begin_span(self, name: str, parent: str, seq: int, run_id: str) -> str:
        if not self._is_tracing:
            return parent
        span = telemetry.begin(f"decision {name}", parent, **{"headway.run_id": run_id, "headway.seq": seq})
        self._spans.append(span)
        return span.traceparent

    def _dispatch(self) -> None:
        """Write outbox rows for the attempts that still want a worker at the end of the batch."""
        for dispatched in self._dispatched:
            for path, attempt, _ in dispatched.wanting():
                dispatched.saving.dispatches.append((clock.new_uuid(), path, attempt, dispatched.trace))


def _outputs_ahead(state: State) -> list[Key]:
    """Outputs that a decision may come to: one that goes from node to node would ask for each of them alone."""
    keys = (
        (path, row.output_attempt, "output")
        for path, row in state.tasks.items()
        if row is not None and row.output_attempt is not None
    )
    return [("payload", *key) for key in islice((key for key in keys if key not in state.payloads), AHEAD)]
