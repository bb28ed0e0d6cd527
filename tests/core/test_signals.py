"""Signals: buffered from the run's start until a node takes them; one consumer each."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from tests.core.invariants import begin
from tests.core.simulator import EPOCH

WAITS = """
    nodes:
      first: {type: call, handler: a}
      one: {type: wait_for_event, event: paid, timeout: 1h}
      two: {type: wait_for_event, event: paid}
      other: {type: wait_for_event, event: approval}
      late: {type: call, handler: a}
    edges:
      - [first, two]
      - {from: one, to: late, on: timeout}
"""


def test_a_signal_sent_before_the_wait_begins_is_not_lost() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          pay: {type: wait_for_event, event: paid, timeout: 1h}
        edges:
          - [first, pay]
    """)
    world.signal("paid", {"amount": 7})

    world.run_task("first")

    assert world.output("pay") == {"amount": 7}
    assert world.state is RunState.SUCCEEDED


def test_however_many_nodes_begin_to_wait_they_ask_for_their_signals_at_once() -> None:
    waits = [f"w{number}" for number in range(30)]
    world = begin(
        "\n".join(
            [
                "nodes:",
                "  first: {type: call, handler: a}",
                *(f'  {name}: {{type: wait_for_event, event: "{name}-${{input}}"}}' for name in waits),
                "edges:",
                *(f"  - [first, {name}]" for name in waits),
            ]
        ),
        7,
    )
    world.signal("w3-7", "kept")

    world.run_task("first")

    assert world.questions <= 5
    assert world.output("w3") == "kept"
    assert world.waiting() == sorted(set(waits) - {"w3"})


def test_the_oldest_wait_of_that_name_takes_it_and_no_other() -> None:
    world = begin(WAITS)
    world.advance(seconds=1)
    world.run_task("first")

    world.signal("paid", 1)

    assert world.states() == {"first": "succeeded", "one": "succeeded", "two": "waiting", "other": "waiting"}
    assert [row.taken_by for row in world.db.signals.values()] == ["one"]
    assert ("one", "event_timeout", 1) not in world.db.timers
    world.signal("paid", 2)
    assert world.output("two") == 2


def test_the_wait_that_began_first_takes_it_though_it_is_written_later() -> None:
    world = begin("""
        nodes:
          before: {type: call, handler: a}
          approved: {type: wait_for_event, event: paid}
          paid_at_last: {type: wait_for_event, event: paid}
        edges: [[before, approved]]
    """)
    world.advance(seconds=1)
    world.run_task("before")

    world.signal("paid", 1)

    assert world.waiting() == ["approved"]
    assert world.output("paid_at_last") == 1


def test_a_second_signal_does_not_overwrite_the_first() -> None:
    world = begin(WAITS)

    for n in (1, 2, 3):
        world.signal("paid", n)
    world.run_task("first")

    assert (world.output("one"), world.output("two")) == (1, 2)
    assert [(row.payload.value, row.taken_by) for row in world.db.signals.values()] == [
        (1, "one"),
        (2, "two"),
        (3, None),
    ]


def test_two_waits_that_begin_at_once_share_what_was_buffered_one_each() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          one: {type: wait_for_event, event: paid}
          two: {type: wait_for_event, event: paid}
        edges:
          - [first, one]
          - [first, two]
    """)
    world.signal("paid", 1)

    world.run_task("first")

    assert world.output("one") == 1
    assert world.states()["two"] == "waiting"


def test_a_wait_that_nobody_answers_times_out() -> None:
    world = begin(WAITS)

    assert world.next_timer() == ("one", "event_timeout", 1)
    assert world.fire(("one", "event_timeout", 1))

    assert world.states()["one"] == "failed"
    assert world.states()["late"] == "ready"
    world.run_task("first")
    world.signal("paid", 1)
    assert world.output("two") == 1


def test_a_signal_that_nobody_waits_for_is_kept_without_a_word() -> None:
    world = begin(WAITS)

    world.signal("unheard-of")

    assert [row.taken_by for row in world.db.signals.values()] == [None]
    assert world.run.seq == 2


def test_a_wait_that_is_redone_waits_for_another_signal() -> None:
    world = begin("""
        nodes:
          pay: {type: wait_for_event, event: paid}
          use: {type: call, handler: a, input: "${nodes.pay.output}"}
        edges:
          - [pay, use]
    """)
    world.signal("paid", 1)
    world.run_task("use")

    world.retry("pay")

    assert world.states() == {"pay": "waiting", "use": "pending"}
    world.signal("paid", 2)
    assert world.input("use") == 2


# Which signals fit, and how many.


def test_a_signal_goes_to_the_oldest_wait_that_it_fits_and_stays_when_it_fits_none() -> None:
    world = begin(
        """
        nodes:
          big: {type: wait_for_event, event: paid, filter: "payload.amount >= input.limit"}
          euros: {type: wait_for_event, event: paid, filter: "payload.currency == 'EUR'"}
    """,
        {"limit": 100},
    )

    world.signal("paid", {"amount": 5, "currency": "EUR"})
    world.signal("paid", {"amount": 7, "currency": "USD"})
    assert world.states() == {"big": "waiting", "euros": "succeeded"}
    world.signal("paid", "no map at all")
    world.signal("paid", {"amount": 500})

    assert world.output("big") == {"amount": 500}
    assert world.output("euros") == {"amount": 5, "currency": "EUR"}
    assert [row.taken_by for row in world.db.signals.values()] == ["euros", None, None, "big"]
    assert world.state is RunState.SUCCEEDED


def test_a_signal_that_was_kept_is_taken_by_a_later_wait_that_it_fits() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          pay: {type: wait_for_event, event: paid, payload_schema: {type: object, required: [amount]}}
        edges: [[first, pay]]
    """)
    world.signal("paid", {"sum": 1})
    world.signal("paid", {"amount": 2})

    world.run_task("first")

    assert world.output("pay") == {"amount": 2}


