"""What a run waits for, node by node, and what decided its end: said by its rows, without changing anything."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.payloads import shortened
from headway.coordinator.core.plan import FINALLY, Edge, FailureClass, Json, Node, NodeType
from headway.coordinator.core.rows import BEATEN, BROKEN_OFF, STOPPED, ChildRow, LoopRow, RunRow, TaskRow, TokenRow

_NAMED_EDGES = 5  # that a sentence names
_NAMED_SIGNALS = 5
_LONGEST_NAME = 80  # characters of a signal's name in a sentence
_LONGEST_WORDS = 400  # characters of a message in a sentence
_LATE = timedelta(seconds=5)
"""After which what the relay or the timers service should have done says that it is not at work, or cannot be."""
_RENEWED_EACH = 3  # part of a lease
_SILENT_AFTER = 2  # part of a lease without a renewal: longer than the slack of a renewal explains


class ReasonKind(StrEnum):
    """In what way a node waits, or what it did to its run's end."""

    QUEUED = "queued"
    NO_WORKER = "no_worker"
    UNPUBLISHED = "unpublished"
    LEASED = "leased"
    LEASE_EXPIRED = "lease_expired"
    TIMER = "timer"
    SIGNAL = "signal"
    BRANCHES = "branches"
    RETRY = "retry"
    STOPPING = "stopping"
    FAILED = "failed"
    PAUSED = "paused"
    CLOSED = "closed"
    ITEMS = "items"
    CHILD = "child"


class Readers(Struct, frozen=True):
    """Who reads a queue: workers seen lately, and when one was last seen; None: not for an hour."""

    workers: int = 0
    seen_at: datetime | None = None


class Reason(Struct, frozen=True, kw_only=True):
    """Why one node stands where it stands."""

    path: str
    kind: ReasonKind
    message: str
    since: datetime | None = None
    until: datetime | None = None
    queue: str = ""
    handler: str = ""
    owner: str = ""
    attempt: int = 0
    signal: str = ""
    branches: tuple[Edge, ...] = ()
    child: str = ""
    readers: Readers = Readers()
    failure_class: FailureClass | None = None
    error: Mapping[str, Json] | None = None


class Scene(Struct, frozen=True, kw_only=True):
    """What is known of a run.

    Attributes:
        tasks: those that are open, or the first of them; of a run that is over, those that its error names.
        open_tasks: how many are open, those in items and iterations included.
        failed: of a run that is not over, the first tasks that failed so that it fails, too.
        tokens: of nodes that wait for several edges, as far as `joins_behind` names them.
        readers: by queue, for the tasks that are READY.
        left: of those that hold leases and whose connection ended, when it did, by owner.
        children: of subflow nodes that wait, the latest run that each started.
        undelivered: by child, since when something for it has waited to be delivered.
        unpublished: by path, since when a dispatch has lain in the outbox.
        outbox_since: when more lies in the outbox than was looked at: since when its oldest row does.
        loops: of maps and repeats that are open, how far they are.
        timers: due times of the run's own timers, by kind.
        signals: of nodes that wait for a signal whose name an expression yielded, that name, by path.
        untold: of a run that is over: how many more tasks and items failed.
        buffered: when a node waits for a signal: how many nobody has taken, of the first thousand, by name.
    """

    graph: Graph
    now: datetime
    run: RunRow
    tasks: tuple[TaskRow, ...] = ()
    open_tasks: int = 0
    failed: tuple[TaskRow, ...] = ()
    tokens: Mapping[str, TokenRow] = {}
    readers: Mapping[str, Readers] = {}
    left: Mapping[str, datetime] = {}
    timers: Mapping[str, datetime] = {}
    signals: Mapping[str, str] = {}
    buffered: Mapping[str, int] = {}
    children: Mapping[str, ChildRow] = {}
    undelivered: Mapping[str, datetime] = {}
    unpublished: Mapping[str, datetime] = {}
    outbox_since: datetime | None = None
    loops: Mapping[str, LoopRow] = {}
    untold: int = 0

    @property
    def left_out(self) -> int:
        """How many more tasks are open than are here; of a run that is over, how many more tasks and items failed."""
        return self.untold if self.run.is_final else self.open_tasks - len(self.tasks)


