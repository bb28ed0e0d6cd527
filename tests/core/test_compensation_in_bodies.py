"""What a run that does not succeed undoes in items and iterations: over the whole run, what completed last first."""

from __future__ import annotations

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core import effort
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.explaining import Scene, explain
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import NodeUndoes
from headway.coordinator.core.state import EFFECTS
from tests.core.flows import workflow
from tests.core.invariants import begin, check_replay, check_what_is_undone
from tests.core.simulator import World
from tests.core.test_effort import COSTLY

SEATS = """
    workflow: seats
    nodes:
      hall: {type: call, handler: h, compensate: no_hall}
      seats:
        type: map
        over: "${input}"
        body:
          nodes:
            book: {type: call, handler: h, compensate: unbook}
            note: {type: call, handler: h}
            unbook:
              type: call
              handler: h
              input: {who: "${item}", place: "${index}", seat: "${nodes.book.output}"}
              retry: {max_attempts: 2, jitter: 0}
          edges: [[book, note]]
      pay: {type: call, handler: h}
      no_hall: {type: call, handler: h}
    edges: [[hall, seats, pay]]
"""


def seated(*order: int) -> World:
    """Every seat is booked, in this order, a second apart; then each item is noted."""
    world = begin(SEATS, [f"guest {place}" for place in range(len(order))])
    world.run_task("hall")
    for place in order:
        world.advance(seconds=1)
        world.run_task(f"seats[{place}].book", f"seat {place}")
    for place in order:
        world.run_task(f"seats[{place}].note")
    return world


def undone(world: World) -> list[str]:
    """Everything is undone, as it comes; which nodes did it."""
    seen: list[str] = []
    while not world.run.is_final:
        (path,) = world.ready()
        seen.append(path)
        world.run_task(path)
    check_what_is_undone(world)
    check_replay(world)
    return seen


def test_items_are_undone_in_the_reverse_order_of_completion_each_with_its_own_item() -> None:
    world = seated(1, 2, 0)

    world.fail_task("pay")

    assert world.ready() == ["seats[0].unbook"]
    assert world.input("seats[0].unbook") == {"who": "guest 0", "place": 0, "seat": "seat 0"}
    assert undone(world) == ["seats[0].unbook", "seats[2].unbook", "seats[1].unbook", "no_hall"]
    assert world.state is RunState.FAILED
    assert world.db.effects == {}


def test_what_undoes_in_an_item_has_retries_of_its_own_and_what_fails_for_good_is_named() -> None:
    world = seated(0, 1)
    world.fail_task("pay", "Broke")

    world.fail_task("seats[1].unbook", final=False)
    assert world.states()["seats[1].unbook"] == "retrying"
    world.fire(world.next_timer())
    world.fail_task("seats[1].unbook")

    assert undone(world) == ["seats[0].unbook", "no_hall"]
    assert world.run.error is not None
    message = "pay: Broke: pay broke; not undone: seats[1].book (seats[1].unbook failed)"
    assert world.run.error["message"] == message
    assert world.run.error["paths"] == ["pay", "seats[1].unbook"]


def test_an_item_that_failed_is_undone_as_far_as_it_came() -> None:
    world = begin(SEATS, ["a", "b"])
    world.run_task("hall")
    world.run_task("seats[0].book")
    world.advance(seconds=1)
    world.run_task("seats[1].book")

    world.fail_task("seats[0].note")  # the other item is stopped

    assert undone(world) == ["seats[1].unbook", "seats[0].unbook", "no_hall"]


def test_a_cancel_inside_a_map_undoes_what_was_done_and_what_nobody_told_of() -> None:
    world = begin(SEATS.replace('seat: "${nodes.book.output}"', "x: 1"), ["a", "b", "c"])
    world.run_task("hall")
    world.run_task("seats[2].book")
    world.lease("seats[0].book")
    world.cancel(grace_ms=1_000)

    world.fire(world.next_timer())

    assert undone(world) == ["seats[0].unbook", "seats[2].unbook", "no_hall"]
    assert world.state is RunState.CANCELLED


