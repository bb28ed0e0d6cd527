"""What holds for a run after every step, whatever happened."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from msgspec.structs import replace

from headway.coordinator.core import actions as do
from headway.coordinator.core.actions import Action
from headway.coordinator.core.admission import SILENCES, timer_applies
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.events import TimerFired
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.outcome import tally_of
from headway.coordinator.core.paths import inside, is_within, loop_of, scope_of, scopes_around
from headway.coordinator.core.plan import FINALLY, LOOP_NODES, EdgeKind, Json, NodeType
from headway.coordinator.core.replay import Recorded, replay
from headway.coordinator.core.rows import (
    LoopRow,
    RunRow,
    TaskRow,
    TokenRow,
    took_effect,
    undoing_generation,
    was_undone,
)
from headway.coordinator.core.state import State, TimerKey
from tests.core.effects import Effects
from tests.core.flows import workflow
from tests.core.simulator import World
from tests.core.tallies import tally

_SETTLED = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED)
_BEYOND_HISTORY = {"queue_timeout", *SILENCES}  # leases end the one, and signs of life move the others
_BEGINNINGS = (do.OpenScope, do.ReopenScope, do.OpenChild, do.BeginUndoing)
_FINAL = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


def begin(text: str, given: Json = None) -> World:
    """Start a run of a workflow written in YAML; from now on everything is looked at after every step."""
    world = World(workflow(text))
    world.watchers.append(check)
    return world.start(given)


def check(world: World) -> None:
    """After every step, leases included."""
    check_run_row(world.run)
    for row in world.db.tasks.values():
        check_task_row(row)
    check_counts(world)
    check_waits(world)
    check_who_waited_longest_took_it(world)
    assert [entry.seq for entry in world.history] == list(range(1, world.run.seq + 1))
    check_tokens(world)
    check_nothing_runs_without_its_tokens(world)
    check_something_is_waited_for(world)
    check_nobody_is_left_open(world)
    check_timers_mean_something(world)
    check_latest_event(world)


def check_counts(world: World) -> None:
    """The run counts its own tasks, an item or iteration its own, and a map or repeat counts those."""
    db = world.db
    by_scope: dict[str, list[TaskRow]] = {"": [], **{path: [] for path in db.scopes}}
    undoing = 0  # in items that are over: the run waits for it, and it says nothing of how the run ends
    for path, row in db.tasks.items():
        if scope_of(path) and world.graph.owner(path):
            undoing += row.is_open
        else:
            by_scope[scope_of(path)].append(row)
    own = tally(by_scope[""])
    assert replace(own, open=own.open + undoing) == tally_of(world.run)
    for path, scope in db.scopes.items():
        assert tally(by_scope[path]) == tally_of(scope), path
        assert (scope.state is RunState.RUNNING) == (scope.finished_at is None) == bool(scope.open_tasks), path
        assert loop_of(path) == (scope.loop, scope.index)
        assert (scope.place is None) == (world.graph.node(scope.loop).where is None), path
    for path, loop in db.loops.items():
        rows = [row for row in db.scopes.values() if row.loop == path and row.index < loop.started]
        counted = [sum(row.state is state for row in rows) for state in (RunState.RUNNING, *_FINAL)]
        node = world.graph.node(path)
        if node.keep_last is None:
            assert [loop.open, loop.succeeded, loop.failed, loop.cancelled] == counted, path
        most = node.max_concurrency if node.type is NodeType.MAP else 1
        assert loop.open >= 0
        assert loop.open <= most, path
        assert loop.open + loop.succeeded + loop.failed + loop.cancelled == loop.started
        assert loop.left_out >= 0
        assert loop.seen <= loop.total
        is_open = world.task(path).state is TaskState.WAITING
        assert is_open or not loop.open or world.task(path).state is TaskState.PENDING, path
        if is_open and loop.open == 0 and not world.run.is_paused:
            assert (path, "go_on", world.task(path).attempt) in db.timers, f"{path} hangs"
        if node.type is NodeType.MAP and node.keep_last is None:
            assert loop.output_bytes == sum(row.output_bytes for row in rows)


def check_waits(world: World) -> None:
    """Nodes in bodies, or with computed names, that wait for a signal are found by its name, and no others are."""
    waiting = {
        path: name
        for path, name in names_waited_for(world).items()
        if scope_of(path) or world.graph.node(path).event_name is not None
    }
    assert {path: row.name for path, row in world.db.waits.items()} == waiting
    assert len({row.place for row in world.db.waits.values()}) == len(waiting)


def names_waited_for(world: World) -> dict[str, str]:
    """The signals that nodes wait for, by path."""
    waiting: dict[str, str] = {}
    for path, row in world.db.tasks.items():
        node = world.graph.node(path)
        if row.state is TaskState.WAITING and node.type is NodeType.WAIT_FOR_EVENT:
            waiting[path] = node.event
            if node.event_name is not None and row.input is not None:
                waiting[path] = str(world.db.payloads[row.input].value)
    return waiting


def check_who_waited_longest_took_it(world: World) -> None:
    """A signal that comes is taken by nobody who began to wait after another one that would have taken anything."""
    if not world.actions(do.BufferSignal):
        return
    signal = world.db.signals[max(world.db.signals)]
    if signal.taken_by is None:
        return
    taker = world.task(signal.taken_by)
    for path, name in names_waited_for(world).items():
        node, row = world.graph.node(path), world.task(path)
        takes_anything = node.filter is None and node.payload_schema is None
        if name == signal.name and takes_anything and row.ready_at and taker.ready_at:
            assert row.ready_at >= taker.ready_at, f"{path} waited longer than {taker.path}, which took {name}"


def check_run_row(row: RunRow) -> None:
    """The CHECKs of the table `runs`."""
    assert (row.state in _FINAL) == (row.finished_at is not None)
    assert (row.state in (RunState.FAILED, RunState.CANCELLED)) == (row.error is not None)
    assert row.finished_at is None or row.open_tasks == 0
    assert min(row.open_tasks, row.succeeded_tasks, row.unhandled_tasks) >= 0
    orjson.dumps(row.error)


def check_task_row(row: TaskRow) -> None:
    """The CHECKs of the table `tasks`."""
    assert (row.state is TaskState.RUNNING) == (row.lease_expires_at is not None)
    assert (row.lease_expires_at is None) == (row.grant_key is None)
    assert row.lease_expires_at is None or row.owner is not None
    assert (row.state in (TaskState.FAILED, TaskState.RETRYING)) == (row.failure_class is not None)
    assert (row.failure_class is None) == (row.error is None)
    assert (row.state is TaskState.FAILED) == (row.disposition is not None)
    skipped = row.state is TaskState.SUCCEEDED and row.cause == "skipped"
    is_told_to_stop = row.state is TaskState.RUNNING and row.cause is not None
    may_have_begun = row.state is TaskState.FAILED and row.cause == "unknown"
    assert skipped or is_told_to_stop or may_have_begun or (row.state is TaskState.CANCELLED) == (row.cause is not None)
    assert (row.state in _SETTLED) == (row.finished_at is not None)
    assert row.attempt > 0
    assert row.generation > 0
    assert row.tries >= 0
    assert row.losses >= 0
    assert row.state is TaskState.READY or row.sweep_at is None
    assert row.output_attempt is None or row.state is TaskState.SUCCEEDED


def check_tokens(world: World) -> None:
    """Every edge has at most one token; of an edge that has one, the source is settled."""
    for path, row in world.db.tokens.items():
        assert row.live & row.dead == row.live & row.failed == row.dead & row.failed == 0
        assert row.always & (row.dead) == 0
        spot = world.graph.spot(path)
        assert (row.live | row.dead | row.failed) < 1 << len(spot.incoming)
        assert {int(slot) for slot in row.names} == {
            slot for slot in range(len(spot.incoming)) if row.failed >> slot & 1
        }
        for slot, edge in enumerate(spot.incoming):
            source = world.db.tasks.get(spot.beside(edge.source))
            if row.live >> slot & 1:
                assert source is not None
                assert source.state in (TaskState.SUCCEEDED, TaskState.FAILED), f"{edge.source} -> {path}"


def failed_by_an_edge(row: TaskRow) -> bool:
    """It failed before it began: the condition of an edge to it, or an input of it, could not be computed."""
    return row.state is TaskState.FAILED and row.error is not None and row.error["type"] == "ExpressionError"


def check_nothing_runs_without_its_tokens(world: World) -> None:
    """A blocked or dead node never runs; a join any / need n runs with its n live tokens and not before."""
    for path, row in world.db.tasks.items():
        if row.state in (TaskState.PENDING, TaskState.CANCELLED) or failed_by_an_edge(row) or row.cause == "skipped":
            continue
        spot = world.graph.spot(path)
        into = spot.incoming
        if not into:
            continue
        if len(into) == 1:
            source = world.db.tasks[spot.beside(into[0].source)]
            fits = {
                EdgeKind.SUCCESS: (TaskState.SUCCEEDED,),
                EdgeKind.ALWAYS: (TaskState.SUCCEEDED, TaskState.FAILED),
            }.get(into[0].on, (TaskState.FAILED,))
            assert source.state in fits, f"{path} runs behind {source.path}, which is {source.state}"
            continue
        tokens = world.db.tokens[path]
        if spot.graph.is_count_join(spot.name):
            assert tokens.live.bit_count() >= (spot.node.need or 1), f"{path} fired too early"
        else:
            assert tokens.failed == 0, f"{path} runs although it is blocked"
            assert tokens.live, f"{path} runs although it is dead"
            assert (tokens.live | tokens.dead) == (1 << len(into)) - 1, f"{path} did not wait"


def check_something_is_waited_for(world: World) -> None:  # noqa: C901 - one look for each state
    """A run that is not over has work to give out, work that is done, a timer, or a wait for a signal."""
    if world.run.is_final:
        assert not world.db.timers
        return
    open_rows = [row for row in world.db.tasks.values() if row.is_open]
    if world.run.is_paused:
        check_nothing_starts(world, open_rows)
        return
    assert not world.run.steering.held
    goes_on = ("", "go_on", 0) in world.db.timers
    assert goes_on or any(row.state is not TaskState.PENDING for row in open_rows), "the run hangs"
    for row in open_rows:
        if row.state is TaskState.READY:
            assert (row.path, row.attempt) in world.dispatches, f"{row.path} was never given out"
            assert row.sweep_at is not None, f"{row.path} would not be given out again"
        elif row.state is TaskState.RETRYING:
            assert (row.path, "retry", row.attempt) in world.db.timers
        elif row.state is TaskState.WAITING:
            node = world.graph.node(row.path)
            if node.type in LOOP_NODES:
                continue  # seen by its counts
            if node.type is NodeType.SUBFLOW:
                check_child_is_asked_for(world, row)
            elif node.type is NodeType.WAIT:
                assert (row.path, "wait", row.attempt) in world.db.timers
            elif node.timeouts.total_ms is not None:
                assert (row.path, "event_timeout", row.attempt) in world.db.timers
        elif row.state is TaskState.PENDING:
            assert world.run.epoch > 1
    if world.run.is_stopping:
        told = not any(kind == "go_on" for _, kind, _ in world.db.timers)
        quiet = {TaskState.RUNNING, TaskState.PENDING}
        loops = {row.path for row in open_rows if world.graph.node(row.path).type in LOOP_NODES}
        loops |= {path for path, child in world.db.children.items() if child.is_open and child.stop is not None}
        still = [row for row in open_rows if row.state not in quiet and row.path not in loops]
        assert not (told and still), "something may still start"
        paged = [path for path, kind, _ in world.db.timers if kind == "go_on" and path]
        closes = any(world.db.loops[path].closing for path in paged)  # page by page, as `told` is
        only_children = loops and all(row.path in loops or row.state is TaskState.PENDING for row in open_rows)
        assert closes or only_children or ("", "cancel_grace", 0) in world.db.timers


def check_child_is_asked_for(world: World, row: TaskRow) -> None:
    """A subflow node that waits has asked for a run of its own attempt."""
    child = world.db.children[row.path]
    assert child.is_open, f"{row.path} waits for nobody"
    assert child.attempt == row.attempt
    assert any(to == child.child and kind == "StartChild" for to, kind, _ in world.handovers)


def check_nobody_is_left_open(world: World) -> None:
    """The run of a row that is open stays until its end was told: somebody has to wait for it."""
    for path, child in world.db.children.items():
        row = world.db.tasks.get(path)
        is_waited_for = row is not None and row.state is TaskState.WAITING and row.attempt == child.attempt
        assert is_waited_for or not child.is_open, f"{path} does not wait for run {child.child}, whose row is open"


def check_nothing_starts(world: World, open_rows: Iterable[TaskRow]) -> None:
    """A paused run gives nothing out and is not moved by an alarm; each time-out runs, or is kept as what is left."""
    for row in open_rows:
        assert row.state is not TaskState.READY or row.sweep_at is None, f"{row.path} would be given out again"
    kinds = {kind for _, kind, _ in world.db.timers}
    assert not kinds & {"retry", "wait"}
    begun = [action for action in world.actions() if isinstance(action, _BEGINNINGS)]
    begun += [action for action in world.actions(do.DispatchTask) if not getattr(action, "held", False)]
    assert begun == [], "something began in a paused run"
    steering = world.run.steering
    assert not steering.held or steering.clock_stopped
    if steering.clock_stopped:
        assert not kinds & {"run_deadline", "total_timeout", "event_timeout"}
    held = [key[:3] for key in steering.held]
    assert len(held) == len(set(held))
    for path, kind, attempt in held:
        event = TimerFired(at=world.now, path=path, kind=kind, attempt=attempt)
        assert timer_applies(world.run, world.db.tasks.get(path), event), f"{path} {kind} {attempt} is held for nothing"


def check_timers_mean_something(world: World) -> None:
    """No timer is left behind by what it was for; a time-out of the queue may outlive a lease, which writes none."""
    for path, kind, attempt in world.db.timers:
        event = TimerFired(at=world.now, path=path, kind=kind, attempt=attempt)
        row = world.db.tasks.get(path)
        if kind == "queue_timeout" and row is not None and row.state is TaskState.RUNNING:
            continue
        assert timer_applies(world.run, row, event), f"the timer {path} {kind} {attempt} is left over"
        node = world.graph.node(path) if path else None
        assert node is None or kind != "total_timeout" or node.timeouts.total_ms is not None


def check_latest_event(world: World) -> None:
    """What was left behind stays behind; nothing starts in a run that is stopping."""
    for (path, number), left in world.db.attempts.items():
        assert number < world.task(path).attempt
        assert left.ended_at <= world.run.last_event_at
    if world.run.is_stopping:
        marked = [place for place, action in enumerate(world.actions()) if isinstance(action, do.MarkRun)]
        after = world.actions()[marked[-1] :] if marked else world.actions()
        assert not any(isinstance(action, do.DispatchTask | do.AwaitTask) for action in after)


def was_only_looked_at(world: World, scope: str) -> bool:
    """An item of which it could not be told whether it is to be done: nothing is."""
    error = world.db.scopes[scope].error
    has_tasks = any(scope_of(path) == scope for path in world.db.tasks)
    return not has_tasks or (error is not None and str(error["message"]).startswith("where: "))


def check_every_edge_has_its_token(world: World) -> None:
    """A run that ended without being stopped: each edge carries exactly one token, and no node is undecided."""
    ended = [path for path, row in world.db.scopes.items() if row.state is not RunState.CANCELLED and not row.failing]
    done = [path for path in ended if not world.db.scopes[path].stopped and not was_only_looked_at(world, path)]
    for scope in ("", *(path for path in done if not any(each.stop for each in _loops_around(world, path)))):
        graph = world.graph.body(scope)
        for name in graph.gathers:
            path = inside(scope, name)
            row = world.db.tokens.get(path, TokenRow(path))
            carried = row.live | row.dead | row.failed
            assert carried == (1 << len(graph.incoming[name])) - 1, f"{path} lacks a token"


def _loops_around(world: World, scope: str) -> list[LoopRow]:
    return [world.db.loops[loop_of(each)[0]] for each in scopes_around(scope)]


def check_always_edges_were_followed(world: World) -> None:
    """A run that failed at its first unhandled failure, and was not stopped otherwise: cleaning up was not skipped."""
    for edge in world.graph.plan.edges:
        source = world.db.tasks.get(edge.source)
        ended = source is not None and source.state in (TaskState.SUCCEEDED, TaskState.FAILED)
        if ended and edge.on is EdgeKind.ALWAYS and edge.when is None and edge.target not in world.graph.gathers:
            assert world.task(edge.target).state in (TaskState.SUCCEEDED, TaskState.FAILED), edge.target


def check_what_is_undone(world: World) -> None:
    """A run that did not succeed has undone all that took effect, what completed last first, or says in its error what
    stands; one that succeeded has undone nothing of what stands.
    """
    graph, tasks = world.graph, world.db.tasks
    undone_by = {owner: path for path in tasks if (owner := graph.owner(path))}
    effects = [row for row in tasks.values() if graph.node(row.path).compensate is not None and took_effect(row)]
    undone = [row for row in effects if (path := undone_by.get(row.path)) and was_undone(row, tasks[path])]
    noted = {effect.path: effect.attempt for _, effect in sorted(world.db.effects.items())}
    assert all(noted[row.path] == row.attempt for row in effects if row not in undone)
    for scope in {
        scope for row in undone if _is_of_now(world, row.path) for scope in scopes_around(scope_of(row.path))
    }:
        assert world.db.scopes[scope].undone
    ended, ending = _how_it_ended(world)
    steering = world.run.steering
    standing = steering.standing
    if ended is RunState.SUCCEEDED:
        assert [row for row in undone if _is_of_now(world, row.path) and _came_to_its_end(world, row.path)] == []
        return
    if ending != "uncompensated":
        assert all(row.path in standing for row in effects if row not in undone) or steering.not_undone > len(standing)
        assert len(world.db.effects) == steering.not_undone
        assert sorted(effect.path for effect in world.db.effects.values()) == sorted(standing) or (
            steering.not_undone > len(standing)
        )
        assert all(path in str((world.run.error or {}).get("message")) for path in standing)
        assert effects or ending != "compensating" or world.run.epoch > 1
        assert ending == "compensating" or not any(_is_of_now(world, row.path) for row in effects if not graph.bodies)
    once = [row for row in undone if not _was_undone_before(row, tasks[undone_by[row.path]])]
    for row in once:
        for other in once:
            mine, others = tasks[undone_by[row.path]], tasks[undone_by[other.path]]
            if others.ready_at and row.finished_at and others.ready_at <= row.finished_at:
                continue  # that was undone before the run was reopened; the stack knows more
            if row.finished_at and other.finished_at and row.finished_at > other.finished_at:
                assert mine.finished_at is not None
                assert others.ready_at is None or mine.finished_at <= others.ready_at, (
                    f"{mine.path} after {others.path}"
                )


def _was_undone_before(row: TaskRow, undoing: TaskRow) -> bool:
    """What undoes it did so for an earlier attempt last."""
    return undoing.generation != undoing_generation(row.attempt, row.attempt, is_undone=False)


def check_the_order_of_undoing(world: World) -> None:
    """Effects are a stack: the latest is undone first, unless nobody knew of it when it was tried again; what could not
    be undone stays in its place, and the next time that the run comes to undoing, it is undone then.
    """
    effects = Effects(world.graph)
    for action in (action for entry in world.history for action in entry.given):
        effects.follow(action)
    assert [*effects.standing.values()] == [effect.path for _, effect in sorted(world.db.effects.items())]
    tasks = world.db.tasks
    undoing = {path: row for row in tasks.values() if (path := world.graph.owner(row.path))}
    undone = {path for path, row in undoing.items() if took_effect(tasks[path]) and was_undone(tasks[path], row)}
    assert undone == effects.wanted_anew(), "a retry would not do again just what was undone"
    ended, ending = _how_it_ended(world)
    assert ended is RunState.SUCCEEDED or ending == "uncompensated" or not effects.to_be_undone()


def _is_of_now(world: World, path: str) -> bool:
    """Each map and repeat around it ran since the run was reopened, and has begun the item that it is in."""
    around = [loop_of(scope) for scope in scopes_around(scope_of(path))]
    rows = [world.task(loop) for loop, _ in around]
    passed_over = any(row.state is TaskState.CANCELLED and row.cause in ("not_chosen", "blocked") for row in rows)
    return not passed_over and all(index < world.db.loops[loop].started for loop, index in around)


def _came_to_its_end(world: World, path: str) -> bool:
    """Each map and repeat around it succeeded: others did not take up all that was undone in them."""
    return all(world.task(loop_of(scope)[0]).state is TaskState.SUCCEEDED for scope in scopes_around(scope_of(path)))


def _how_it_ended(world: World) -> tuple[RunState, str | None]:
    """The outcome before what ran at the end, and how it came to that."""
    ended, ending = world.run.state, None
    for entry in world.history:
        for action in entry.given:
            match action:
                case do.ReopenRun():
                    ended, ending = world.run.state, None
                case do.MarkRun(flag="ending"):
                    ending = action.path
                case do.ConcludeRun():
                    ended = action.state
                case _:
                    pass
    return ended, ending


def check_finally(world: World) -> None:
    """What runs at the end ran once at each end, when nothing else was open, and was over before the run was."""
    ends = sum(isinstance(action, do.FinishRun) for entry in world.history for action in entry.given)
    last = world.db.tasks.get(FINALLY)
    if world.graph.has_finally:
        assert last is not None
        assert last.attempt == ends
        assert last.state in _SETTLED
        others = [row.finished_at for path, row in world.db.tasks.items() if not is_within(path, FINALLY)]
        assert all(at is not None and last.ready_at is not None and at <= last.ready_at for at in others)


def was_stopped(world: World) -> bool:
    """Something cut the run short since it was started or reopened."""
    run = world.run
    return run.cancelling or run.failing or run.expired or run.finish_path is not None


# --- replay


def recorded(world: World) -> list[Recorded]:
    """The history as it is stored."""
    return [Recorded(seq=entry.seq, at=entry.at, actions=entry.actions) for entry in world.history]


def replayed(world: World) -> State:
    """The rows that the history gives."""

    def payload_of(seq: int, action: Action) -> Document:
        if isinstance(action, do.StorePayload):
            return world.db.payloads.get((action.path, action.attempt, action.role), NULL)  # a repeat may drop them
        return world.db.signals[seq].payload

    return replay(world.graph, recorded(world), payload_of)


def check_replay(world: World) -> None:
    """Applying the history again gives the same rows; what a lease writes on its own apart."""
    state = replayed(world)
    assert state.run == world.run
    assert {path for path, row in state.tasks.items() if row} == world.db.tasks.keys()
    for path, row in world.db.tasks.items():
        again = state.tasks[path]
        assert again is not None
        assert _without_lease(again, row) == _without_lease(row, row), path
    assert {path: row for path, row in state.tokens.items() if row} == world.db.tokens
    assert state.payloads == world.db.payloads
    assert {key: left for key, left in state.attempts.items() if left} == world.db.attempts
    assert state.loops == world.db.loops
    assert {place: effect for place, effect in state.effects.items() if effect} == world.db.effects
    assert {path: row for path, row in state.children.items() if row} == world.db.children
    assert {path: row for path, row in state.waits.items() if row} == world.db.waits
    assert {path: row for path, row in state.scopes.items() if row} == world.db.scopes
    untaken = sorted(row.seq for rows in state.signals.values() for row in rows)
    assert untaken == sorted(seq for seq, row in world.db.signals.items() if row.taken_by is None)
    taken = {
        action.seq: action.path
        for entry in world.history
        for action in entry.given
        if isinstance(action, do.TakeSignal)
    }
    assert taken == {seq: row.taken_by for seq, row in world.db.signals.items() if row.taken_by is not None}
    meaningful = {key: at for key, at in world.db.timers.items() if key[1] not in _BEYOND_HISTORY}
    assert {key: at for key, at in _timers(world).items() if key[1] not in _BEYOND_HISTORY} == meaningful


def _without_lease(row: TaskRow, live: TaskRow) -> TaskRow:
    bare = replace(row, lease_expires_at=None, grant_key=None, attempt_expires_at=None, sweep_at=None)
    if live.state is TaskState.RUNNING:  # leased, which no event has told yet
        bare = replace(bare, state=TaskState.READY, owner=None, leased_at=None, started_at=None)
    return bare


def _timers(world: World) -> dict[TimerKey, object]:
    timers: dict[TimerKey, object] = {}
    for entry in world.history:
        for action in entry.given:
            if isinstance(action, do.ScheduleTimer):
                timers[action.path, action.kind, action.attempt] = action.due_at
            elif isinstance(action, do.CancelTimer | do.HoldTimer):
                timers.pop((action.path, action.kind, action.attempt), None)
            elif isinstance(action, do.FinishRun):
                timers.clear()
    return timers