def joins_behind(graph: Graph, paths: Iterable[str]) -> frozenset[str]:
    """Nodes with several incoming edges that can be reached from some nodes, or are among them."""
    seen, frontier = set(paths), list(paths)
    while frontier:
        spot = graph.spot(frontier.pop())
        fresh = {spot.beside(edge.target) for edge in spot.outgoing} - seen
        seen |= fresh
        frontier += fresh
    return frozenset(path for path in seen if graph.spot(path).gathers)


def explain(scene: Scene) -> list[Reason]:
    """A reason for each live node, by path, and for each that failed so that the run fails when the rest is over.

    Of a run that is over, one for each task that decided its end.
    """
    if scene.run.is_final:
        ends = [_ENDED[row.state](scene, row) for row in scene.tasks if row.state in _ENDED]
        return [_with_owner(scene.graph, reason) for reason in ends]
    reasons = [
        _held(scene, row) if _is_held(scene, row) else _EXPLAIN[row.state](scene, row)
        for row in scene.tasks
        if row.state in _EXPLAIN
    ]
    if _decides_by_failures(scene.run):
        reasons += [_failed(scene, row) for row in scene.failed]
    known = {row.path for row in scene.tasks}
    for path, tokens in scene.tokens.items():
        if path not in known and _is_undecided(scene.graph, tokens):
            reasons.append(_branches(scene, path, tokens, None))
    return sorted((_with_owner(scene.graph, each) for each in reasons), key=lambda reason: reason.path)


def _with_owner(graph: Graph, reason: Reason) -> Reason:
    """The reason of a node that undoes another says which."""
    owner = graph.owner(reason.path)
    return replace(reason, message=f"It undoes {owner}. {reason.message}") if owner else reason


def summary(scene: Scene) -> str:
    """One sentence about the whole run."""
    run = scene.run
    if run.is_final:
        error = "" if run.error is None else f": {_in_line(run.error['message'])}"
        return f"The run {'was' if run.state is RunState.CANCELLED else 'has'} {run.state}{error}."
    if not scene.open_tasks and not run.is_paused:
        return "The run's next decision is due: no task of it is open."
    holders = sum(row.state is TaskState.RUNNING for row in scene.tasks)
    waits = f"{scene.open_tasks} open task{'s' * (scene.open_tasks != 1)}"
    if run.is_stopping:
        grace = scene.timers.get("cancel_grace")
        closed = "" if grace is None else f", at the latest until {_instant(grace)}"
        reason = f": {run.steering.cancel_reason}" if run.steering.cancel_reason else ""
        why = f"{_WHY[run.stop_cause]}{reason}"
        runs = f" and {len(scene.children)} child run(s)" if scene.children else ""
        return f"The run is being stopped ({why}) and waits for {holders} holder(s) of leases{runs}{closed}."
    if run.paused_at is not None:
        why = f" ({run.steering.pause_reason})" if run.steering.pause_reason else ""
        clock = ", its time-outs standing still" if run.steering.clock_stopped else ""
        return f"The run was paused {_when(run.paused_at, scene.now)}{why}{clock}; it has {waits}."
    deadline = scene.timers.get("run_deadline")
    until = "" if deadline is None else f" Its deadline {_due(deadline, scene.now)}."
    ending = ""
    if run.is_compensating:
        is_cancelled = run.cancelling and run.finish_path is None
        ending = f" It undoes what completed, and then ends {'cancelled' if is_cancelled else 'failed'}."
    elif run.conclusion is not None:
        error = "" if run.conclusion.error is None else f" ({_in_line(run.conclusion.error['message'])})"
        ending = f" Only what runs at the end does still run; the run then ends {run.conclusion.state}{error}."
    elif run.failing:
        ending = f" It has failed{_culprits(scene)}, and only lets end what runs and what always edges lead to."
    elif scene.failed:
        unless = ", unless a finish node ends it" if _may_finish(scene.graph) else ""
        ending = f" It fails when they are over{_culprits(scene)}{unless}."
    return f"The run waits for {waits}.{ending}{until}"


