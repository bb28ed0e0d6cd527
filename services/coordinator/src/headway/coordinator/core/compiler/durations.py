"""Checks durations against each other: what is cut short by something else, and pauses that leave no time to retry."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlMap
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.plan import (
    FINALLY,
    RETRYABLE_NODES,
    WORKER_NODES,
    Literal,
    Node,
    NodeType,
    Object,
    Place,
    Plan,
    Tries,
)

_OF_TRIES = {"max_attempts", "backoff", "initial", "factor", "max", "jitter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """A duration as it was set: behind which keys, and how long; None: for ever. `whose`: if not the node's own."""

    keys: tuple[str | int, ...]
    milliseconds: int | None
    whose: str = ""

    def __str__(self) -> str:
        return f"{self.whose}{'.'.join(map(str, self.keys))}, {spell_duration(self.milliseconds or 0)},"


def check_durations(faults: Faults, plan: Plan, tree: YamlMap) -> None:
    """Checks a graph, and those within its nodes.

    Args:
        faults: where faults go.
        plan: as far as it could be compiled.
        tree: the map that holds its `nodes`.
    """
    deadline = _Span(keys=("deadline",), milliseconds=plan.deadline_ms, whose="the run's ")
    _check_graph(faults, plan, tree.entries.get("nodes"), deadline)
    last, written = plan.nodes.get(FINALLY), tree.entries.get(FINALLY)
    if last is not None and last.body is not None and isinstance(written, YamlMap):
        _check_body(faults, last.body, written, _timeout_of(last))  # the run's deadline does not end it


def _check_graph(faults: Faults, plan: Plan, tree: Yaml | None, around: _Span) -> None:
    entries = tree.entries if isinstance(tree, YamlMap) else {}
    for name, node in plan.nodes.items():
        written = entries.get(name)
        if not isinstance(written, YamlMap):
            continue
        _Check(faults, node, written, around).run()
        inside = written.entries.get("body")
        if node.body is not None and isinstance(inside, YamlMap):
            own = _timeout_of(node)
            is_shorter = own.milliseconds is not None and own.milliseconds <= (around.milliseconds or own.milliseconds)
            _check_body(faults, node.body, inside, own if is_shorter else around)


def _check_body(faults: Faults, body: Plan, tree: YamlMap, around: _Span) -> None:
    only = YamlMap(place=tree.place, entries=dict.fromkeys(body.nodes, tree), keys={}, size=1)
    _check_graph(faults, body, tree.entries.get("nodes", only), around)


def _timeout_of(node: Node) -> _Span:
    return _Span(keys=("timeout",), milliseconds=node.timeouts.total_ms, whose=f"{node.id}'s ")


