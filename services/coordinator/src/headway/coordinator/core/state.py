"""What is known of one run while its events are decided: the rows loaded so far, and what decisions change in them."""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct, field

from headway.coordinator.core.document import Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.paths import inside, loop_of, scope_of, scopes_around
from headway.coordinator.core.rows import (
    AttemptRow,
    BeatRow,
    ChildRow,
    EffectRow,
    LoopRow,
    PayloadKey,
    RunRow,
    ScopeRow,
    SignalRow,
    TaskRow,
    TokenRow,
    WaitRow,
    copy_loop,
    copy_token,
)

TimerKey: TypeAlias = tuple[str, str, int]  # (path, kind, attempt)

PAGE = 100  # items of a map that one page has
EFFECTS = 4  # that one page has
LATEST = 1 << 62  # a place behind all effects
NO_RUN = "0" * 32  # the id of a run, as long as it is only guessed
FIRST_WAITS = 4  # nodes that are asked first whether a signal fits; mostly the first takes it
PAGES: Mapping[str, frozenset[RunState]] = {
    "running": frozenset({RunState.RUNNING}),
    "stopped": frozenset({RunState.CANCELLED}),
    "unfinished": frozenset({RunState.CANCELLED, RunState.FAILED}),
}
WITH_UNDONE = frozenset({"stopped", "unfinished"})  # pages that what was undone is on, too


def is_on(page: str, row: ScopeRow) -> bool:
    """True for an item that a page is about."""
    return row.state in PAGES[page] or (row.undone and page in WITH_UNDONE)


def _concerns(page: str, loop: LoopRow) -> bool:
    """True for a map or repeat that may have items that a page is about."""
    return bool(loop.open if page == "running" else loop.failed or loop.cancelled or loop.undone)


class Changes(Struct):
    """What the projector wrote: rows by key, ready to be saved. Dispatches are (path, attempt)."""

    run: RunRow | None = None
    tasks: dict[str, TaskRow] = field(default_factory=dict)
    tokens: dict[str, TokenRow] = field(default_factory=dict)
    payloads: dict[PayloadKey, Document] = field(default_factory=dict)
    timers: dict[TimerKey, datetime | None] = field(default_factory=dict)  # None: delete
    all_timers_gone: bool = False
    signals: dict[int, SignalRow] = field(default_factory=dict)
    attempts: list[AttemptRow] = field(default_factory=list)
    dispatches: list[tuple[str, int]] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    loops: dict[str, LoopRow] = field(default_factory=dict)
    scopes: dict[str, ScopeRow] = field(default_factory=dict)
    effects: dict[int, EffectRow | None] = field(default_factory=dict)  # by place; None: delete
    waits: dict[str, WaitRow | None] = field(default_factory=dict)  # by path; None: delete
    children: dict[str, ChildRow] = field(default_factory=dict)
    handovers: list[tuple[str, str, Document]] = field(default_factory=list)  # (to, kind, body)
    dropped: dict[str, tuple[str, ...]] = field(default_factory=dict)  # scopes whose rows go, with their tasks' paths

    def drop(self, scope: str, paths: tuple[str, ...]) -> None:
        """The rows of a scope go; what was changed in them goes with them."""
        self.dropped[scope] = paths
        gone = {scope, *paths}
        self.scopes.pop(scope, None)
        for path in paths:
            self.tasks.pop(path, None)
            self.tokens.pop(path, None)
            self.children.pop(path, None)
        self.payloads = {key: data for key, data in self.payloads.items() if key[0] not in gone}
        self.attempts = [left for left in self.attempts if left.path not in gone]
        self.dispatches = [each for each in self.dispatches if each[0] not in gone]