def _decides_by_failures(run: RunRow) -> bool:
    """True while nothing else decides how the run ends."""
    return not (run.cancelling or run.expired or run.finish_path is not None)


def _culprits(scene: Scene) -> str:
    """What failed so that the run fails: the first with its error, and how much else."""
    if not scene.failed:
        return ""
    first, count = scene.failed[0], scene.run.unhandled_tasks - 1
    more = f", and {count} more" if count else ""
    return f", for {first.path} failed ({_error(first)}){more}"


def _may_finish(graph: Graph) -> bool:
    """True when a finish node may decide how a run ends."""
    if any(node.type is NodeType.FINISH for node in graph.plan.nodes.values()):
        return True
    return any(_may_finish(body) for body in graph.bodies.values())


_WHY = {"cancel": "cancelled", "finish": "a finish node ran", "deadline": "its deadline passed"}

_STOPPED = {
    BEATEN: "a join that it leads to fired without it",
    BROKEN_OFF: "it was broken off",
    STOPPED: "the map or repeat around it is being stopped",
}


def _is_held(scene: Scene, row: TaskRow) -> bool:
    """It would be dispatched, or go on by itself, were the run not paused."""
    if not scene.run.is_paused:
        return False
    kind = scene.graph.node(row.path).type
    is_wait = row.state is TaskState.WAITING and (kind is NodeType.WAIT or _is_between_iterations(kind, row))
    return is_wait or row.state in (TaskState.READY, TaskState.RETRYING)


def _is_between_iterations(kind: NodeType, row: TaskRow) -> bool:
    return kind is NodeType.REPEAT and row.due_at is not None


def _held(scene: Scene, row: TaskRow) -> Reason:
    due = "" if row.due_at is None else f", and not before {_instant(row.due_at)}"
    return Reason(
        path=row.path,
        kind=ReasonKind.PAUSED,
        message=f"The run is paused: it goes on when the run is resumed{due}.",
        since=scene.run.paused_at,
        until=row.due_at,
        queue=row.queue,
        handler=row.handler,
        attempt=row.attempt,
    )


def _ready(scene: Scene, row: TaskRow) -> Reason:
    readers = scene.readers.get(row.queue, Readers())
    since = row.ready_at or row.created_at
    waits = f"It has waited for {_span(scene.now - since)} in queue {row.queue!r} for handler {row.handler!r}"
    kind = ReasonKind.QUEUED if readers.workers else ReasonKind.NO_WORKER
    lies_since = scene.unpublished.get(row.path, scene.outbox_since)
    if lies_since is not None and scene.now - lies_since > _LATE:
        kind, since = ReasonKind.UNPUBLISHED, lies_since
        message = (
            f"{waits}, but no worker can see it: its dispatch has lain in the outbox since {_instant(lies_since)}. The"
            " relay is down, far behind, or does not reach Redis; its log says which."
        )
    elif readers.workers:
        there = f"{readers.workers} worker{'s' * (readers.workers != 1)} of that queue"
        latest = "" if readers.workers == 1 else "the latest "
        seen = "" if readers.seen_at is None else f" ({latest}{_span(scene.now - readers.seen_at)} ago)"
        message = (
            f"{waits}; {there} {'was' if readers.workers == 1 else 'were'} seen lately{seen}. It waits until one has"
            " a free slot; or what reads the queue is frozen, or does not reach Redis: that is not known here."
        )
    elif readers.seen_at is None:
        message = f"{waits}, but no worker of that queue was seen within the last hour."
    else:
        message = f"{waits}, but no worker reads that queue now: the last was seen {_when(readers.seen_at, scene.now)}."
    return Reason(
        path=row.path,
        kind=kind,
        message=message,
        since=since,
        queue=row.queue,
        handler=row.handler,
        attempt=row.attempt,
        readers=readers,
    )


