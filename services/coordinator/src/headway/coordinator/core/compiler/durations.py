"""Checks durations against each other: what is cut short by something else, and pauses that leave no time to retry."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlMap
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.plan import (
    FINALLY,
    WORKER_NODES,
    Literal,
    Node,
    NodeType,
    Object,
    Place,
    Plan,
    RetryPolicy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """A duration as it was set: behind which keys of the node, and how long; None: for ever."""

    keys: tuple[str, ...]
    milliseconds: int | None

    def __str__(self) -> str:
        return f"{'.'.join(self.keys)}, {spell_duration(self.milliseconds or 0)},"


def check_durations(faults: Faults, plan: Plan, tree: YamlMap) -> None:
    """Checks a graph, and those within its nodes.

    Args:
        faults: where faults go.
        plan: as far as it could be compiled.
        tree: the map that holds its `nodes`.
    """
    _check_graph(faults, plan, tree.entries.get("nodes"), plan.deadline_ms)
    last, written = plan.nodes.get(FINALLY), tree.entries.get(FINALLY)
    if last is not None and last.body is not None and isinstance(written, YamlMap):
        _check_body(faults, last.body, written, None)  # the run's deadline does not end it


def _check_graph(faults: Faults, plan: Plan, tree: Yaml | None, deadline_ms: int | None) -> None:
    entries = tree.entries if isinstance(tree, YamlMap) else {}
    for name, node in plan.nodes.items():
        written = entries.get(name)
        if not isinstance(written, YamlMap):
            continue
        _Check(faults, node, written, deadline_ms).run()
        for each in fields(node):
            inner, inside = getattr(node, each.name), written.entries.get(each.name)
            if isinstance(inner, Plan) and isinstance(inside, YamlMap):
                _check_body(faults, inner, inside, deadline_ms)


def _check_body(faults: Faults, body: Plan, tree: YamlMap, deadline_ms: int | None) -> None:
    only = YamlMap(place=tree.place, entries=dict.fromkeys(body.nodes, tree), keys={}, size=1)
    _check_graph(faults, body, tree.entries.get("nodes", only), deadline_ms)


class _Check:
    """One node."""

    def __init__(self, faults: Faults, node: Node, tree: YamlMap, deadline_ms: int | None) -> None:
        self._faults = faults
        self._node = node
        self._tree = tree
        self._deadline_ms = deadline_ms
        self._attempt = _Span(keys=("timeout", "attempt"), milliseconds=node.timeouts.attempt_ms)
        self._total = _Span(keys=("timeout", "total"), milliseconds=node.timeouts.total_ms)

    def run(self) -> None:
        if self._node.type in WORKER_NODES:
            self._check_request()
            self._check_lease()
            self._check_retry()
        self._check_deadline()

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

    def _check_retry(self) -> None:
        policy = self._node.retry
        if policy.max_attempts <= 1 or policy.rules or "retry" not in self._tree.entries:
            return
        first = _Span(keys=("retry", "initial"), milliseconds=next(_pauses(policy)))
        deadline = _Span(keys=("deadline",), milliseconds=self._deadline_ms)
        for limit, whose in ((self._total, ""), (deadline, "the run's ")):
            if limit.milliseconds is None:
                continue
            if self._cuts(limit, first):
                pause = spell_duration(first.milliseconds or 0)
                message = f"no retry fits into {whose}{limit} since the first pause takes {pause}"
                self._contradicts(first, message, "shorten the pause, or give it more time", warning=True)
                return
            fitting = 1 + _fitting(policy, limit.milliseconds)
            if fitting < policy.max_attempts:
                attempts = _Span(keys=("retry", "max_attempts"), milliseconds=0)
                message = (
                    f"at most {fitting} of {policy.max_attempts} attempts fit into {whose}{limit} by the pauses alone"
                )
                self._contradicts(attempts, message, "lower max_attempts, or shorten the pauses", warning=True)
                return

    def _check_deadline(self) -> None:
        node = self._node
        deadline = _Span(keys=("deadline",), milliseconds=self._deadline_ms)
        wait = _Span(keys=("duration",), milliseconds=node.wait_ms if node.type is NodeType.WAIT else None)
        if self._cuts(deadline, wait) or (wait.milliseconds is not None and wait.milliseconds == self._deadline_ms):
            message = f"the run's {deadline} is over before {wait} is"
            self._contradicts(wait, message, "raise the deadline, or wait shorter", warning=True)
            return
        for span in (self._total, self._attempt, self._request()):
            if self._cuts(deadline, span):
                message = f"{span} is longer than the run's {deadline} which ends it before"
                self._contradicts(span, message, "lower it, or raise the deadline", warning=True)
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
        tree: Yaml = self._tree
        for key in span.keys:
            if not isinstance(tree, YamlMap) or key not in tree.entries:
                break
            tree = tree.entries[key]
        return tree.place


def _pauses(policy: RetryPolicy) -> Iterator[int]:
    """The shortest pauses between attempts, one after the other."""
    for count in range(1, policy.max_attempts):
        yield int(policy.pause_ms(count) * (1 - policy.jitter))


def _fitting(policy: RetryPolicy, limit_ms: int) -> int:
    """How many pauses are over within a limit."""
    passed = 0
    for number, pause in enumerate(_pauses(policy)):
        passed += pause
        if passed > limit_ms:
            return number
    return policy.max_attempts - 1