def test_a_cancel_without_compensation_breaks_off_what_an_item_is_undoing() -> None:
    world = seated(0, 1)
    world.fail_task("pay")
    world.lease("seats[1].unbook")

    world.cancel(compensate=False, grace_ms=5_000)

    assert world.renew("seats[1].unbook")[1]
    world.fire(world.next_timer())
    assert world.state is RunState.CANCELLED
    assert world.states()["seats[1].unbook"] == "cancelled"
    assert "seats[0].unbook" not in world.states()
    check_replay(world)


def test_a_time_out_of_the_map_does_not_stop_what_undoes_its_items() -> None:
    world = begin(SEATS.replace("type: map", "type: map\n        timeout: 10s"), ["a", "b"])
    world.run_task("hall")
    world.run_task("seats[0].book")

    world.fire(world.next_timer())

    assert undone(world) == ["seats[0].unbook", "no_hall"]


def test_a_pause_holds_what_an_item_is_undoing() -> None:
    world = seated(0)
    world.fail_task("pay")

    world.pause()
    assert world.lease("seats[0].unbook") is Answer.RUN_PAUSED
    world.resume()

    assert undone(world) == ["seats[0].unbook", "no_hall"]


def test_a_retry_does_again_just_what_was_undone_in_each_item_and_it_can_be_undone_again() -> None:
    world = seated(0, 1)
    world.fail_task("pay")
    undone(world)
    before = world.task("seats[0].book").generation

    world.retry("pay")

    world.run_task("hall")
    assert world.ready() == ["seats[0].book", "seats[1].book"]
    for place in (0, 1):
        world.run_task(f"seats[{place}].book", "again")
        world.run_task(f"seats[{place}].note")
    assert world.task("seats[0].book").generation > before
    world.fail_task("pay")
    assert undone(world)[-1] == "no_hall"
    assert world.input("seats[0].unbook") == {"who": "guest 0", "place": 0, "seat": "again"}


def test_a_retry_leaves_alone_what_was_not_undone_in_an_item_and_does_anew_what_may_have_been() -> None:
    world = seated(0, 1)
    world.fail_task("pay")
    world.lease("seats[1].unbook")
    world.cancel(compensate=False, grace_ms=5_000)
    world.fire(world.next_timer())
    assert [effect.path for effect in world.db.effects.values()] == ["hall", "seats[0].book", "seats[1].book"]

    world.retry()

    assert world.ready() == ["seats[1].book"]
    world.run_task("seats[1].book", "again")
    assert world.ready() == ["seats[1].note"]
    world.cancel()
    inputs: list[Json] = []
    while world.ready() != ["no_hall"]:
        (path,) = world.ready()
        inputs.append(world.input(path))
        world.run_task(path)
    assert [given["seat"] for given in inputs if isinstance(given, dict)] == ["again", "seat 1", "seat 0"]
    assert undone(world) == ["no_hall"]
    assert world.db.effects == {}


def test_items_that_nobody_began_to_undo_stay_as_they_are() -> None:
    world = seated(0, 1)
    world.fail_task("pay")
    world.cancel(compensate=False)
    assert not [row.path for row in (world.db.loops["seats"], *world.db.scopes.values()) if row.undone]

    world.retry()

    assert world.ready() == ["pay"]
    world.fail_task("pay")
    assert undone(world) == ["seats[1].unbook", "seats[0].unbook", "no_hall"]
    assert world.db.effects == {}


ROWS = """
    workflow: rows
    nodes:
      rows:
        type: map
        over: [1, 2]
        body:
          nodes:
            aside: {type: call, handler: h}
            seats:
              type: map
              over: [1, 2]
              body: {nodes: {book: {type: call, handler: h, compensate: unbook}, unbook: {type: call, handler: h}}}
      pay: {type: call, handler: h}
    edges: [[rows, pay]]
"""


def test_a_map_that_goes_on_takes_up_the_items_in_which_something_was_undone_however_deep() -> None:
    world = begin(ROWS)
    seats = [f"rows[{row}].seats[{seat}].book" for row in (0, 1) for seat in (0, 1)]
    for path in (*seats, "rows[0].aside", "rows[1].aside"):
        world.run_task(path)
    world.fail_task("pay")
    assert undone(world) == [path.replace("book", "unbook") for path in reversed(seats)]

    opened = world.retry("pay")

    assert (opened.chosen, opened.reset) == (("rows",), ("pay",))
    assert world.ready() == seats
    for path in seats:
        world.run_task(path)
    assert [world.task(f"rows[{row}].aside").attempt for row in (0, 1)] == [1, 1]
    world.run_task("pay")
    assert world.state is RunState.SUCCEEDED
    check_what_is_undone(world)
    check_replay(world)