def _running(scene: Scene, row: TaskRow) -> Reason:
    kind, until = ReasonKind.LEASED, row.lease_expires_at
    since = row.leased_at or scene.now
    holder = f"Worker {row.owner} has run attempt {row.attempt} for {_span(scene.now - since)}"
    grace = scene.timers.get("cancel_grace")
    if scene.run.is_stopping and grace is not None:
        kind, until = ReasonKind.STOPPING, grace
        message = f"{holder} and is to stop; if it goes on, it is closed as unknown {_when(grace, scene.now)}."
    elif row.cause is not None:
        kind = ReasonKind.STOPPING
        message = f"{holder} and is to stop ({_STOPPED[row.cause]}); if it goes on, it is closed as unknown."
    elif until is not None and until <= scene.now:
        kind = ReasonKind.LEASE_EXPIRED
        message = (
            f"{holder}, but its lease ran out {_when(until, scene.now)}: it is about to be given to another."
            f"{_overdue(until, scene.now)}"
        )
    else:
        ends = "" if until is None else f"; its lease ends {_when(until, scene.now)} unless renewed"
        silence = _silence(scene, row)
        gone = ", and another worker takes the attempt up then" if silence and until is not None else ""
        message = f"{holder}{silence}{ends}{gone}."
    return Reason(
        path=row.path,
        kind=kind,
        message=message,
        since=row.leased_at,
        until=until,
        queue=row.queue,
        handler=row.handler,
        owner=row.owner or "",
        attempt=row.attempt,
    )


def _silence(scene: Scene, row: TaskRow) -> str:
    """That a holder was not heard of for longer than it should have been; nothing when it was."""
    left_at = scene.left.get(row.owner or "")
    if left_at is not None and (row.leased_at is None or left_at >= row.leased_at):
        return f", but its connection ended {_when(left_at, scene.now)}"
    lease = timedelta(milliseconds=row.lease_ms)
    until = row.lease_expires_at
    if until is None or until == row.attempt_expires_at or row.leased_at is None:
        return ""  # how long before its end it was renewed is not known
    heard_at = max(until - lease, row.leased_at)
    if scene.now - heard_at <= lease / _SILENT_AFTER:
        return ""
    each = _span(lease / _RENEWED_EACH)
    return f", but was last heard of {_when(heard_at, scene.now)}, though it should renew its lease each {each}"


def _waiting(scene: Scene, row: TaskRow) -> Reason:
    node = scene.graph.node(row.path)
    due = row.due_at
    if node.type is NodeType.WAIT_FOR_EVENT:
        signal = node.event or scene.signals.get(row.path, "")
        ends = "for as long as it takes" if due is None else f"and fails {_when(due, scene.now)} if none comes"
        if due is not None and scene.run.steering.clock_stopped:
            due, ends = None, "its time-out standing still until the run is resumed"
        return Reason(
            path=row.path,
            kind=ReasonKind.SIGNAL,
            message=f"It waits for signal {signal!r}, {ends}.{_not_taken(scene, signal)}{_overdue(due, scene.now)}",
            since=row.ready_at,
            until=due,
            attempt=row.attempt,
            signal=signal,
        )
    if row.path == FINALLY:
        message = f"All else is over: it waits for what runs at the end ({FINALLY}[0])."
        return Reason(path=row.path, kind=ReasonKind.ITEMS, message=message, since=row.ready_at, attempt=row.attempt)
    if node.body is not None and not _is_between_iterations(node.type, row):
        none_begins = " None begins while the run is paused." if scene.run.is_paused else ""
        message = f"{_items(row.path, node, scene.loops.get(row.path))}{none_begins}"
        return Reason(path=row.path, kind=ReasonKind.ITEMS, message=message, since=row.ready_at, attempt=row.attempt)
    child = scene.children.get(row.path)
    if node.type is NodeType.SUBFLOW:
        is_awaited = child is not None and child.is_open and child.attempt == row.attempt
        return _subflow(scene, row, node, child if is_awaited else None)
    what = "its time" if node.body is None else "its next iteration"
    message = (
        "It waits." if due is None else f"It waits for {what}, which {_due(due, scene.now)}.{_overdue(due, scene.now)}"
    )
    return Reason(
        path=row.path, kind=ReasonKind.TIMER, message=message, since=row.ready_at, until=due, attempt=row.attempt
    )


