"""The history: gap-free, complete, and enough to rebuild every row without deciding anything again."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import msgspec
import orjson
import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core import events
from headway.coordinator.core.document import NULL
from headway.coordinator.core.machines import IllegalTransition
from headway.coordinator.core.records import UnknownRecord, decode_actions, encode_actions, event_types, readable
from headway.coordinator.core.replay import HistoryBroken, replay
from headway.coordinator.core.rows import Parent
from tests.core import invariants
from tests.core.flows import workflow
from tests.core.generated import Seeded
from tests.core.generated import workflow as generate
from tests.core.scenarios import anything
from tests.core.simulator import EPOCH, Entry, World


def played() -> World:
    world = World(
        workflow("""
            nodes:
              a: {type: call, handler: a, retry: {max_attempts: 2}, timeout: {queue: 1h}}
              b: {type: call, handler: a}
              c: {type: join}
            edges:
              - [a, c]
              - [b, c]
        """)
    ).start({"secret": "of the customer"})
    world.fail_task("a", final=False)
    world.next_timer()
    assert world.fire(("a", "retry", 2))
    world.run_task("b", {"large": "output"})
    world.run_task("a")
    return world


# Not in every handful of random runs.
RARE: tuple[do.Action, ...] = (
    do.CountFailure(path="a"),
    do.ExcuseFailure(path="a"),
    do.ReopenRun(opening="retry", chosen=("a",), reset=("b",), kept=()),
    do.RedoTask(path="a", generation=2),
    do.EraseTokens(path="a", slots=(0, 2)),
    do.PostponeTask(path="a", due_at=EPOCH),
    do.ResetVariables(values={"n": [1, None]}),
    do.LabelRun(labels={"customer": "42"}),
    do.AdoptRun(parent=Parent(run_id="f" * 32, path="a", attempt=2, place="run:a", attempts=(2,), detached=True)),
    do.StopChild(path="a", attempt=2, cause="failure"),
    do.SetGeneration(path="a", generation=3),
    do.ReopenLoop(path="a", started=4, redo_from=0, redo_failed=True, redo_chosen=2),
    do.ReopenScope(path="a[1]"),
    do.FailScope(path="a[1]"),
    do.DropScope(path="a[1]", paths=("a[1].b", "a[1].c")),
    do.StopTask(path="a", cause="beaten"),
    do.TakeEffect(place=1 << 61, path="a", undone=True),
    do.BeginUndoing(place=1 << 61, path="a", attempt=2, gave="output"),
    do.DoubtUndoing(path="a"),
)


def test_every_action_comes_back_as_it_was_but_for_payloads() -> None:
    seen: set[type] = set()
    for seed in range(60):
        choices = Seeded(seed)
        world = World(generate(choices, loops=seed % 2), thorough=False).start({"n": 1, "list": []})
        anything(world, choices)
        for entry in world.history:
            for action, again in zip(entry.given, decode_actions(entry.actions), strict=True):
                seen.add(type(action))
                assert again == _without_payload(action)

    assert seen >= set(get_args(do.Action)) - {type(action) for action in RARE}


@pytest.mark.parametrize(
    "action", [*RARE, do.SetToken(path="a", slot=1, token="failed", always=False, names=(("b", None), ("c", 3)))]
)
def test_so_do_the_rare_ones(action: do.Action) -> None:
    assert decode_actions(encode_actions([action])) == [action]


def _named(entry: Entry) -> bytes:
    return readable(type(entry.event).__name__, entry.encoded_event, entry.actions)[0]


def _without_payload(action: do.Action) -> do.Action:
    if isinstance(action, do.HandOver):
        return msgspec.structs.replace(action, body=NULL)
    if isinstance(action, do.StorePayload):
        return msgspec.structs.replace(action, data=NULL)
    return msgspec.structs.replace(action, payload=NULL) if isinstance(action, do.BufferSignal) else action


def test_payloads_are_recorded_by_their_size_only() -> None:
    world = played()

    recorded = b"".join(entry.actions + entry.encoded_event for entry in world.history)

    assert b"customer" not in recorded
    assert b"large" not in recorded
    assert orjson.loads(_named(world.history[0]))["input"] == {"size": 28}


def test_every_event_says_all_that_is_not_in_a_column() -> None:
    kept_elsewhere = {"at", "chance", "path", "attempt", "owner", "labels", "parent", "deadline_at", "is_cancelled"}
    world = played()

    for entry in world.history:
        names = set(entry.event.__struct_fields__) - kept_elsewhere
        assert set(orjson.loads(_named(entry))) == names
    assert set(event_types()) == {cls.__name__ for cls in get_args(events.RunEvent)}


def test_a_gap_is_noticed() -> None:
    history = invariants.recorded(played())
    del history[2]

    with pytest.raises(HistoryBroken, match="a gap at 3"):
        replay(workflow("nodes: {a: {type: call, handler: a}}"), history, lambda _seq, _action: NULL)


def test_an_action_that_does_not_fit_the_rows_before_it_is_noticed() -> None:
    world = played()
    history = invariants.recorded(world)
    history[3] = replace(history[3], actions=history[4].actions)

    with pytest.raises(IllegalTransition):
        replay(world.graph, history, lambda _seq, _action: NULL)


def test_a_history_that_a_newer_version_wrote_is_not_misread() -> None:
    with pytest.raises(UnknownRecord, match="999"):
        decode_actions(msgspec.msgpack.encode([[999]]))


def test_a_replay_never_looks_at_the_plan() -> None:
    """The plan of another workflow does as well: replay decides nothing."""
    world = played()
    other = workflow("nodes: {z: {type: call, handler: a}}")

    state = replay(other, invariants.recorded(world), lambda _seq, _action: NULL)

    assert state.run == world.run