def test_a_retry_that_succeeds_leaves_everything_done() -> None:
    world = seated(0)
    world.fail_task("pay")
    world.fail_task("seats[0].unbook")
    undone(world)

    world.retry()
    for path in ("hall", "seats[0].book", "seats[0].note", "pay"):
        world.run_task(path)

    assert world.state is RunState.SUCCEEDED
    check_what_is_undone(world)


def test_what_undoes_in_an_item_is_not_retried_by_itself() -> None:
    world = seated(0)
    world.fail_task("pay")
    undone(world)

    with pytest.raises(NodeUndoes, match=r"retry seats\[0\]\.book"):
        world.retry("seats[0].unbook")


REPEAT = """
    workflow: again
    nodes:
      r:
        type: repeat
        max_iterations: 3
        until: "index == 2"
        output: "${nodes.step.output}"
        body:
          nodes:
            step: {type: call, handler: h, compensate: back}
            back: {type: call, handler: h, input: {index: "${index}", before: "${last}", own: "${nodes.step.output}"}}
      after: {type: call, handler: h}
    edges: [[r, after]]
"""


def test_iterations_are_undone_backwards_and_see_what_was_the_last_result_then() -> None:
    world = begin(REPEAT)
    for index in range(3):
        world.run_task(f"r[{index}].step", f"result {index}")

    world.fail_task("after")

    assert undone(world) == ["r[2].back", "r[1].back", "r[0].back"]
    assert world.input("r[2].back") == {"index": 2, "before": "result 1", "own": "result 2"}
    assert world.input("r[0].back") == {"index": 0, "before": None, "own": "result 0"}


def test_a_repeat_of_which_something_was_undone_begins_anew_with_the_run() -> None:
    world = begin(REPEAT)
    for index in range(3):
        world.run_task(f"r[{index}].step")
    world.fail_task("after")
    undone(world)

    world.retry()

    assert world.ready() == ["r[0].step"]
    for index in range(3):
        world.run_task(f"r[{index}].step")
    world.run_task("after")
    assert world.state is RunState.SUCCEEDED
    check_what_is_undone(world)
    check_replay(world)


@pytest.mark.parametrize("items", [10, 300])
def test_each_step_of_undoing_costs_the_same_however_many_items_there_are(items: int) -> None:
    world = World(workflow(SEATS), thorough=False).start(list(range(items)))
    world.run_task("hall")
    while paths := [path for path in world.ready() if path != "pay"]:
        for path in paths:
            world.run_task(path)
    world.fail_task("pay")
    costs: list[int] = []

    while not world.run.is_final:
        (path,) = world.ready()
        world.run_task(path)
        costs.append(world.looked_up)

    assert len(costs) == items + 1
    assert max(costs) <= 30


def test_undoing_that_fails_at_once_goes_on_a_few_at_a_time() -> None:
    broken = SEATS.replace('seat: "${nodes.book.output}"', 'seat: "${nodes.book.output.no}"')
    world = World(workflow(broken), thorough=False).start(list(range(30)))
    world.run_task("hall")
    while paths := [path for path in world.ready() if path != "pay"]:
        for path in paths:
            world.run_task(path, "text")

    world.fail_task("pay")

    assert world.run.open_tasks == 0
    assert len(world.actions(do.LeaveStanding)) == EFFECTS
    while not world.ready():
        assert world.fire(world.next_timer())
    world.run_task("no_hall")
    assert world.run.error is not None
    assert "and 10 more" in str(world.run.error["message"])


def test_what_nobody_knew_of_before_a_retry_is_passed_over_a_few_at_a_time_and_the_run_ends() -> None:
    count = 3 * EFFECTS
    world = begin(SEATS, [*range(count)])
    world.run_task("hall")
    for index in range(count):
        world.lease(f"seats[{index}].book")
    world.cancel(compensate=False)
    while not world.run.is_final:
        world.fire(world.next_timer())
    world.retry()
    assert len(world.db.effects) == count + 1

    world.fail_task("seats[0].book", final=True)

    assert not world.run.is_compensating
    while not world.ready():
        assert world.fire(world.next_timer())
    world.run_task("no_hall")
    assert world.state is RunState.FAILED
    assert not [row.path for row in (world.db.loops["seats"], *world.db.scopes.values()) if row.undone]
    check_what_is_undone(world)
    check_replay(world)