class State(Struct):
    """Rows of one run.

    Attributes:
        tasks, tokens: None: looked for, and not there.
        signals: by name, those that nobody has taken, oldest first.
        taken: by path, those that a node has taken, oldest first.
        timers: due times, as far as they were loaded or decided here; None: deleted.
        effects: by place; None: gone.
        waits: by path, those that were decided on here; None: gone. stored_waits: as they were loaded, by key.
        children: by path, the latest.
        child_ids: of runs that subflow nodes are about to start, by path and attempt.
        results: by map, what its items gave when they were loaded, by their index.
        pages: of items, by key: the last index on a full one; None: nothing more was behind it when it was loaded.
        loaded: whole-run keys that were loaded.
        complete: every row of the run is here; nothing is ever missing (replay, tests).
    """

    graph: Graph
    run_id: str = ""
    run: RunRow | None = None
    tasks: dict[str, TaskRow | None] = field(default_factory=dict)
    tokens: dict[str, TokenRow | None] = field(default_factory=dict)
    payloads: dict[PayloadKey, Document] = field(default_factory=dict)
    signals: dict[str, list[SignalRow]] = field(default_factory=dict)
    taken: dict[str, list[SignalRow]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptRow | None] = field(default_factory=dict)
    beats: dict[str, BeatRow | None] = field(default_factory=dict)
    instants: dict[tuple[str, str], datetime | None] = field(default_factory=dict)
    timers: dict[TimerKey, datetime | None] = field(default_factory=dict)
    loops: dict[str, LoopRow | None] = field(default_factory=dict)
    scopes: dict[str, ScopeRow | None] = field(default_factory=dict)
    results: dict[str, dict[int, bytes]] = field(default_factory=dict)
    pages: dict[Key, int | None] = field(default_factory=dict)
    effects: dict[int, EffectRow | None] = field(default_factory=dict)
    waits: dict[str, WaitRow | None] = field(default_factory=dict)
    stored_waits: dict[Key, list[WaitRow]] = field(default_factory=dict)
    children: dict[str, ChildRow | None] = field(default_factory=dict)
    child_ids: dict[tuple[str, int], str] = field(default_factory=dict)
    loaded: set[Key] = field(default_factory=set)
    complete: bool = False

    def absorb(self, changes: Changes) -> None:
        """Take over what a decision changed, so that the next event of the run sees it."""
        if changes.run is not None:
            self.run = changes.run
        self.tasks.update(changes.tasks)
        self.tokens.update(changes.tokens)
        self.payloads.update(changes.payloads)
        self.attempts.update({(left.path, left.attempt): left for left in changes.attempts})
        if changes.all_timers_gone:
            self.timers.clear()
            self.loaded.add(("timers",))
        if changes.timers:
            self.timers.update(changes.timers)
        if changes.loops or changes.scopes:
            self.loops.update(changes.loops)
            self.scopes.update(changes.scopes)
            self._drop(changes.dropped)
        if changes.effects:
            self.effects.update(changes.effects)
        if changes.waits:
            self.waits.update(changes.waits)
        if changes.children:
            self.children.update(changes.children)
        for signal in changes.signals.values():
            waiting = [kept for kept in self.signals.get(signal.name, []) if kept.seq != signal.seq]
            if signal.taken_by is None:
                waiting.append(signal)
            self.signals[signal.name] = waiting
            path = signal.taken_by
            if path is not None and (self.complete or path in self.taken):
                kept = [row for row in self.taken.get(path, []) if row.seq != signal.seq]
                self.taken[path] = sorted([*kept, signal], key=lambda row: row.seq)

    def _drop(self, dropped: Mapping[str, tuple[str, ...]]) -> None:
        for scope, paths in dropped.items():
            self.scopes[scope] = None
            gone = {scope, *paths}
            self.tasks.update(dict.fromkeys(paths))
            self.tokens.update(dict.fromkeys(paths))
            self.children.update(dict.fromkeys(paths))
            self.payloads = {key: data for key, data in self.payloads.items() if key[0] not in gone}
            self.attempts = {key: left for key, left in self.attempts.items() if key[0] not in gone}


