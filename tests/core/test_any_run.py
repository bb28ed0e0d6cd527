"""Any run: random workflows, played at random. After every step everything that may never break is looked at."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway.coordinator.core import decide, state
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.compiler.faults import Code
from headway.coordinator.core.decide import _loops, _taking_up
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from tests.core import invariants, tables
from tests.core.generated import MOST_NODES, Drawn, Seeded, workflow, workflows
from tests.core.plays import Player
from tests.core.scenarios import SCENARIOS, SIMPLE, begin, look_at_the_end
from tests.core.simulator import World
from tests.core.spelling import spell

# The same examples every time, so that nobody's change fails on another one's luck; HEADWAY_MORE=20 for twenty times as
# many. `python -m tests.core.fuzz 50000` makes very many more, by seed.
MORE = int(os.environ.get("HEADWAY_MORE", "1"))
MANY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("name", SCENARIOS)
@settings(MANY, max_examples=120 * MORE)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_nothing_breaks_and_the_run_ends(name: str, seed: int) -> None:
    choices = Seeded(seed)
    world = World(workflow(choices, simple=name in SIMPLE))

    SCENARIOS[name](begin(world), choices)


@pytest.mark.parametrize("name", SCENARIOS)
@settings(MANY, max_examples=60 * MORE)
@given(seed=st.integers(0, 2**32))
def test_so_it_is_with_maps_and_repeats_in_one_another(name: str, seed: int) -> None:
    choices = Seeded(seed)
    world = World(workflow(choices, simple=name in SIMPLE, most_nodes=3, loops=1))

    SCENARIOS[name](begin(world), choices)


@pytest.mark.parametrize("name", SCENARIOS)
@settings(MANY, max_examples=30 * MORE)
@given(seed=st.integers(0, 2**32))
def test_so_it_is_where_a_decision_has_no_room_for_all_items(name: str, seed: int) -> None:
    choices = Seeded(seed)
    world = World(workflow(choices, simple=name in SIMPLE, most_nodes=4, loops=1))

    with pytest.MonkeyPatch.context() as patch:
        for module in (state, decide, _loops, _taking_up, tables):
            patch.setattr(module, "PAGE", 2)
        SCENARIOS[name](begin(world), choices)


# What a run survives and an author is told of all the same.
TOLD_OF = {Code.MAY_BE_MISSING, Code.JOIN_OUT_OF_REACH}


@pytest.mark.parametrize(("most_nodes", "loops"), [(MOST_NODES, 0), (3, 1)])
def test_what_is_played_is_what_the_compiler_takes(most_nodes: int, loops: int) -> None:
    sound = 0
    for seed in range(30 * MORE):
        written = spell(workflow(Seeded(seed), most_nodes=most_nodes, loops=loops).plan)

        faults = {fault.code for fault in compile_workflow(written).faults if not fault.warning}

        assert faults <= TOLD_OF, f"{faults - TOLD_OF} in {written}"
        sound += not faults
    assert sound >= 20 * MORE


class AnyRun(RuleBasedStateMachine):
    """Hypothesis chooses what happens next, and makes what fails smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.retries = 0

    @initialize(graph=workflows())
    def start(self, graph: Graph) -> None:
        self.world = begin(World(graph))

    def player(self, data: st.DataObject) -> Player:
        assert self.world is not None
        return Player(self.world, Drawn(data.draw))

    def has_children(self) -> bool:
        """True when a subflow node has started a run."""
        return self.world is not None and bool(self.world.db.children)

    def beating(self) -> list[str]:
        """What the worker holds that tells of itself."""
        if self.world is None:
            return []
        return [path for path in self.world.running() if self.world.task(path).owner == "worker"]

    @rule(data=st.data(), milliseconds=st.sampled_from([0, 1, 300]), share=st.booleans())
    def a_worker_asks_for_work(self, data: st.DataObject, milliseconds: int, share: bool) -> None:  # noqa: FBT001
        player = self.player(data)
        player.world.advance(milliseconds=milliseconds)
        player.world.share = share
        player.lease()

    @precondition(lambda self: self.world is not None and self.world.running())
    @rule(data=st.data())
    def the_holder_reports(self, data: st.DataObject) -> None:
        self.player(data).report()

    @precondition(lambda self: self.world is not None and self.world.running())
    @rule(data=st.data())
    def a_worker_dies(self, data: st.DataObject) -> None:
        self.player(data).lose()

    @rule(data=st.data())
    def somebody_reports_what_is_not_his(self, data: st.DataObject) -> None:
        self.player(data).stale_report()

    @precondition(lambda self: self.world is not None and self.world.running())
    @rule(data=st.data())
    def a_message_comes_twice_or_a_lease_is_renewed(self, data: st.DataObject) -> None:
        player = self.player(data)
        player.lease_again()
        player.renew()
        player.early_reaper()

    @precondition(lambda self: self.world is not None and self.world.db.timers)
    @rule(data=st.data())
    def a_timer_comes_due(self, data: st.DataObject) -> None:
        self.player(data).timer()

    @precondition(lambda self: self.world is not None and self.has_children())
    @rule(data=st.data())
    def a_run_that_was_started_ends(self, data: st.DataObject) -> None:
        self.player(data).child()

    @precondition(lambda self: self.world is not None and self.beating())
    @rule(data=st.data(), progress=st.booleans())
    def a_handler_gives_a_sign_of_life(self, data: st.DataObject, progress: bool) -> None:  # noqa: FBT001
        player = self.player(data)
        player.world.beat(player.chance.of(self.beating()), progress=progress)

    @precondition(lambda self: self.world is not None and not self.world.run.is_paused)
    @rule(data=st.data())
    def somebody_pauses(self, data: st.DataObject) -> None:
        self.player(data).pause()

    @precondition(lambda self: self.world is not None and self.world.run.is_paused)
    @rule(data=st.data())
    def somebody_resumes(self, data: st.DataObject) -> None:
        self.player(data).resume()

    @precondition(lambda self: self.world is not None and self.world.run.is_paused)
    @rule(data=st.data())
    def somebody_skips_a_node(self, data: st.DataObject) -> None:
        self.player(data).skip()

    @precondition(lambda self: self.world is not None and self.world.state is RunState.FAILED and self.retries < 3)
    @rule(data=st.data())
    def somebody_helps_over_what_failed(self, data: st.DataObject) -> None:
        self.retries += self.player(data).skip_one_that_failed()

    @rule(data=st.data())
    def somebody_signals(self, data: st.DataObject) -> None:
        self.player(data).signal()

    @rule(data=st.data())
    def somebody_cancels(self, data: st.DataObject) -> None:
        self.player(data).cancel()

    @precondition(lambda self: self.world is not None and self.world.run.is_final and self.retries < 3)
    @rule(data=st.data())
    def somebody_retries(self, data: st.DataObject) -> None:
        self.retries += self.player(data).retry()

    @invariant()
    def the_history_gives_the_rows(self) -> None:
        if self.world is not None:
            invariants.check_replay(self.world)

    def teardown(self) -> None:
        """No run hangs: driven on, it ends."""
        if self.world is not None and self.world.history:
            Player(self.world, Seeded(0)).finish()
            look_at_the_end(self.world)


AnyRun.TestCase.settings = settings(MANY, max_examples=60 * MORE, stateful_step_count=30)
TestAnyRun = AnyRun.TestCase
