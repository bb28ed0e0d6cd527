"""What must hold when every order has ended, checked against the shop's own ledger and the workers' diary.

Pure: the demo reads, this module judges. Each check returns the faults it found; none means that it holds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from examples.order_fulfilment.steps import Step

# What the shop must have done for an order that ended so. Everything not named must not have happened.
DUE: Mapping[str, Mapping[str, int]] = {
    "shipped": {"reservation": 1, "charge": 1, "shipment": 1, "invoice": 1},
    "refunded": {"reservation": 1, "release": 1, "charge": 1, "refund": 1},
    "declined": {"reservation": 1, "release": 1},
    "sold_out": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt of a step as the coordinator saw it; instants in seconds of the database's clock."""

    task: str
    number: int
    leased: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an order's run ended.

    Attributes:
        state: The run's state.
        outcome: What the workflow says became of the order.
    """

    state: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A process that was killed on purpose.

    Attributes:
        name: Which.
        process: Its process id.
        instant: When, in seconds of the monotonic clock.
    """

    name: str
    process: int
    instant: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is judged.

    Attributes:
        orders: As in orders.json.
        ends: By order.
        repeated_starts: For starts that were repeated with the same key: the run of the first, and of the second.
        ledger: The shop's.
        steps: The workers' diary.
        attempts: All attempts that the coordinator knows to have ended.
        kills: Who was killed.
    """

    orders: Sequence[Mapping[str, Any]]
    ends: Mapping[str, End]
    repeated_starts: Sequence[tuple[str, str]]
    ledger: Sequence[Mapping[str, Any]]
    steps: Sequence[Step]
    attempts: Sequence[Attempt]
    kills: Sequence[Kill]

    def effects(self, *names: str) -> list[Mapping[str, Any]]:
        """Return what moved at the shop, of the kinds named."""
        return [entry for entry in self.ledger if entry["entry"] == "effect" and entry["effect"] in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A check and what it found; `fact` says how much was looked at."""

    claim: str
    fact: str
    faults: tuple[str, ...]


def judge(evidence: Evidence) -> list[Verdict]:
    """Make every check."""
    moved = evidence.effects("reservation", "release", "charge", "refund", "shipment", "invoice")
    money = evidence.effects("charge", "refund")
    calls = [entry for entry in evidence.ledger if entry["entry"] == "call"]
    return [
        _verdict("no order is lost, and each ended as it had to", f"{len(evidence.orders)} orders", _ends(evidence)),
        _verdict(
            "an order that was sent twice ran once", f"{len(evidence.repeated_starts)} orders", _repeats(evidence)
        ),
        _verdict("the shop did for each order what its outcome says", f"{len(moved)} entries", _dues(evidence)),
        _verdict("nobody paid twice, and every amount is right", f"{len(money)} payments", _amounts(evidence)),
        _verdict("no goods left without a reservation and money", "shipments", _order_of_effects(evidence)),
        _verdict("invoice numbers have neither gaps nor twins", "invoices", _invoices(evidence)),
        _verdict("retries came with the key of the first try", f"{len(calls)} calls", _keys(calls)),
        _verdict("no step had two holders (workers' diary)", f"{len(evidence.steps)} runs", _holders(evidence)),
        _verdict("no step had two holders (coordinator)", f"{len(evidence.attempts)} attempts", _leases(evidence)),
        _verdict("the kills hit work in progress", ", ".join(kill.name for kill in evidence.kills), _kills(evidence)),
    ]


def _verdict(claim: str, fact: str, faults: Iterable[str]) -> Verdict:
    return Verdict(claim=claim, fact=fact, faults=tuple(faults))


def _ends(evidence: Evidence) -> Iterable[str]:
    for order in evidence.orders:
        end = evidence.ends.get(order["order_id"])
        if end is None:
            yield f"{order['order_id']} has no end"
        elif end.outcome != order["expect"]:
            yield f"{order['order_id']} ended {end.outcome} (run {end.state}) instead of {order['expect']}"