def test_undoing_that_costs_much_goes_on_in_further_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    costly = SEATS.replace("book.output}", "book.output.no}").replace("${index}", f"${{{COSTLY}}}")
    world = World(workflow(costly.replace('"${input}"', '"${input.guests}"')), thorough=False).start(
        {"guests": [1, 2, 3], "l": list(range(50))}
    )
    world.run_task("hall")
    while paths := [path for path in world.ready() if path != "pay"]:
        for path in paths:
            world.run_task(path, "text")
    # Half of what a decision may compute is spent by little.
    monkeypatch.setattr(effort, "DECISION_STEPS", 2 * effort.DECISION_STEPS - 10_000)

    world.fail_task("pay")

    left = [len(world.actions(do.LeaveStanding))]
    while not world.ready():
        assert world.fire(world.next_timer())
        left.append(len(world.actions(do.LeaveStanding)))
    assert left == [1, 1, 1, 0]
    errors = {str((row.error or {})["type"]) for path, row in world.db.tasks.items() if path.endswith("unbook")}
    assert errors == {"ExpressionError"}


def test_what_a_retry_repeated_in_items_is_undone_with_what_it_gave_then() -> None:
    world = seated(0, 1)
    world.run_task("pay")
    world.retry("seats[1].book")
    world.run_task("seats[1].book", "another")
    world.run_task("seats[1].note")

    world.fail_task("pay")

    seats: list[tuple[str, Json]] = []
    while (path := world.ready()[0]) != "no_hall":
        given = world.input(path)
        seats.append((path, given["seat"] if isinstance(given, dict) else None))
        world.run_task(path)
    world.run_task("no_hall")
    assert seats == [
        ("seats[1].unbook", "another"),
        ("seats[1].unbook", "seat 1"),
        ("seats[0].unbook", "seat 0"),
    ]
    assert world.state is RunState.FAILED
    check_what_is_undone(world)
    check_replay(world)


def test_what_undoes_in_an_item_is_told_with_what_it_undoes() -> None:
    world = seated(0)
    world.fail_task("pay")
    tasks = tuple(row for row in world.db.tasks.values() if row.is_open)

    (reason,) = explain(Scene(graph=world.graph, now=world.now, run=world.run, tasks=tasks))

    assert reason.path == "seats[0].unbook"
    assert reason.message.startswith("It undoes seats[0].book. It has waited")


ONE_BY_ONE = SEATS.replace(
    'over: "${input}"', 'over: "${input}"\n        max_concurrency: 1\n        timeout: 1h'
).replace("[[hall, ", "[[")


def test_an_item_that_was_undone_and_not_taken_up_since_is_done_anew_whatever_a_later_retry_starts_from() -> None:
    world = begin(ONE_BY_ONE, ["a", "b"])
    for path in ("hall", "seats[0].book", "seats[0].note", "seats[1].book", "seats[1].note"):
        world.run_task(path)
    world.fail_task("pay")
    assert undone(world) == ["seats[1].unbook", "seats[0].unbook", "no_hall"]
    world.retry()
    world.run_task("hall")
    assert world.fire(world.next_timer())
    assert world.task("seats").state == "failed"
    assert undone(world) == ["no_hall"]

    opened = world.retry("hall")

    assert (opened.chosen, opened.reset) == (("hall", "seats"), ("pay",))
    for path in ("hall", "seats[0].book", "seats[0].note", "seats[1].book", "seats[1].note", "pay"):
        world.run_task(path)
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_an_item_that_was_done_anew_is_not_done_once_more_by_the_next_retry() -> None:
    world = seated(0, 1)
    world.fail_task("pay")
    undone(world)
    world.retry()
    for path in ("hall", "seats[0].book", "seats[0].note", "seats[1].book"):
        world.run_task(path)
    world.lease("seats[1].note")
    world.cancel(compensate=False)
    world.stopped("seats[1].note")
    assert world.state is RunState.CANCELLED

    world.retry()

    assert world.ready() == ["seats[1].note"]
    check_replay(world)
