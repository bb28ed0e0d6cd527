"""The order example judges rightly: its shop is idempotent, and its checks see what they are there to see."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.order_fulfilment.checks import Attempt, End, Evidence, Kill, judge
from examples.order_fulfilment.ledger import Ledger
from examples.order_fulfilment.shop import Shop
from examples.order_fulfilment.steps import DIARY, Step, read, recorded
from examples.order_fulfilment.weather import FAIR_FROM, Fault, weather
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.plan import LOOP_NODES, NodeType
from headway.worker import Context
from headway.worker._context import Lease

FOLDER = Path(__file__).parents[2] / "examples" / "order_fulfilment"
CHARGE = {"order": "A", "amount_cents": 500, "card": "tok_visa"}


def orders() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "orders.json").read_text(encoding="utf-8"))["orders"]
    return found


@contextmanager
def shop(path: Path) -> Iterator[Shop]:
    ledger = Ledger(path)
    yield Shop(ledger, {"LAMP": 2})
    ledger.close()


def test_the_shop_acts_once_for_a_key_and_answers_it_the_same_way(tmp_path: Path) -> None:
    with shop(tmp_path / "ledger") as open_shop:
        first = open_shop.act("charges", "A", "key", CHARGE)
        second = open_shop.act("charges", "A", "key", CHARGE)

        assert first == second
        assert [entry["effect"] for entry in open_shop.ledger.entries()] == ["charge"]


def test_the_shop_charges_again_for_another_key(tmp_path: Path) -> None:
    with shop(tmp_path / "ledger") as open_shop:
        first = open_shop.act("charges", "A", "key", CHARGE)
        second = open_shop.act("charges", "A", "another key", CHARGE)

        assert first.body["charge"] != second.body["charge"]


def test_the_shop_refuses_a_key_for_another_request(tmp_path: Path) -> None:
    with shop(tmp_path / "ledger") as open_shop:
        open_shop.act("charges", "A", "key", CHARGE)

        assert open_shop.act("charges", "A", "key", {**CHARGE, "amount_cents": 1}).status == 422


def test_the_shop_knows_after_a_restart_what_it_did(tmp_path: Path) -> None:
    both = {"order": "A", "items": [{"sku": "LAMP", "quantity": 2}]}
    with shop(tmp_path / "ledger") as open_shop:
        before = open_shop.act("reservations", "A", "key", both)

    with shop(tmp_path / "ledger") as open_shop:
        assert open_shop.act("reservations", "A", "key", both) == before
        assert open_shop.act("reservations", "B", "other", {**both, "order": "B"}).status == 409
        open_shop.act("releases", "A", "back", both)
        assert open_shop.act("reservations", "C", "third", {**both, "order": "C"}).status == 201


def test_the_weather_is_the_same_for_the_same_seed_and_becomes_fair() -> None:
    first = [weather(seed=1, endpoint="charges", order=str(n), nth=1) for n in range(200)]
    again = [weather(seed=1, endpoint="charges", order=str(n), nth=1) for n in range(200)]
    late = [weather(seed=1, endpoint="charges", order=str(n), nth=FAIR_FROM) for n in range(200)]

    assert first == again
    assert {each.fault for each in first} == set(Fault)
    assert {each.fault for each in late} == {Fault.NONE}


def test_there_is_an_order_for_every_outcome() -> None:
    assert len(orders()) >= 24
    assert {order["expect"] for order in orders()} == {"shipped", "refunded", "declined", "sold_out"}
    for order in orders():
        assert order["amount_cents"] == sum(item["quantity"] * item["unit_cents"] for item in order["items"])


def effect(kind: str, order: str, **facts: object) -> dict[str, object]:
    return {"entry": "effect", "effect": kind, "order": order, "key": f"{kind}/{order}", "facts": facts}


def call(endpoint: str, order: str, key: str) -> dict[str, object]:
    return {"entry": "call", "endpoint": endpoint, "order": order, "key": key}


def step(attempt: int, process: int, begin: float, end: float | None, *, lease_end: float = 99.0) -> Step:
    return Step(
        task_id="t",
        run_id="r",
        path="charge",
        attempt=attempt,
        process=process,
        begin=begin,
        end=end,
        lease_end=lease_end,
    )


GOOD = Evidence(
    orders=[
        {"order_id": "A", "amount_cents": 500, "expect": "shipped"},
        {"order_id": "B", "amount_cents": 700, "expect": "refunded"},
    ],
    ends={"A": End(state="succeeded", outcome="shipped"), "B": End(state="failed", outcome="refunded")},
    repeated_starts=[("run-a", "run-a")],
    ledger=[
        effect("reservation", "A"),
        effect("reservation", "B"),
        effect("charge", "A", amount_cents=500),
        effect("charge", "B", amount_cents=700),
        effect("shipment", "A"),
        effect("invoice", "A", number="INV-00001"),
        effect("refund", "B", amount_cents=700),
        effect("release", "B"),
        call("charges", "A", "1"),
        call("charges", "A", "1"),
    ],
    steps=[step(1, 10, 1.0, None), step(2, 11, 4.0, 5.0), step(3, 11, 5.5, 6.0)],
    attempts=[Attempt(task="t", number=1, leased=1.0, ended=3.0), Attempt(task="t", number=2, leased=3.0, ended=4.0)],
    kills=[Kill(name="worker-1", process=10, instant=2.0), Kill(name="coordinator-1", process=12, instant=4.5)],
)


def test_good_evidence_passes_every_check() -> None:
    assert [verdict for verdict in judge(GOOD) if verdict.faults] == []


@pytest.mark.parametrize(
    ("evidence", "claim"),
    [
        pytest.param(replace(GOOD, ends={"A": GOOD.ends["A"]}), "no order is lost", id="lost"),
        pytest.param(
            replace(GOOD, ends={**GOOD.ends, "B": End(state="failed", outcome="failed")}),
            "no order is lost",
            id="wrong end",
        ),
        pytest.param(
            replace(GOOD, repeated_starts=[("run-a", "run-b")]), "an order that was sent twice", id="ran twice"
        ),
        pytest.param(
            replace(GOOD, ledger=[*GOOD.ledger, effect("charge", "A", amount_cents=500)]),
            "nobody paid twice",
            id="paid twice",
        ),
        pytest.param(
            replace(GOOD, ledger=[*GOOD.ledger, effect("shipment", "B")]),
            "the shop did for each",
            id="shipped and refunded",
        ),
        pytest.param(replace(GOOD, ledger=GOOD.ledger[:-3]), "the shop did for each", id="not released"),
        pytest.param(
            replace(GOOD, ledger=[effect("charge", "B", amount_cents=7)]), "nobody paid twice", id="wrong amount"
        ),
        pytest.param(replace(GOOD, ledger=[effect("shipment", "A")]), "no goods left", id="shipped first"),
        pytest.param(
            replace(GOOD, ledger=[effect("invoice", "A", number="INV-00002")]),
            "invoice numbers",
            id="gap in the numbers",
        ),
        pytest.param(
            replace(GOOD, ledger=[*GOOD.ledger, call("charges", "A", "2")]), "retries came with", id="other key"
        ),
        pytest.param(
            replace(GOOD, steps=[step(1, 10, 1.0, None), step(2, 11, 1.9, 5.0)]),
            "no step had two holders (workers",
            id="began before the other was killed",
        ),
        pytest.param(
            replace(GOOD, steps=[*GOOD.steps, step(4, 11, 5.9, 7.0)]), "no step had two holders (workers", id="overlap"
        ),
        pytest.param(
            replace(GOOD, steps=[*GOOD.steps, step(4, 11, 8.0, None)]), "no step had two holders (workers", id="no end"
        ),
        pytest.param(
            replace(GOOD, attempts=[*GOOD.attempts, Attempt(task="t", number=3, leased=3.9, ended=5.0)]),
            "no step had two holders (coordinator",
            id="leased too soon",
        ),
        pytest.param(replace(GOOD, steps=GOOD.steps[1:]), "the kills hit", id="idle worker"),
        pytest.param(replace(GOOD, steps=GOOD.steps[:1]), "the kills hit", id="idle coordinator"),
    ],
)
def test_a_fault_is_found(evidence: Evidence, claim: str) -> None:
    broken = [verdict.claim for verdict in judge(evidence) if verdict.faults]

    assert any(each.startswith(claim) for each in broken), broken


def test_a_step_that_ran_beyond_its_lease_does_not_count_there() -> None:
    late = replace(GOOD, steps=[step(1, 10, 1.0, None), step(2, 11, 4.0, 6.0, lease_end=5.0), step(3, 13, 5.5, 7.0)])

    verdict = next(each for each in judge(late) if "diary" in each.claim)

    assert not verdict.faults


def test_the_diary_tells_who_ran_a_step_and_until_when_the_lease_lasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIARY, str(tmp_path / "diary"))
    now = time.monotonic()
    lease = Lease(deadline=now - 1.0, duration=3.0)  # it ran out while the handler ran
    context = Context(
        run_id="r",
        path="charge",
        workflow="w",
        namespace="default",
        handler="payments.charge",
        task_id="t",
        attempt=2,
        try_number=1,
        idempotency_key="k",
        traceparent="",
        lease=lease,
    )

    with recorded(context):
        (begun,) = read(tmp_path / "diary")
    (ended,) = read(tmp_path / "diary")

    assert begun.end is None
    assert ended.end is not None
    assert ended.begin == begun.begin
    assert ended.lease_end == lease.deadline
    assert (ended.task_id, ended.attempt, ended.process) == ("t", 2, os.getpid())


def test_the_workflow_has_no_faults_and_every_type_of_node_but_loops_and_subflows() -> None:
    result = compile_workflow((FOLDER / "order_fulfilment.yaml").read_text(encoding="utf-8"))

    assert result.faults == ()
    assert result.plan is not None
    assert {node.type for node in result.plan.nodes.values()} == set(NodeType) - LOOP_NODES - {NodeType.SUBFLOW}
