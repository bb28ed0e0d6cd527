"""Ways to play a random run from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.core import invariants
from tests.core.generated import INPUT, Choices
from tests.core.oracle import check_against_the_rules, check_the_outcome
from tests.core.plays import Player
from tests.core.simulator import World


def begin(world: World) -> World:
    """Start it; from now on everything is looked at after every step."""
    world.watchers.append(invariants.check)
    return world.start(INPUT)


def look_at_the_end(world: World) -> None:
    """What holds for every run that has ended."""
    assert world.run.is_final
    check_the_outcome(world)
    invariants.check_what_is_undone(world)
    invariants.check_the_order_of_undoing(world)
    invariants.check_finally(world)
    invariants.check_replay(world)
    if not invariants.was_stopped(world):
        invariants.check_every_edge_has_its_token(world)
        check_against_the_rules(world)
    elif not (world.run.cancelling or world.run.expired or world.run.finish_path):
        invariants.check_always_edges_were_followed(world)


def anything(world: World, choices: Choices) -> None:
    """Workers, losses, stale messages, timers, signals and users in any order; then to the end."""
    player = Player(world, choices)
    for _ in range(choices.whole(0, 40)):
        player.play()
    invariants.check_replay(world)
    player.finish()
    look_at_the_end(world)


def over_and_over(world: World, choices: Choices) -> None:
    """A run that is retried, or helped over a node that failed, whenever it has ended."""
    player = Player(world, choices)
    for _ in range(choices.whole(0, 20)):
        player.play()
    player.finish()
    for _ in range(3):
        skipped = choices.of((True, False, False)) and player.skip_one_that_failed()
        if not skipped and not player.retry():
            break
        invariants.check_replay(world)
        for _ in range(choices.whole(0, 10)):
            player.play()
        player.finish()
        look_at_the_end(world)


def calm_and_over(world: World, choices: Choices) -> None:
    """Nothing but work and retries: the run is never cut short, so the rules alone say how it ends."""
    player = Player(world, choices, calm=True)
    player.finish()
    look_at_the_end(world)
    for _ in range(3):
        if not player.retry():
            break
        player.finish()
        look_at_the_end(world)


SCENARIOS: Mapping[str, Callable[[World, Choices], None]] = {
    "anything": anything,
    "over_and_over": over_and_over,
    "calm_and_over": calm_and_over,
}
SIMPLE = ("calm_and_over",)  # played on workflows that nothing in them stops