def _items(path: str, node: Node, loop: LoopRow | None) -> str:
    """How far a map or a repeat is that waits for what is in it."""
    is_map = node.type is NodeType.MAP
    what = "items" if is_map else "iterations"
    if loop is None:
        return f"It waits for its {what} ({path}[…])."
    if not is_map:
        return f"It waits for iteration {max(loop.started - 1, 0)} ({path}[…]); it may have {loop.total}."
    ended = loop.succeeded + loop.failed + loop.cancelled
    failed = f", {loop.failed} of them failed" if loop.failed else ""
    full = loop.open >= node.max_concurrency and loop.started < loop.total
    room = f", as many as max_concurrency lets: others begin when one of these ends ({path}[…])" if full else ""
    return (
        f"It waits for its items: {loop.open} of {loop.total - loop.left_out} are under way{room}; {ended} have ended"
        f"{failed}."
    )


def _not_taken(scene: Scene, signal: str) -> str:
    """What came and was not taken: signals of this name, whose payload does not fit; and such of other names."""
    told = ""
    if count := scene.buffered.get(signal, 0):
        told = f" Of that name {count} came whose payload does not fit its filter or schema."
    awaited = {
        scene.graph.node(row.path).event or scene.signals.get(row.path, "")
        for row in scene.tasks
        if row.state is TaskState.WAITING and scene.graph.node(row.path).type is NodeType.WAIT_FOR_EVENT
    }
    others = [name for name in scene.buffered if name not in awaited]
    if not others or scene.left_out:  # who else waits is not known
        return told
    named = ", ".join(f"{name[:_LONGEST_NAME]!r} ({scene.buffered[name]})" for name in others[:_NAMED_SIGNALS])
    more = f" and {len(others) - _NAMED_SIGNALS} names more" if len(others) > _NAMED_SIGNALS else ""
    return f"{told} Others came that nothing waits for now: {named}{more}."


def _subflow(scene: Scene, row: TaskRow, node: Node, child: ChildRow | None) -> Reason:
    if child is None:
        message = f"It starts a run of {node.child_workflow} when the run is resumed."
    elif (since := scene.undelivered.get(child.child)) is not None:
        what = "it starts" if child.stop is None else f"it is to stop ({child.stop})"
        message = (
            f"It waits for run {child.child} of {child.workflow}, which was not told yet that {what}: the message has"
            f" waited since {_instant(since)}; the log of the relay says why."
        )
    elif child.stop is not None:
        message = f"It waits for run {child.child} of {child.workflow}, which was told to stop ({child.stop})."
    else:
        message = f"It waits for run {child.child} of {child.workflow}; `headway why {child.child}` says more."
    return Reason(
        path=row.path,
        kind=ReasonKind.CHILD,
        message=message,
        since=row.ready_at,
        attempt=row.attempt,
        child="" if child is None else child.child,
    )


def _retrying(scene: Scene, row: TaskRow) -> Reason:
    again = "is tried again soon" if row.due_at is None else f"is tried again {_when(row.due_at, scene.now)}"
    if row.due_at is not None and row.due_at <= scene.now:
        again = f"was to be tried again {_when(row.due_at, scene.now)}"
    return Reason(
        path=row.path,
        kind=ReasonKind.RETRY,
        message=f"It failed {row.tries} time{'s' * (row.tries != 1)} ({_error(row)}) and {again}."
        f"{_overdue(row.due_at, scene.now)}",
        until=row.due_at,
        queue=row.queue,
        handler=row.handler,
        attempt=row.attempt,
        failure_class=row.failure_class,
        error=row.error,
    )


def _pending(scene: Scene, row: TaskRow) -> Reason:
    return _branches(scene, row.path, scene.tokens.get(row.path, TokenRow(row.path)), row)