COUNTED = """
    nodes:
      first: {type: call, handler: a}
      documents: {type: wait_for_event, event: document, count: 3, timeout: 1h}
      one: {type: wait_for_event, event: document}
      late: {type: call, handler: a}
    edges:
      - [first, one]
      - {from: documents, on: timeout, to: late}
"""


def test_a_wait_for_several_takes_them_as_they_come_and_gives_them_out_in_their_order() -> None:
    world = begin(COUNTED)
    world.signal("document", "a")
    world.signal("document", "b")
    world.advance(seconds=1)
    world.run_task("first")
    assert world.states()["documents"] == "waiting"

    world.signal("document", "c")
    world.signal("document", "d")

    assert world.output("documents") == ["a", "b", "c"]
    assert world.output("one") == "d"
    assert ("documents", "event_timeout", 1) not in world.db.timers


def test_a_wait_for_several_that_did_not_come_times_out() -> None:
    world = begin(COUNTED)
    world.signal("document", "a")

    assert world.fire(world.next_timer())

    assert world.states()["documents"] == "failed"
    assert world.states()["late"] == "ready"


def test_several_that_were_kept_are_taken_at_once() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          documents: {type: wait_for_event, event: document, count: 2}
        edges: [[first, documents]]
    """)
    for n in range(3):
        world.signal("document", n)

    world.run_task("first")

    assert world.output("documents") == [0, 1]
    assert [row.taken_by for row in world.db.signals.values()] == ["documents", "documents", None]


def test_a_signal_is_not_taken_after_its_time() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          pay: {type: wait_for_event, event: paid}
        edges: [[first, pay]]
    """)
    world.signal("paid", 1, ttl_ms=5_000)
    world.signal("paid", 2, ttl_ms=60_000)
    world.advance(seconds=5)

    world.run_task("first")

    assert world.output("pay") == 2


def test_a_signal_that_may_not_wait_is_for_a_node_that_waits_already() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          pay: {type: wait_for_event, event: paid}
        edges: [[first, pay]]
    """)
    world.signal("paid", 1, ttl_ms=0)
    world.advance(seconds=1)
    world.run_task("first")
    assert world.waiting() == ["pay"]

    world.signal("paid", 2, ttl_ms=0)

    assert world.output("pay") == 2


@pytest.mark.parametrize("reuse", ["true", "false"])
def test_a_wait_that_is_run_again_needs_a_new_signal_unless_it_may_reuse_the_old(reuse: str) -> None:
    world = begin(f"""
        nodes:
          ask: {{type: wait_for_event, event: approval, count: 2, reuse: {reuse}}}
          work: {{type: call, handler: a}}
        edges: [[ask, work]]
    """)
    world.signal("approval", "yes", ttl_ms=1_000)
    world.signal("approval", "so be it")
    world.fail_task("work")
    world.advance(hours=1)

    world.retry("ask")

    assert world.states()["ask"] == ("succeeded" if reuse == "true" else "waiting")
    if reuse == "false":
        world.signal("approval", "again")
        world.signal("approval", "and again")
    assert world.output("ask") == (["yes", "so be it"] if reuse == "true" else ["again", "and again"])


def test_what_is_gathered_stands_in_the_order_in_which_it_came_whatever_was_taken_first() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          ask: {type: wait_for_event, event: e, count: 2, reuse: true, filter: "payload > nodes.a.output"}
        edges: [[a, ask]]
    """)
    world.run_task("a", 1)
    world.signal("e", 1)  # fits only after the retry
    world.signal("e", 5)
    world.cancel()

    world.retry("a")
    world.run_task("a", 0)

    assert world.output("ask") == [1, 5]