class _Check:
    """One node. `around`: what ends it whatever it does: the run's deadline, or the time-out of a map around it."""

    def __init__(self, faults: Faults, node: Node, tree: YamlMap, around: _Span) -> None:
        self._faults = faults
        self._node = node
        self._tree = tree
        self._around = around
        self._attempt, self._total = (
            _Span(keys=("timeout", name), milliseconds=milliseconds)
            for name, milliseconds in (("attempt", node.timeouts.attempt_ms), ("total", node.timeouts.total_ms))
        )

    def run(self) -> None:
        if self._node.type in WORKER_NODES:
            self._check_request()
            self._check_lease()
        if self._node.type in RETRYABLE_NODES and self._is_set("retry", "timeout"):
            self._check_retry(self._node.retry, ("retry",))
            for number, rule in enumerate(self._node.retry.rules):
                self._check_retry(rule, ("retry", "rules", number))
        if self._node.type is NodeType.REPEAT:
            self._check_delay()
        self._check_around()

    def _is_set(self, *keys: str) -> bool:
        return any(key in self._tree.entries for key in keys)

    def _check_request(self) -> None:
        for limit in (self._attempt, self._total):
            if self._cuts(limit, request := self._request()):
                self._contradicts(request, f"{request} is longer than {limit} which ends it before", "lower it")
                return

    def _check_lease(self) -> None:
        lease = _Span(keys=("lease",), milliseconds=self._node.lease_ms if "lease" in self._tree.entries else None)
        for limit in (self._attempt, self._total):
            if self._cuts(limit, lease):
                message = f"{lease} is longer than {limit} which ends the attempt before it can run out"
                self._contradicts(lease, message, "leave the lease out, or lower it", warning=True)
                return

    def _check_retry(self, tries: Tries, keys: tuple[str | int, ...]) -> None:
        if tries.max_attempts <= 1 or self._inherits(keys):
            return
        first = _Span(keys=(*keys, "initial"), milliseconds=next(_pauses(tries)))
        budget = _Span(keys=("retry", "budget"), milliseconds=self._node.retry.budget_ms)
        for limit in (budget, self._total, self._around):
            if limit.milliseconds is None:
                continue
            if self._cuts(limit, first):
                pause = spell_duration(first.milliseconds or 0)
                message = f"no retry fits into {limit} since the first pause takes {pause}"
                self._contradicts(first, message, "shorten the pause, or give it more time", warning=True)
                return
            fitting = 1 + _fitting(tries, limit.milliseconds)
            if fitting < tries.max_attempts:
                attempts = _Span(keys=(*keys, "max_attempts"), milliseconds=0)
                message = f"at most {fitting} of {tries.max_attempts} attempts fit into {limit} by the pauses alone"
                self._contradicts(attempts, message, "lower max_attempts, or shorten the pauses", warning=True)
                return

    def _inherits(self, keys: tuple[str | int, ...]) -> bool:
        """Whether a rule's pauses are those of its policy, of which enough is said already."""
        rule = _at(self._tree, keys)
        return len(keys) > 1 and not (isinstance(rule, YamlMap) and _OF_TRIES & rule.entries.keys())

    def _check_delay(self) -> None:
        delay = _Span(keys=("delay",), milliseconds=self._node.wait_ms)
        for limit in (_timeout_of(self._node), self._around):
            if self._cuts(limit, delay) or (
                delay.milliseconds is not None and delay.milliseconds == limit.milliseconds
            ):
                message = f"{limit} is over before {delay} is: there is never a second iteration"
                self._contradicts(delay, message, "lower delay, or give it more time", warning=True)
                return

    def _check_around(self) -> None:
        node, around = self._node, self._around
        remedy = f"lower it, or raise {around.whose}{around.keys[0]}"
        wait = _Span(keys=("duration",), milliseconds=node.wait_ms if node.type is NodeType.WAIT else None)
        if self._cuts(around, wait) or (wait.milliseconds is not None and wait.milliseconds == around.milliseconds):
            self._contradicts(wait, f"{around} is over before {wait} is", remedy, warning=True)
            return
        times = (("queue", node.timeouts.queue_ms), ("heartbeat", node.timeouts.heartbeat_ms))
        others = [_Span(keys=("timeout", name), milliseconds=milliseconds) for name, milliseconds in times]
        is_own = self._is_set("timeout") or around.keys == ("deadline",)  # a default may well be longer than a map has
        for span in (*([self._total, self._attempt, *others] if is_own else []), self._request()):
            if self._cuts(around, span):
                self._contradicts(span, f"{span} is longer than {around} which ends it before", remedy, warning=True)
                return

    def _request(self) -> _Span:
        """An http node's own time-out."""
        given = self._node.input
        if isinstance(given, Object):
            timeout = given.entries.get("timeout")
            seconds = timeout.value if isinstance(timeout, Literal) else None
        else:
            seconds = (
                given.value.get("timeout") if isinstance(given, Literal) and isinstance(given.value, dict) else None
            )
        is_set = self._node.type is NodeType.HTTP
        milliseconds = round(seconds * 1_000) if is_set and isinstance(seconds, int | float) else None
        return _Span(keys=("request", "timeout"), milliseconds=milliseconds)

    def _cuts(self, limit: _Span, span: _Span) -> bool:
        """Whether a limit ends something before its own time is over."""
        return (
            limit.milliseconds is not None and span.milliseconds is not None and span.milliseconds > limit.milliseconds
        )

    def _contradicts(self, span: _Span, message: str, remedy: str, *, warning: bool = False) -> None:
        self._faults.add(self._place(span), Code.CONTRADICTION, message, remedy, warning=warning)

    def _place(self, span: _Span) -> Place:
        """Where a duration is written, or what it stands in, as far as that is written in this node."""
        return _at(self._tree, span.keys).place


def _at(tree: Yaml, keys: tuple[str | int, ...]) -> Yaml:
    """What stands behind some keys, as far as they lead."""
    for key in keys:
        match tree:
            case YamlMap(entries=entries) if isinstance(key, str) and key in entries:
                tree = entries[key]
            case YamlList(items=items) if isinstance(key, int) and key < len(items):
                tree = items[key]
            case _:
                break
    return tree


def _pauses(tries: Tries) -> Iterator[int]:
    """The shortest pauses between attempts, one after the other."""
    for count in range(1, tries.max_attempts):
        yield int(tries.pause_ms(count) * (1 - tries.jitter))


def _fitting(tries: Tries, limit_ms: int) -> int:
    """How many pauses are over within a limit."""
    passed = 0
    for number, pause in enumerate(_pauses(tries)):
        passed += pause
        if passed > limit_ms:
            return number
    return tries.max_attempts - 1
