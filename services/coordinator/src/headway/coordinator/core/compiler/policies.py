"""Reads the retry policy and the time-outs of worker nodes, and sees whether they contradict themselves."""

from dataclasses import replace

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.faults import Code
from headway.coordinator.core.compiler.fields import Entries, Reading, spell_duration
from headway.coordinator.core.compiler.yaml_tree import YamlList, YamlMap
from headway.coordinator.core.plan import RetryPolicy, TimeOuts


def read_retry(reading: Reading, outer: Entries) -> RetryPolicy:
    """Returns the policy under the key `retry`, or the workflow's default."""
    policy = RetryPolicy()
    tree = outer.map("retry")
    if tree is None:
        return reading.defaults.retry
    entries = Entries(reading, tree, language.RETRY, "a retry policy")
    read = {
        "max_attempts": entries.integer("max_attempts"),
        "initial_ms": entries.duration("initial"),
        "factor": entries.number("factor"),
        "max_ms": entries.duration("max"),
        "jitter": entries.number("jitter"),
        "max_losses": entries.integer("max_losses"),
    }
    policy = replace(policy, **{name: value for name, value in read.items() if value is not None})
    if policy.initial_ms > policy.max_ms:
        spelt = spell_duration(policy.initial_ms), spell_duration(policy.max_ms)
        message = f"the first pause, {spelt[0]}, is longer than the longest, {spelt[1]}"
        reading.faults.add(entries.place_of("initial"), Code.CONTRADICTION, message, "raise max or lower initial")
    return policy


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
    attempt, queue, total = (entries.duration(name) for name in ("attempt", "queue", "total"))
    for name, part in (("attempt", attempt), ("queue", queue)):
        if part is not None and total is not None and part > total:
            message = f"{name}, {spell_duration(part)}, is longer than total, {spell_duration(total)}"
            reading.faults.add(entries.place_of(name), Code.CONTRADICTION, message, "total covers everything: raise it")
    return TimeOuts(attempt_ms=attempt, queue_ms=queue, total_ms=total)