def test_the_name_may_be_computed_when_the_wait_begins() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          answer: {type: wait_for_event, event: "answer-${nodes.first.output}"}
          other: {type: wait_for_event, event: answer-8}
        edges: [[first, answer]]
    """)
    world.signal("answer-7", "early")
    world.signal("answer-9", "mine")

    world.run_task("first", 9)
    world.signal("answer-8", "others")

    assert world.output("answer") == "mine"
    assert world.output("other") == "others"


def test_a_signal_finds_a_wait_of_a_computed_name() -> None:
    world = begin("nodes: {answer: {type: wait_for_event, event: '${input.name}', timeout: 1h}}", {"name": "paid"})

    world.signal("owed", 1)
    assert world.states() == {"answer": "waiting"}
    world.signal("paid", 2)

    assert world.output("answer") == 2


@pytest.mark.parametrize("name", [7, "", "x" * 201, None])
def test_what_is_no_name_fails_the_wait(name: Json) -> None:
    world = begin("nodes: {answer: {type: wait_for_event, event: '${input.name}'}}", {"name": name})

    error = world.task("answer").error
    assert error is not None
    assert error["type"] == "InvalidEventName"


# Waits for a time.


def test_a_wait_for_a_duration_ends_then() -> None:
    world = begin("nodes: {pause: {type: wait, duration: 90s}}")

    assert world.task("pause").due_at == EPOCH + timedelta(seconds=90)
    world.fire(world.next_timer())

    assert world.state is RunState.SUCCEEDED


def test_a_wait_until_an_instant_needs_an_offset_and_keeps_the_instant() -> None:
    text = """
        nodes:
          a: {type: call, handler: a}
          until: {type: wait, until: "${nodes.a.output}"}
        edges:
          - [a, until]
    """
    right, naive, beyond = begin(text), begin(text), begin(text)

    right.run_task("a", "2030-01-01T03:00:00+02:00")
    naive.run_task("a", "2030-01-01T03:00:00")
    beyond.run_task("a", "0001-01-01T00:00:00+14:00")

    assert right.task("until").due_at == EPOCH + timedelta(hours=1)
    assert str(right.task("until").due_at).endswith("+00:00")
    for world in (naive, beyond):
        error = world.task("until").error
        assert error is not None
        assert error["type"] == "InvalidInstant"


@pytest.mark.parametrize(
    ("until", "utc"),
    [
        ("2030-01-31T09:00:00 Europe/Vienna", "2030-01-31T08:00:00"),
        ("2030-07-31 09:00 Europe/Vienna", "2030-07-31T07:00:00"),
        ("2030-07-31T09:00:00 UTC", "2030-07-31T09:00:00"),
        ("2030-03-31T02:30:00 Europe/Vienna", "2030-03-31T01:30:00"),  # skipped: half an hour after the jump, 03:30
        ("2030-10-27T02:30:00 Europe/Vienna", "2030-10-27T00:30:00"),  # twice: the first one
        ("2030-10-27T03:00:00 Europe/Vienna", "2030-10-27T02:00:00"),
    ],
)
def test_a_wait_until_a_time_of_a_zone_goes_by_its_clocks(until: str, utc: str) -> None:
    local, _, zone = until.rpartition(" ")

    worlds = [
        begin(f"nodes: {{nap: {{type: wait, until: '{until}'}}}}"),
        begin(f"nodes: {{nap: {{type: wait, until: '{local}', zone: {zone}}}}}"),
        begin("nodes: {nap: {type: wait, until: '${input.at}', zone: '${input.zone}'}}", {"at": local, "zone": zone}),
        begin("nodes: {nap: {type: wait, until: '${input.at}'}}", {"at": until}),
    ]

    for world in worlds:
        assert str(world.task("nap").due_at) == utc.replace("T", " ") + "+00:00"


@pytest.mark.parametrize(
    "at",
    [
        "2030-01-31T09:00:00 Middle/Earth",
        "2030-01-31T09:00:00",
        "2030-01-31T09:00:00Z Europe/Vienna",
        "2030-01-31T09:00:00 etc/passwd/../x",
        "9999-12-31T23:59:59 America/New_York",
        7,
    ],
)
def test_a_time_of_no_zone_fails_the_wait(at: Json) -> None:
    world = begin("nodes: {nap: {type: wait, until: '${input.at}'}}", {"at": at})

    error = world.task("nap").error
    assert error is not None
    assert error["type"] == "InvalidInstant"


@pytest.mark.parametrize(("spelt", "seconds"), [("90s", 90), ("1m30s", 90), ("1.5s", 1.5), ("0s", 0), ("500ms", 0.5)])
def test_a_wait_may_compute_its_duration(spelt: str, seconds: float) -> None:
    world = begin("nodes: {nap: {type: wait, duration: '${input.pause}'}}", {"pause": spelt})

    assert world.task("nap").due_at == EPOCH + timedelta(seconds=seconds)


def test_a_duration_of_the_expression_language_is_one() -> None:
    world = begin(
        """nodes: {nap: {type: wait, duration: '${duration("1h") + duration(input.more)}'}}""", {"more": "1.5s"}
    )

    assert world.task("nap").due_at == EPOCH + timedelta(hours=1, seconds=1.5)


@pytest.mark.parametrize("spelt", ["soon", "", "-3s", "99999d", 5, None, "1e9s"])
def test_what_is_no_duration_fails_the_wait(spelt: Json) -> None:
    world = begin("nodes: {nap: {type: wait, duration: '${input.pause}'}}", {"pause": spelt})

    error = world.task("nap").error
    assert error is not None
    assert error["type"] == "InvalidDuration"