def _repeats(evidence: Evidence) -> Iterable[str]:
    for first, second in evidence.repeated_starts:
        if first != second:
            yield f"the same key started run {first} and run {second}"


def _dues(evidence: Evidence) -> Iterable[str]:
    happened: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in evidence.effects("reservation", "release", "charge", "refund", "shipment", "invoice"):
        happened[entry["order"]][entry["effect"]] += 1
    for order, end in evidence.ends.items():
        due = Counter(DUE.get(end.outcome, {}))
        if happened[order] != due:
            yield f"{order} is {end.outcome}, but the shop did {dict(happened[order])}"
    for order in happened.keys() - evidence.ends.keys():
        yield f"the shop did {dict(happened[order])} for {order}, of which nothing else is known"


def _amounts(evidence: Evidence) -> Iterable[str]:
    amounts = {order["order_id"]: order["amount_cents"] for order in evidence.orders}
    paid = Counter(entry["order"] for entry in evidence.effects("charge"))
    for order, times in paid.items():
        if times > 1:
            yield f"{order} was charged {times} times"
    for entry in evidence.effects("charge", "refund"):
        if entry["facts"]["amount_cents"] != amounts.get(entry["order"]):
            yield f"{entry['effect']} of {entry['facts']['amount_cents']} cents for {entry['order']}"


def _order_of_effects(evidence: Evidence) -> Iterable[str]:
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for entry in evidence.effects("reservation", "charge", "refund", "shipment"):
        before = seen[entry["order"]]
        if entry["effect"] == "shipment" and before != {"reservation", "charge"}:
            yield f"{entry['order']} was shipped after {sorted(before)}"
        before.add(entry["effect"])


def _invoices(evidence: Evidence) -> Iterable[str]:
    numbers = [entry["facts"]["number"] for entry in evidence.effects("invoice")]
    wanted = [f"INV-{number:05}" for number in range(1, len(numbers) + 1)]
    if sorted(numbers) != wanted:
        yield f"the numbers are {sorted(numbers)}"


def _keys(calls: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    keys: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for call in calls:
        keys[call["endpoint"], call["order"]].add(call["key"])
    for (endpoint, order), used in keys.items():
        if len(used) > 1:
            yield f"{endpoint} was called for {order} with {len(used)} keys: {sorted(used)}"


def _holders(evidence: Evidence) -> Iterable[str]:
    died = {kill.process: kill.instant for kill in evidence.kills}
    held: defaultdict[str, list[tuple[float, float, Step]]] = defaultdict(list)
    for step in evidence.steps:
        if step.end is None and step.process not in died:
            yield f"{step.path} of run {step.run_id}, attempt {step.attempt}, never ended though nobody killed it"
        else:
            end = died[step.process] if step.end is None else min(step.end, step.lease_end)
            held[step.task_id].append((step.begin, end, step))
    for runs in held.values():
        for (_, end, first), (begin, _, second) in pairwise(sorted(runs, key=lambda run: run[0])):
            if begin < end:
                yield (
                    f"{first.path} of run {first.run_id}: attempt {second.attempt} began {end - begin:.3f} s "
                    f"before attempt {first.attempt} was over"
                )


def _leases(evidence: Evidence) -> Iterable[str]:
    attempts: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        attempts[attempt.task].append(attempt)
    for task, known in attempts.items():
        for first, second in pairwise(sorted(known, key=lambda attempt: attempt.number)):
            if second.leased < first.ended:
                yield f"{task}: attempt {second.number} was leased before attempt {first.number} had ended"


def _kills(evidence: Evidence) -> Iterable[str]:
    """A worker must have left steps without an end; whoever else was killed must have had steps under way."""
    died = {kill.process: kill.instant for kill in evidence.kills}
    for kill in evidence.kills:
        if kill.name.startswith("worker"):
            hit = any(step.process == kill.process and step.end is None for step in evidence.steps)
        else:
            ends = [(step.begin, step.end or died.get(step.process, kill.instant)) for step in evidence.steps]
            hit = any(begin <= kill.instant < end for begin, end in ends)
        if not hit:
            yield f"{kill.name} was idle, or had finished all it began, when it was killed"
