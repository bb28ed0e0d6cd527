"""Finished runs to be retried."""

from __future__ import annotations

from tests.core.invariants import begin
from tests.core.simulator import World

ORDER = """
    nodes:
      a: {type: call, handler: a, input: "${input}"}
      left: {type: call, handler: a, input: "${nodes.a.output}"}
      right: {type: call, handler: a}
      both: {type: join}
      last: {type: call, handler: a, input: "${nodes.both.output}"}
    edges:
      - [a, left, both, last]
      - [a, right, both]
"""
TWO_STEPS = """
    nodes:
      a: {type: call, handler: a}
      b: {type: call, handler: a, input: "${nodes.a.output}"}
    edges:
      - [a, b]
"""


def finished(text: str = ORDER) -> World:
    """A run whose tasks all succeeded."""
    world = begin(text, {"x": 1})
    while ready := world.ready():
        world.run_task(ready[0], {"from": ready[0]})
    assert world.run.is_final
    return world
