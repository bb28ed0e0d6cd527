"""Reads the retry policy and the time-outs of worker nodes, and sees whether they contradict themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.failures import check_failures, instead_of_status
from headway.coordinator.core.compiler.faults import Code
from headway.coordinator.core.compiler.fields import Entries, Reading
from headway.coordinator.core.compiler.yaml_tree import YamlList, YamlMap
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.plan import Backoff, Node, RetryPolicy, RetryRule, TimeOuts, Tries

# What cannot be longer than what, and what to do about it.
_WITHIN = (
    ("attempt", "total", "total covers everything: raise it"),
    ("queue", "total", "total covers everything: raise it"),
    ("heartbeat", "attempt", "the attempt ends before: lower heartbeat"),
    ("stall", "attempt", "the attempt ends before: lower stall"),
    ("heartbeat", "total", "total covers everything: raise it"),
    ("stall", "total", "total covers everything: raise it"),
    ("heartbeat", "stall", "silence is no progress either: lower heartbeat, or leave it out"),
)
T = TypeVar("T", RetryPolicy, RetryRule)

_MEANINGLESS: Mapping[Backoff, tuple[str, ...]] = {
    Backoff.EXPONENTIAL: (),
    Backoff.LINEAR: ("factor",),
    Backoff.FIXED: ("factor", "max"),
}


def read_retry(reading: Reading, outer: Entries, node: Node | None = None) -> RetryPolicy:
    """Returns the policy under the key `retry`, of a node or of any, or the workflow's default."""
    tree = outer.map("retry")
    if tree is None:
        return reading.defaults.retry
    entries = Entries(reading, tree, language.RETRY, "a retry policy")
    policy = _read_tries(reading, entries, RetryPolicy())
    max_losses = entries.integer("max_losses")
    return replace(
        policy,
        rules=tuple(_read_rules(reading, entries, policy, node)),
        budget_ms=entries.duration("budget"),
        max_losses=policy.max_losses if max_losses is None else max_losses,
    )


def _read_tries(reading: Reading, entries: Entries, base: T) -> T:
    """Returns what a map says of tries; what it does not say is as in `base`."""
    read = {
        "max_attempts": entries.integer("max_attempts"),
        "backoff": entries.word("backoff"),
        "initial_ms": entries.duration("initial"),
        "factor": entries.number("factor"),
        "max_ms": entries.duration("max"),
        "jitter": entries.number("jitter"),
    }
    tries = replace(base, **{name: value for name, value in read.items() if value is not None})
    tries = replace(tries, backoff=Backoff(tries.backoff))
    if all(value is not None or name.removesuffix("_ms") not in entries for name, value in read.items()):
        _check_pauses(reading, entries, tries)
    return tries


def _check_pauses(reading: Reading, entries: Entries, tries: Tries) -> None:
    meaningless = _MEANINGLESS[tries.backoff]
    for name in meaningless:
        if name in entries:
            message = f"{name} has no meaning with backoff: {tries.backoff.value}"
            reading.faults.add(entries.place_of(name), Code.CONTRADICTION, message, "remove one of the two")
    if "max" not in meaningless and tries.initial_ms > tries.max_ms:
        spelt = spell_duration(tries.initial_ms), spell_duration(tries.max_ms)
        message = f"the first pause, {spelt[0]}, is longer than the longest, {spelt[1]}"
        reading.faults.add(entries.place_of("initial"), Code.CONTRADICTION, message, "raise max or lower initial")


def _read_rules(reading: Reading, outer: Entries, policy: RetryPolicy, node: Node | None) -> Iterator[RetryRule]:
    tree = outer.list("rules")
    seen: dict[str, int] = {}
    for item in tree.items if tree is not None else ():
        if not isinstance(item, YamlMap):
            outer.wrong(item.place, "a retry rule must be a map", "write {errors: [RateLimited], max_attempts: 5}")
            continue
        entries = Entries(reading, item, language.RETRY_RULE, "a retry rule")
        errors = entries.texts("errors", instead_of_status(entries.tree("errors"), node, is_edge=False)) or ()
        check_failures(reading.faults, entries.tree("errors"), node)
        for name in errors:
            if name in seen:
                message = f"{name} stands in the rule in line {seen[name]} already, which decides about it"
                reading.faults.add(entries.place_of("errors"), Code.CONTRADICTION, message, "name it once")
            seen.setdefault(name, item.place.line)
        base = RetryRule(
            errors=errors,
            max_attempts=policy.max_attempts,
            backoff=policy.backoff,
            initial_ms=policy.initial_ms,
            factor=policy.factor,
            max_ms=policy.max_ms,
            jitter=policy.jitter,
        )
        yield _read_tries(reading, entries, base)


def read_timeouts(reading: Reading, outer: Entries) -> TimeOuts:
    """Returns the time-outs under the key `timeout`, or the workflow's default; a duration alone is the total."""
    tree = outer.tree("timeout")
    if tree is None:
        return reading.defaults.timeouts
    if not isinstance(tree, YamlMap):
        if isinstance(tree, YamlList):
            outer.wrong(tree.place, "timeout must be a duration or a map", "write 30s, or {attempt: 30s, total: 10m}")
            return TimeOuts()
        return TimeOuts(total_ms=outer.duration("timeout"))
    entries = Entries(reading, tree, language.TIMEOUT, "time-outs")
    read = {name: entries.duration(name) for name in ("attempt", "queue", "total", "heartbeat", "stall")}
    for part, whole, remedy in _WITHIN:
        shorter, longer = read[part], read[whole]
        if shorter is not None and longer is not None and shorter > longer:
            message = f"{part}, {spell_duration(shorter)}, is longer than {whole}, {spell_duration(longer)}"
            reading.faults.add(entries.place_of(part), Code.CONTRADICTION, message, remedy)
    return TimeOuts(**{f"{name}_ms": value for name, value in read.items()})


def lease_within(reading: Reading, entries: Entries, timeouts: TimeOuts, default_ms: int) -> int:
    """Returns how long a lease lasts.

    By default it is so short that renewals bring heartbeats in time, and that a worker which dies in the first half of
    an attempt has lost the lease before the attempt's time is up.
    """
    lease_ms = entries.duration("lease")
    limits = [limit for limit in (timeouts.heartbeat_ms, timeouts.stall_ms) if limit is not None]
    if lease_ms is None:
        cut_by = limits if timeouts.attempt_ms is None else [*limits, timeouts.attempt_ms]
        return min([default_ms, *(max(language.MIN_LEASE_MS, limit // 2) for limit in cut_by)])
    if limits and lease_ms > min(limits):
        message = f"the lease, {spell_duration(lease_ms)}, is longer than the silence, {spell_duration(min(limits))}"
        remedy = "heartbeats travel with renewals, every third of the lease: leave the lease out"
        reading.faults.add(entries.place_of("lease"), Code.CONTRADICTION, message, remedy)
    return lease_ms