class Draft:
    """A state with a decision's changes laid over it. Reading what was not loaded raises Missing.

    Attributes:
        guessed: what was read as if nothing were there, though it was not loaded. What follows is no decision,
            but a hint at what else there will be to ask for: many nodes ask together then, and not one by one.
    """

    __slots__ = ("_absent", "_fresh", "_guesses", "changes", "guessed", "state")

    def __init__(self, state: State, *, guesses: bool = False) -> None:
        """Lay nothing over it yet. `guesses`: read on behind rows, of which there mostly are none; else raise."""
        self.state = state
        self.changes = Changes()
        self.guessed: set[Key] = set()
        self._guesses = guesses
        self._absent: set[str] = set()
        self._fresh: set[str] = set()

    def assume_absent(self, path: str) -> None:
        """A task that cannot be there: no need to look for it."""
        self._absent.add(path)

    def assume_fresh(self, scope: str) -> None:
        """An item or iteration that was never begun: neither it nor anything in it needs to be looked for."""
        self._fresh.add(scope)

    def _is_fresh(self, path: str) -> bool:
        return bool(self._fresh) and scope_of(path) in self._fresh

    def _guess(self, *keys: Key) -> None:
        """Take it that nothing is there. Raises Missing unless that may be guessed."""
        if not self._guesses:
            raise Missing(keys)
        self.guessed.update(keys)

    @property
    def run(self) -> RunRow:
        """The run's row. Raises Missing when there is none: the shell looks for it first."""
        run = self.changes.run or self.state.run
        if run is None:
            raise Missing([("run",)])
        return run

    def task(self, path: str) -> TaskRow | None:
        """The task's row, or None when the node was not reached."""
        found = self.changes.tasks.get(path)
        if found is not None:
            return found
        tasks = self.state.tasks
        if path in tasks or path in self._absent or self.state.complete or ("all",) in self.state.loaded:
            return tasks.get(path)
        if self._is_fresh(path):
            return None
        raise Missing([("task", path)])

    def token(self, path: str) -> TokenRow | None:
        """The tokens that reached a node with several incoming edges, or None."""
        found = self.changes.tokens.get(path)
        if found is not None:
            return found
        tokens = self.state.tokens
        if path in tokens or self.state.complete or ("all",) in self.state.loaded:
            return tokens.get(path)
        if self._is_fresh(path):
            return None
        raise Missing([("token", path)])

    def attempt(self, path: str, number: int) -> AttemptRow | None:
        """An attempt that was left behind."""
        if (path, number) in self.state.attempts or self.state.complete:
            return self.state.attempts.get((path, number))
        raise Missing([("attempt", path, number)])

    def beat(self, path: str) -> BeatRow | None:
        """The latest signs of life of a task's handler, or None when there was none."""
        if path in self.state.beats or self.state.complete:
            return self.state.beats.get(path)
        raise Missing([("beat", path)])

    def instant(self, local: str, zone: str) -> datetime | None:
        """When a zone's clocks show a local time; None: there is no such zone."""
        if (local, zone) not in self.state.instants:
            raise Missing([("instant", local, zone)])
        return self.state.instants[local, zone]

    def child(self, path: str) -> ChildRow | None:
        """The latest run that a subflow node started, or None."""
        found = self.changes.children.get(path)
        if found is not None:
            return found
        if path in self.state.children or self.state.complete:
            return self.state.children.get(path)
        if path in self._absent or self._is_fresh(path):
            return None
        raise Missing([("child", path)])

    def write_child(self, path: str) -> ChildRow:
        """The latest row of a subflow node's runs, to be changed. It must exist."""
        row = self.changes.children.get(path)
        if row is None:
            found = self.child(path)
            if found is None:
                raise LookupError(path)
            row = self.changes.children[path] = copy(found)
        return row

    def require_children(self, paths: Iterable[str]) -> None:
        """Raise Missing once for all subflow nodes whose runs were not looked for."""
        known, changed = self.state.children, self.changes.children
        missing = [
            ("child", path) for path in paths if path not in known and path not in changed and not self._is_fresh(path)
        ]
        if missing and not self.state.complete:
            raise Missing(missing)

    def child_id(self, path: str, attempt: int) -> str:
        """The id of the run that an attempt of a subflow node starts."""
        if (path, attempt) not in self.state.child_ids:
            self._guess(("child_id", path, attempt))
            return NO_RUN
        return self.state.child_ids[path, attempt]

    def require_child_ids(self, attempts: Iterable[tuple[str, int]]) -> None:
        """Raise Missing once for all attempts of subflow nodes of which no id is known."""
        missing = [("child_id", *attempt) for attempt in attempts if attempt not in self.state.child_ids]
        if missing:
            raise Missing(missing)

    def deadline(self) -> datetime | None:
        """When the run's deadline passes, while its clock runs; None: it has none."""
        key = ("", "run_deadline", 0)
        if key in self.changes.timers:
            return self.changes.timers[key]
        if not (self.state.complete or self.state.loaded & {("deadline",), ("timers",)}):
            raise Missing([("deadline",)])
        return None if self.changes.all_timers_gone else self.state.timers.get(key)

    def require_attempts(self, attempts: Iterable[tuple[str, int]]) -> None:
        """Raise Missing once for all attempts, by path and number, that were left behind and were not looked for."""
        known = self.state.attempts
        missing = [("attempt", path, number) for path, number in attempts if (path, number) not in known]
        if missing and not self.state.complete:
            raise Missing(missing)

    def payload(self, key: PayloadKey) -> Document:
        """A stored payload."""
        found = self.changes.payloads.get(key) or self.state.payloads.get(key)
        if found is None:
            raise Missing([("payload", *key)])
        return found

    def require_payloads(self, keys: Iterable[PayloadKey]) -> None:
        """Raise Missing once for all payloads that are not here."""
        missing = [key for key in keys if key not in self.changes.payloads and key not in self.state.payloads]
        if missing:
            raise Missing([("payload", *key) for key in missing])

    def require_tasks(self, paths: Iterable[str]) -> None:
        """Raise Missing once for all tasks that were not looked for."""
        if self.state.complete or ("all",) in self.state.loaded:
            return
        tasks = self.state.tasks
        changed = self.changes.tasks
        missing = [path for path in paths if path not in tasks and path not in changed and not self._is_fresh(path)]
        if missing:
            raise Missing([("task", path) for path in missing])

    def require_scopes(self, paths: Iterable[str]) -> None:
        """Raise Missing once for all items and iterations that were not looked for."""
        if self.state.complete:
            return
        known, changed = self.state.scopes, self.changes.scopes
        missing = [path for path in paths if path not in known and path not in changed and not self._is_fresh(path)]
        if missing:
            raise Missing([("scope", path) for path in missing])

    def require_bodies(self, graph: Graph, scopes: Iterable[str]) -> None:
        """Raise Missing once for all that runs in some scopes of one body: tasks, tokens, maps and repeats."""
        if self.state.complete:
            return
        missing: list[Key] = []
        for scope in scopes:
            paths = {name: inside(scope, name) for name in graph.plan.nodes}
            for kind, names, known, changed in (
                ("task", paths, self.state.tasks, self.changes.tasks),
                ("token", graph.gathers, self.state.tokens, self.changes.tokens),
                ("loop", graph.bodies, self.state.loops, self.changes.loops),
                ("child", graph.subflows, self.state.children, self.changes.children),
            ):
                missing += [(kind, paths[n]) for n in names if paths[n] not in known and paths[n] not in changed]
        if missing:
            raise Missing(missing)

    def require_within(self, graph: Graph, scopes: Iterable[str], page: str, most: int) -> None:
        """Raise Missing once for what a page is about in all maps and repeats in some scopes of one body, at any depth.

        Else each of them would ask for its own. `most`: items that are looked at on each level.
        """
        if self.state.complete or most <= 0:
            return
        scopes = list(scopes)
        for name, body in graph.bodies.items():
            rows = (self.loop(inside(scope, name)) for scope in scopes)
            loops = [row.path for row in rows if row is not None and _concerns(page, row)]
            missing = [key for path in loops if (key := (page, path, 0)) not in self.state.pages]
            if missing:
                raise Missing(missing)
            found = [row.path for path in loops for row in self.items(path, page, 0)][:most]
            self.require_bodies(body, found)
            self.require_within(body, found, page, most)

    def loop(self, path: str) -> LoopRow | None:
        """How far a map or repeat is, or None when it never began."""
        found = self.changes.loops.get(path)
        if found is not None:
            return found
        if path in self.state.loops or self.state.complete:
            return self.state.loops.get(path)
        if self._is_fresh(path):
            return None
        raise Missing([("loop", path)])

    def scope(self, path: str) -> ScopeRow | None:
        """An item or iteration, or None when it never began."""
        found = self.changes.scopes.get(path)
        if found is not None:
            return found
        if path in self.state.scopes or self.state.complete:
            return self.state.scopes.get(path)
        if path in self._fresh or self._is_fresh(path):
            return None
        raise Missing([("scope", path)])

    def is_begun(self, scope: str) -> bool:
        """True for an item or iteration that is there. May be guessed."""
        try:
            return self.scope(scope) is not None
        except Missing as missing:
            self._guess(*missing.keys)
            return False

    def items(self, loop: str, page: str, index: int) -> list[ScopeRow]:
        """Items from the index on that the page is about, in order: at most PAGE.

        Some of a page that was loaded may have been dealt with since: then what is behind it is looked at, too.
        """
        rows = {path: row for path, row in self.state.scopes.items() if row is not None and row.loop == loop}
        rows.update((path, row) for path, row in self.changes.scopes.items() if row.loop == loop)
        wanted = (row for row in rows.values() if row.index >= index and is_on(page, row))
        found = sorted(wanted, key=lambda row: row.index)
        first = index
        while not self.state.complete:
            if (page, loop, first) not in self.state.pages:
                self._guess((page, loop, first))
                break
            last = self.state.pages[page, loop, first]
            if last is None or sum(row.index <= last for row in found) >= PAGE:
                break
            first = last + 1
        return found[:PAGE]

    def latest_effect(self, below: int) -> EffectRow | None:
        """The latest, before a place, of what nodes that can be undone did and is not undone yet."""
        known = {**self.state.effects, **self.changes.effects}
        start = LATEST if ("effects", "", LATEST) in self.state.loaded else below
        while True:
            if not (self.state.complete or ("effects", "", start) in self.state.loaded):
                raise Missing([("effects", "", start)])
            page = sorted((place for place in known if place < start), reverse=True)
            page = page if self.state.complete else page[:EFFECTS]
            found = next((effect for place in page if place < below and (effect := known[place]) is not None), None)
            if found is not None or self.state.complete or len(page) < EFFECTS:
                return found
            start = min(below, page[-1])

    def waits(self, name: str) -> Iterator[list[WaitRow]]:
        """Nodes that wait for a signal of that name, by pages, in the order in which they began to."""
        decided = {**self.state.waits, **self.changes.waits}
        after, most = 0, FIRST_WAITS
        while not self.state.complete:
            stored = self.state.stored_waits.get(("waits", name, after))
            if stored is None:
                raise Missing([("waits", name, after)])
            yield [row for row in stored if row.path not in decided]
            if after or len(stored) < most:
                break
            after = stored[-1].place
        fresh = (row for row in decided.values() if row is not None and row.name == name)
        yield sorted(fresh, key=lambda row: row.place)

    def require_around(self, paths: Iterable[str], scope: str) -> None:
        """Raise Missing once for some tasks, and for the scopes, maps and repeats that lie around."""
        if self.state.complete:
            return
        around = scopes_around(scope)
        loops = [loop_of(each)[0] for each in around]
        missing: list[Key] = []
        for kind, names, known, changed in (
            ("task", paths, self.state.tasks, self.changes.tasks),
            ("scope", around, self.state.scopes, self.changes.scopes),
            ("loop", loops, self.state.loops, self.changes.loops),
        ):
            missing += [(kind, name) for name in names if name not in known and name not in changed]
        if missing:
            raise Missing(missing)

    def require_loops(self, paths: Iterable[str]) -> None:
        """Raise Missing once for all maps and repeats that were not looked for."""
        known, changed = self.state.loops, self.changes.loops
        missing = [path for path in paths if path not in known and path not in changed and not self._is_fresh(path)]
        if missing and not self.state.complete:
            raise Missing([("loop", path) for path in missing])

    def results(self, loop: LoopRow) -> Document:
        """What the items of a map gave, as one list in their order; null for those that did not succeed."""
        stored = self.state.results.get(loop.path)
        if stored is None and self.state.complete:
            stored = {}
        if stored is None:
            raise Missing([("results", loop.path)])
        parts = dict(stored)
        for row in (*self.state.scopes.values(), *self.changes.scopes.values()):
            if row is not None and row.loop == loop.path:
                parts[row.index] = b"null" if row.output is None else self.payload(row.output).raw
        return Document(b"[" + b",".join(parts.get(index, b"null") for index in range(loop.results)) + b"]")

    def write_loop(self, path: str) -> LoopRow:
        """A row of a map or repeat, to be changed. It must exist."""
        row = self.changes.loops.get(path)
        if row is None:
            found = self.loop(path)
            if found is None:
                raise LookupError(path)
            row = self.changes.loops[path] = copy_loop(found)
        return row

    def write_scope(self, path: str) -> ScopeRow:
        """A row of an item or iteration, to be changed. It must exist."""
        row = self.changes.scopes.get(path)
        if row is None:
            found = self.scope(path)
            if found is None:
                raise LookupError(path)
            row = self.changes.scopes[path] = copy(found)
        return row

    def untaken(self, name: str) -> list[SignalRow]:
        """Signals of that name that nobody has taken, oldest first."""
        loaded = self.state.signals.get(name)
        if loaded is None:
            if not self.state.complete:
                self._guess(("signals", name))
            loaded = []
        changed = self.changes.signals
        rows = [changed.get(row.seq, row) for row in loaded]
        known = {row.seq for row in loaded}
        rows += [row for row in changed.values() if row.name == name and row.seq not in known]
        return [row for row in rows if row.taken_by is None]

    def require_signals(self, names: Iterable[str]) -> None:
        """Raise Missing once for all names of signals that were not looked for."""
        missing = [("signals", name) for name in names if name not in self.state.signals]
        if missing and not self.state.complete:
            raise Missing(missing)

    def taken(self, path: str) -> list[SignalRow]:
        """Signals that a node has taken, in whichever of its attempts, oldest first."""
        loaded = self.state.taken.get(path)
        if loaded is None:
            if not (self.state.complete or self._is_fresh(path)):
                self._guess(("taken", path))
            loaded = []
        changed = {seq: row for seq, row in self.changes.signals.items() if row.taken_by == path}
        rows = [row for row in loaded if row.seq not in changed]
        return sorted([*rows, *changed.values()], key=lambda row: row.seq)

    def known_timers(self) -> dict[TimerKey, datetime]:
        """Every timer of the run with its due time."""
        if not (self.state.complete or ("timers",) in self.state.loaded):
            raise Missing([("timers",)])
        timers = {**self.state.timers, **self.changes.timers}
        return {key: due_at for key, due_at in timers.items() if due_at is not None}

    def known_tasks(self) -> dict[str, TaskRow]:
        """Every task row that is here."""
        rows = {path: row for path, row in self.state.tasks.items() if row is not None}
        rows.update(self.changes.tasks)
        return rows

    def require(self, whole: str) -> None:
        """Raise Missing unless a whole-run key was loaded."""
        loaded = self.state.loaded
        if not (self.state.complete or ("all",) in loaded or (whole,) in loaded):
            raise Missing([(whole,)])

    def write_run(self) -> RunRow:
        """The run's row, to be changed."""
        row = self.changes.run
        if row is None:
            row = self.changes.run = copy(self.run)
        return row

    def write_task(self, path: str) -> TaskRow:
        """A task's row, to be changed. It must exist."""
        row = self.changes.tasks.get(path)
        if row is None:
            found = self.task(path)
            if found is None:
                raise LookupError(path)
            row = self.changes.tasks[path] = copy(found)
        return row

    def write_token(self, path: str) -> TokenRow:
        """A token row, to be changed or made."""
        row = self.changes.tokens.get(path)
        if row is None:
            found = self.token(path)
            row = self.changes.tokens[path] = copy_token(found) if found else TokenRow(path)
        return row