def _branches(scene: Scene, path: str, tokens: TokenRow, row: TaskRow | None) -> Reason:
    edges = _open_edges(scene.graph, tokens)
    names = [f"{edge.source} ({edge.on})" for edge in edges[:_NAMED_EDGES]]
    more = f" and {len(edges) - len(names)} more" if len(edges) > len(names) else ""
    return Reason(
        path=path,
        kind=ReasonKind.BRANCHES,
        message=f"It waits for {', '.join(names) or 'the branches that lead to it'}{more}.",
        since=None if row is None else row.created_at,
        attempt=0 if row is None else row.attempt,
        branches=edges,
    )


def _failed(scene: Scene, row: TaskRow) -> Reason:
    holder = "" if not row.owner else f" at worker {row.owner}"
    ended = "" if row.finished_at is None else f", {_when(row.finished_at, scene.now)}"
    return Reason(
        path=row.path,
        kind=ReasonKind.FAILED,
        message=f"It failed for good in attempt {row.attempt}{holder}{ended}: {_error(row)}",
        since=row.finished_at,
        queue=row.queue,
        handler=row.handler,
        owner=row.owner or "",
        attempt=row.attempt,
        failure_class=row.failure_class,
        error=row.error,
    )


def _closed(scene: Scene, row: TaskRow) -> Reason:
    ended = "" if row.finished_at is None else f" {_when(row.finished_at, scene.now)}"
    return Reason(
        path=row.path,
        kind=ReasonKind.CLOSED,
        message=f"Attempt {row.attempt} at worker {row.owner} did not end within the grace and was closed{ended}: "
        "what it did is unknown.",
        since=row.finished_at,
        queue=row.queue,
        handler=row.handler,
        owner=row.owner or "",
        attempt=row.attempt,
    )


_ENDED: Mapping[TaskState, Callable[[Scene, TaskRow], Reason]] = {
    TaskState.FAILED: _failed,
    TaskState.CANCELLED: _closed,
}
_EXPLAIN: Mapping[TaskState, Callable[[Scene, TaskRow], Reason]] = {
    TaskState.READY: _ready,
    TaskState.RUNNING: _running,
    TaskState.WAITING: _waiting,
    TaskState.RETRYING: _retrying,
    TaskState.PENDING: _pending,
}


def _open_edges(graph: Graph, tokens: TokenRow) -> tuple[Edge, ...]:
    arrived = tokens.live | tokens.dead | tokens.failed
    incoming = graph.spot(tokens.path).incoming
    return tuple(edge for slot, edge in enumerate(incoming) if not arrived >> slot & 1)


def _is_undecided(graph: Graph, tokens: TokenRow) -> bool:
    """Some of its tokens have come; of the others, one decides."""
    if not (tokens.live | tokens.dead | tokens.failed) or not _open_edges(graph, tokens):
        return False
    spot = graph.spot(tokens.path)
    return not (spot.graph.is_count_join(spot.name) and tokens.live.bit_count() >= spot.graph.need(spot.name))


def _error(row: TaskRow) -> str:
    error = row.error or {}
    return f"{row.failure_class} {error.get('type')}: {_in_line(error.get('message'))}"


def _in_line(message: object) -> str:
    """What a handler or a `finish` node said, as part of a sentence."""
    words = " ".join(str(message).split())
    return shortened(words, _LONGEST_WORDS)


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def _when(at: datetime, now: datetime) -> str:
    """An instant, and how far away it is."""
    away = f"in {_span(at - now)}" if at > now else f"{_span(now - at)} ago"
    return f"{away} ({_instant(at)})"


def _due(at: datetime, now: datetime) -> str:
    return f"{'is' if at > now else 'was'} {_when(at, now)}"


def _overdue(at: datetime | None, now: datetime) -> str:
    """What is due is told by the timers service within a moment."""
    if at is None or now - at <= _LATE:
        return ""
    return " That is overdue: the timers service is down, or does not reach a coordinator; its log says which."


def _span(duration: timedelta) -> str:
    """A duration in the two largest units that matter."""
    seconds = max(int(duration.total_seconds()), 0)
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        if seconds >= size or (name == "s" and not parts):
            parts.append(f"{seconds // size}{name}")
            seconds %= size
    return " ".join(parts[:2])
