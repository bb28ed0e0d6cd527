"""The tables of one run in memory: what a decision asks for is read from them, and what it changed is saved in them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import Decision
from headway.coordinator.core.document import Document
from headway.coordinator.core.missing import Key
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
)
from headway.coordinator.core.state import EFFECTS, FIRST_WAITS, PAGE, State, TimerKey, is_on
from headway.coordinator.zones import instant_of

T = TypeVar("T")


@dataclass(slots=True)
class Tables:
    """The rows of one run."""

    run: RunRow | None = None
    tasks: dict[str, TaskRow] = field(default_factory=dict[str, TaskRow])
    tokens: dict[str, TokenRow] = field(default_factory=dict[str, TokenRow])
    payloads: dict[PayloadKey, Document] = field(default_factory=dict[PayloadKey, Document])
    signals: dict[int, SignalRow] = field(default_factory=dict[int, SignalRow])
    attempts: dict[tuple[str, int], AttemptRow] = field(default_factory=dict[tuple[str, int], AttemptRow])
    beats: dict[str, BeatRow] = field(default_factory=dict[str, BeatRow])
    timers: dict[TimerKey, datetime] = field(default_factory=dict[TimerKey, datetime])
    loops: dict[str, LoopRow] = field(default_factory=dict[str, LoopRow])
    effects: dict[int, EffectRow] = field(default_factory=dict[int, EffectRow])
    waits: dict[str, WaitRow] = field(default_factory=dict[str, WaitRow])
    scopes: dict[str, ScopeRow] = field(default_factory=dict[str, ScopeRow])
    children: dict[str, ChildRow] = field(default_factory=dict[str, ChildRow])

    # --- reading

    def fill(self, state: State) -> None:
        """Give a state every row that there is."""
        state.complete = True
        state.tasks.update(copied(self.tasks))
        state.tokens.update(copied(self.tokens))
        state.payloads.update(self.payloads)
        state.attempts.update(self.attempts)
        state.beats.update(self.beats)
        for path in self.tasks:
            state.taken[path] = [copy.copy(row) for row in self._taken(path)]
        state.timers.update(self.timers)
        state.loops.update(copied(self.loops))
        state.effects.update(self.effects)
        state.waits.update(self.waits)
        state.scopes.update(copied(self.scopes))
        state.children.update(copied(self.children))
        state.results.update({path: self.results_of(path) for path in self.loops})
        for row in self._untaken():
            state.signals.setdefault(row.name, []).append(copy.copy(row))

    def _taken(self, path: str) -> list[SignalRow]:
        return [row for _, row in sorted(self.signals.items()) if row.taken_by == path]

    def _untaken(self) -> list[SignalRow]:
        return [row for _, row in sorted(self.signals.items()) if row.taken_by is None]

    def results_of(self, loop: str) -> dict[int, bytes]:
        """What the items of a map gave, by their index."""
        rows = [row for row in self.scopes.values() if row.loop == loop and row.output is not None]
        return {row.index: self.payloads[row.output].raw for row in rows if row.output is not None}

    def load(self, state: State, keys: Iterable[Key]) -> int:
        """Give a state what is asked for, and nothing else, never over what it holds; how many rows were looked for."""
        looked_up = 0
        for key in sorted(keys, key=str):
            looked_up += 1
            if len(key) == 1:
                looked_up += self._load_whole(state, str(key[0]))
                continue
            match key:
                case ("task", path):
                    state.tasks.setdefault(path, copied(self.tasks.get(path)))
                case ("token", path):
                    state.tokens.setdefault(path, copied(self.tokens.get(path)))
                case ("payload", path, int(attempt), str(role)):
                    if (path, attempt, role) in self.payloads:
                        state.payloads[path, attempt, role] = self.payloads[path, attempt, role]
                case ("attempt", path, int(number)):
                    state.attempts.setdefault((path, number), self.attempts.get((path, number)))
                case ("instant", local, zone):
                    state.instants[local, str(zone)] = instant_of(local, str(zone))
                case ("beat", path):
                    state.beats.setdefault(path, self.beats.get(path))
                case ("taken", path):
                    state.taken.setdefault(path, [copy.copy(row) for row in self._taken(path)])
                case ("signals", name):
                    rows = [copy.copy(row) for row in self._untaken() if row.name == name]
                    state.signals.setdefault(name, rows)
                case _:
                    looked_up += self._load_of_loops(state, key)
        return looked_up

    def _load_of_loops(self, state: State, key: Key) -> int:
        looked_up = 0
        match key:
            case ("child", path):
                state.children.setdefault(path, copied(self.children.get(path)))
            case ("child_id", path, int(attempt)):
                state.child_ids[path, attempt] = child_of(path, attempt)
            case ("loop", path):
                state.loops.setdefault(path, copied(self.loops.get(path)))
            case ("scope", path):
                state.scopes.setdefault(path, copied(self.scopes.get(path)))
            case ("results", path):
                state.results.setdefault(path, self.results_of(path))
                looked_up += len(state.results[path])
            case ("effects", _, int(below)):
                for place in sorted((each for each in self.effects if each < below), reverse=True)[:EFFECTS]:
                    looked_up += 1
                    state.effects.setdefault(place, self.effects[place])
                state.loaded.add(key)
            case ("waits", name, int(after)):
                waiting = [row for row in self.waits.values() if row.name == name and row.place > after]
                waiting = sorted(waiting, key=lambda row: row.place)[: None if after else FIRST_WAITS]
                looked_up += len(waiting)
                state.stored_waits.setdefault(key, waiting)
            case (("running" | "stopped" | "unfinished") as page, path, int(first)):
                rows = [row for row in self.scopes.values() if row.loop == path and row.index >= first]
                wanted = sorted((row for row in rows if is_on(page, row)), key=lambda row: row.index)[:PAGE]
                looked_up += len(wanted)
                for row in wanted:
                    state.scopes.setdefault(row.path, copied(row))
                state.pages[key] = wanted[-1].index if len(wanted) == PAGE else None
            case _:
                raise AssertionError(f"no such key: {key}")
        return looked_up

    def _load_whole(self, state: State, whole: str) -> int:
        if whole in ("timers", "deadline"):
            for key, due_at in self.timers.items():
                state.timers.setdefault(key, due_at)
            state.loaded.add((whole,))
            return 0
        asked: dict[str, Callable[[TaskRow], bool]] = {
            "open": lambda row: row.is_open,
            "unhandled": lambda row: row.disposition == "unhandled",
            "all": lambda row: True,
        }
        for path, row in self.tasks.items():
            if asked[whole](row) and state.tasks.get(path) is None:
                state.tasks[path] = copied(row)
        if whole == "all":
            for path, token in self.tokens.items():
                if state.tokens.get(path) is None:
                    state.tokens[path] = copied(token)
        state.loaded.add((whole,))
        return sum(map(asked[whole], self.tasks.values()))

    # --- writing

    def save(self, decision: Decision) -> None:
        """Write what a decision changed, as the shell does."""
        db, changes = self, decision.changes
        assert changes.run is not None
        assert changes.run.seq == (db.run.seq if db.run else 0) + 1
        db.run = copied(changes.run)
        for path, row in changes.tasks.items():
            before = db.tasks.get(path)
            left = [
                action
                for action in decision.actions
                if isinstance(action, do.ScheduleRetry | do.ReapLease | do.RedoTask) and action.path == path
            ]
            assert row.attempt == len(left) + (1 if before is None else before.attempt), "an attempt grew by itself"
            db.tasks[path] = copied(row)
        db.tokens.update(copied(changes.tokens))
        db.loops.update(copied(changes.loops))
        for place, effect in changes.effects.items():
            if effect is None:
                db.effects.pop(place, None)
            else:
                known = db.effects.get(place, effect)
                assert (known.path, known.attempt) == (effect.path, effect.attempt), "two effects in one place"
                db.effects[place] = effect
        self._save_waits(changes.waits)
        db.scopes.update(copied(changes.scopes))
        db.children.update(copied(changes.children))
        assert not changes.payloads.keys() & db.payloads.keys(), "a payload is written a second time"
        db.payloads.update(changes.payloads)
        for left in changes.attempts:
            assert (left.path, left.attempt) not in db.attempts, "an attempt is left a second time"
            db.attempts[left.path, left.attempt] = left
        db.signals.update({seq: copy.copy(row) for seq, row in changes.signals.items()})
        if changes.all_timers_gone:
            db.timers.clear()
        for key, due_at in changes.timers.items():
            if due_at is None:
                db.timers.pop(key, None)
            else:
                db.timers[key] = due_at
        for scope, paths in changes.dropped.items():
            self._drop(scope, {scope, *paths})

    def _save_waits(self, waits: Mapping[str, WaitRow | None]) -> None:
        for path, wait in waits.items():
            if wait is None:
                self.waits.pop(path, None)
            else:
                assert path not in self.waits, "it waits for two signals"
                self.waits[path] = wait

    def _drop(self, scope: str, gone: set[str]) -> None:
        db = self
        db.scopes.pop(scope, None)  # it may have begun and ended in this decision
        db.children = {path: row for path, row in db.children.items() if path not in gone}
        db.tasks = {path: row for path, row in db.tasks.items() if path not in gone}
        db.tokens = {path: row for path, row in db.tokens.items() if path not in gone}
        db.payloads = {key: data for key, data in db.payloads.items() if key[0] not in gone}
        db.attempts = {key: left for key, left in db.attempts.items() if key[0] not in gone}


def child_of(path: str, attempt: int) -> str:
    """The id of the run that an attempt of a subflow node starts."""
    return f"{path}/{attempt}".encode().hex().ljust(32, "0")[-32:]


def copied(value: T) -> T:
    """A deep copy; many times faster than copy.deepcopy, on which the simulator would spend most of its time."""
    again: T = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - our own rows
    return again
