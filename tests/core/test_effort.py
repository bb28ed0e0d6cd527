"""What one decision may compute is limited: whoever asks for more fails, and nobody else waits for it."""

from __future__ import annotations

import time

from headway.coordinator.core.effort import DECISION_STEPS
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from tests.core.flows import workflow
from tests.core.simulator import World

COSTLY = "size(input.l.map(x, size(input.l.filter(y, y > x))))"
MOST_SECONDS = 12.0  # on a busy machine; without a limit it is half a minute on an idle one


def chain(length: int, expression: str = COSTLY) -> Graph:
    nodes = "".join(f"  s{n}: {{type: set, values: {{v{n}: '${{{expression}}}'}}}}\n" for n in range(length))
    names = ", ".join(["w", *(f"s{n}" for n in range(length))])
    return workflow(f"nodes:\n  w: {{type: wait, duration: 1s}}\n{nodes}edges:\n  - [{names}]\n")


def run_chain(length: int, expression: str = COSTLY, given: Json = None) -> World:
    world = World(chain(length, expression), thorough=False).start(given)
    world.advance(seconds=1)
    world.fire(world.next_timer())
    return world


def test_a_node_that_asks_for_more_than_a_decision_may_compute_fails_and_says_what_helps() -> None:
    began = time.process_time()
    world = run_chain(1_900, given={"l": list(range(99))})

    assert time.process_time() - began < MOST_SECONDS
    assert world.state is RunState.FAILED
    failed = [row for row in world.db.tasks.values() if row.state == "failed"]
    assert [(row.error or {})["type"] for row in failed] == ["DecisionTooLarge"]
    message = str((failed[0].error or {})["message"])
    assert f"{DECISION_STEPS:,} steps" in message
    assert "put a `wait`" in message


def test_it_fails_at_the_same_node_every_time() -> None:
    ends = [run_chain(100, given={"l": list(range(99))}).states() for _ in range(2)]

    assert "failed" in ends[0].values()
    assert ends[0] == ends[1]
