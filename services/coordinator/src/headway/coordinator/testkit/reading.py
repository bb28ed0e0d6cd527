"""From the text of a test file to its cases; whatever is wrong is a fault with its place."""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.compiler.fields import Entries, Reading
from headway.coordinator.core.compiler.language import Field
from headway.coordinator.core.compiler.template_parser import TemplateParser
from headway.coordinator.core.compiler.yaml_tree import (
    Source,
    Yaml,
    YamlList,
    YamlMap,
    YamlScalar,
    load_yaml,
    plain_value,
)
from headway.coordinator.core.document import EMPTY, Document
from headway.coordinator.core.plan import FailureClass, Json, Literal, Place
from headway.coordinator.testkit import expectations as expecting
from headway.coordinator.testkit import language
from headway.coordinator.testkit.bodies import in_run, place_of
from headway.coordinator.testkit.cases import (
    Act,
    Attempts,
    Case,
    Expectation,
    Heartbeat,
    Mention,
    Mock,
    MockedFailure,
    Naming,
    Result,
    TestFile,
)
from headway.coordinator.testkit.language import Crash, Outcome, Refused
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.simulation import START, Simulation
from headway.coordinator.testkit.telling import the_run, whose

_GRACE_MS = 30_000
_LIMIT = 500
_ENDING = re.compile(r"(\.test)?\.ya?ml\Z")


def read_tests(text: str, faults: Faults, name: str) -> TestFile | None:
    """Returns what the file says; None when a fault leaves nothing to go on with. `name`: the file's, for remedies."""
    source = Source(text)
    tree = load_yaml(source, faults)
    if tree is None:
        faults.say_that_checks_wait()
        return None
    if not isinstance(tree, YamlMap):
        faults.add(tree.place, Code.WRONG_TYPE, "a test file is a map", "it begins with `workflow: file.yaml`")
        faults.say_that_checks_wait()
        return None
    if "nodes" in tree.entries and "cases" not in tree.entries:
        flow = _ENDING.sub("", name)
        remedy = f"write its tests to {flow}.test.yaml, which begins with `workflow: {flow}.yaml`"
        faults.add(tree.place, Code.WRONG_TYPE, "this is a workflow, no test file", remedy)
        return None
    tests = _Reader(Reading(source=source, faults=faults, templates=TemplateParser(source, faults))).file(tree)
    unread = {
        (fault.line, fault.column) for fault in faults.ordered() if fault.code in (Code.UNKNOWN_KEY, Code.WRONG_TYPE)
    }
    return replace(tests, hides_names=bool(unread) and _hides_names(tree, unread))


def _hides_names(tree: YamlMap | YamlList, unread: AbstractSet[tuple[int, int]]) -> bool:
    """Returns whether a map or list that holds something stands at one of these places, or behind a key there."""
    if isinstance(tree, YamlMap):
        parts = [(tree.keys[key], value) for key, value in tree.entries.items()]
    else:
        parts = [(item.place, item) for item in tree.items]
    return any(
        not {(place.line, place.column), (part.place.line, part.place.column)}.isdisjoint(unread)
        or _hides_names(part, unread)
        for place, part in parts
        if not isinstance(part, YamlScalar) and (part.entries if isinstance(part, YamlMap) else part.items)
    )


_Deed: TypeAlias = tuple[str, Callable[[Simulation], None]]


def _document(entries: Entries, name: str) -> Document:
    tree = entries.tree(name)
    return Document.of(None if tree is None else plain_value(tree))


def _signal(entries: Entries) -> _Deed:
    name, payload = entries.text("signal") or "", _document(entries, "payload")
    return f"signal {name}", lambda simulation: simulation.signal(name, payload)


def _cancel(entries: Entries) -> _Deed:
    given = entries.duration("grace")
    grace_ms = _GRACE_MS if given is None else given
    return "cancel", lambda simulation: simulation.cancel(grace_ms=grace_ms)


def _pause(entries: Entries) -> _Deed:
    stop_clock = entries.boolean("pause_clock") or False
    return "pause", lambda simulation: simulation.pause(stop_clock=stop_clock)


def _resume(_entries: Entries) -> _Deed:
    return "resume", lambda simulation: simulation.resume()


def _skip(entries: Entries) -> _Deed:
    path, output = entries.text("skip") or "", _document(entries, "output")
    return f"skip of {path}", lambda simulation: simulation.skip(path, output)


def _retry(entries: Entries) -> _Deed:
    chosen, render_inputs = entries.texts("from") or (), entries.boolean("render_inputs") or False
    return "retry", lambda simulation: simulation.retry(chosen, render_inputs=render_inputs)


_ACTS: Mapping[str, Callable[[Entries], _Deed]] = {
    "signal": _signal,
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "skip": _skip,
    "retry": _retry,
}
_GO_WITH: Mapping[str, str] = {
    "payload": "signal",
    "grace": "cancel",
    "pause_clock": "pause",
    "output": "skip",
    "from": "retry",
    "render_inputs": "retry",
}


class _Reader:
    """Reads one file."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._mentions: list[Mention] = []

    def file(self, tree: YamlMap) -> TestFile:
        entries = Entries(self._reading, tree, language.FILE, "a test file", is_file=True)
        shared = self._mocks(entries)
        found: dict[str, Case] = {}
        for item in self._maps(entries, "cases"):
            case = self._case(item, shared)
            if case.name in found:
                message = f"two cases have the name {case.name}"
                self._fault(case.place, Code.WRONG_VALUE, message, "give each a name of its own")
            found[case.name] = case
        if entries.list("cases") is not None and not found and not self._reading.faults.fatal():
            self._fault(entries.place_of("cases"), Code.WRONG_VALUE, "there is no case", "add `- name: …`")
        return TestFile(
            workflow=entries.text("workflow") or "",
            workflow_place=entries.place_of("workflow"),
            children=tuple(self._texts(entries, "children") or ()),
            cases=tuple(found.values()),
            mentions=tuple(self._mentions),
        )

    def _case(self, tree: YamlMap, shared: Mapping[str, Mock]) -> Case:
        entries = self._entries(tree, language.CASE, "a case")
        wanted = entries.map("expect")
        outcome, expectations = self._expectations(wanted, tree.place)
        given = entries.tree("input")
        every_order = entries.word("interleavings") == "all"
        if "limit" in entries and not every_order:
            where, message = entries.place_of("limit"), "limit goes with interleavings: all"
            self._fault(where, Code.CONTRADICTION, message, "add that, or remove it")
        return Case(
            place=tree.place,
            name=entries.text("name") or "",
            input=EMPTY if given is None else Document.of(plain_value(given)),
            mocks=(self._mocks(entries), shared),
            acts=tuple(self._act(item) for item in self._maps(entries, "at")),
            crashes=self._crashes(entries),
            starts_at=self._instant(entries, "starts_at"),
            until_ms=entries.duration("until"),
            seed=entries.integer("seed"),
            order=entries.texts("order") or (),
            order_place=entries.place_of("order"),
            every_order=every_order,
            limit=entries.integer("limit") or _LIMIT,
            outcome=outcome,
            expectations=expectations,
        )

    # --- what happens

    def _mocks(self, entries: Entries) -> dict[str, Mock]:
        tree = entries.map("mocks")
        if tree is None:
            return {}
        for name, place in tree.keys.items():
            self._mention(name, place, Naming.MOCKED)
        return {name: self._mock(name, value) for name, value in tree.entries.items()}

    def _mock(self, name: str, tree: Yaml) -> Mock:
        if not (isinstance(tree, YamlMap) and "in_turn" in tree.entries):
            return Mock(place=tree.place, turns=(self._attempts(name, tree),), for_all=True)
        entries = self._entries(tree, language.MOCK, "a mock")
        others = [key for key in tree.entries if key != "in_turn"]
        if others:
            message, remedy = f"in_turn and {others[0]} exclude each other", "write it in each entry of in_turn"
            self._fault(entries.place_of(others[0]), Code.CONTRADICTION, message, remedy)
        turns = entries.list("in_turn")
        if turns is not None and not turns.items:
            self._fault(turns.place, Code.WRONG_VALUE, "in_turn is empty", "write {output: …} or {fails: …}")
        given = () if turns is None else turns.items
        return Mock(place=tree.place, turns=tuple(self._attempts(name, item) for item in given), for_all=False)

    def _attempts(self, name: str, tree: Yaml) -> Attempts:
        items = tree.items if isinstance(tree, YamlList) else (tree,)
        if not items:
            self._fault(tree.place, Code.WRONG_VALUE, f"the mock of {name} is empty", "write {output: …} or {fails: …}")
        results: list[Result] = []
        for item in items:
            if isinstance(item, YamlMap):
                results.append(self._result(item))
            else:
                remedy = "write {output: …} or {fails: …}, or a list of them, one for each attempt"
                self._fault(item.place, Code.WRONG_TYPE, f"the mock of {name} must be a map", remedy)
        return tuple(results) or (Result(place=tree.place, output=Literal(value=None)),)

    def _result(self, tree: YamlMap) -> Result:
        entries = self._entries(tree, language.RESULT, "a mock")
        self._at_most_one(entries, ("output", "fails", "hangs", "real"))
        self._at_most_one(entries, ("hangs", "takes"))
        result = Result(
            place=tree.place,
            output=entries.template("output") or Literal(value=None),
            failure=self._failure(entries),
            hangs=entries.boolean("hangs") or False,
            real=entries.boolean("real") or False,
            takes_ms=entries.duration("takes") or 0,
            queued_ms=entries.duration("queued") or 0,
            heartbeats=tuple(self._heartbeat(item) for item in self._maps(entries, "heartbeats")),
        )
        for site in self._reading.templates.take_sites():
            for mention in site.mentions:
                if mention.path[0] != "input":
                    message = f"a mock does not know {mention.path[0]}"
                    remedy = "what the handler is given is `input`"
                    self._fault(mention.place, Code.UNKNOWN_REFERENCE, message, remedy)
        return result

    def _heartbeat(self, tree: YamlMap) -> Heartbeat:
        entries = self._entries(tree, language.HEARTBEAT, "a heartbeat")
        if "until" in entries and "every" not in entries:
            self._fault(entries.place_of("until"), Code.CONTRADICTION, "until goes with every", "remove it")
        after, every, checkpoint = entries.duration("after"), entries.duration("every"), entries.tree("checkpoint")
        first, until = every if after is None else after, entries.duration("until")
        if first is not None and until is not None and until < first:
            self._fault(entries.place_of("until"), Code.CONTRADICTION, "until is before the first", "write a later one")
        return Heartbeat(
            after_ms=first or 0,
            every_ms=every,
            until_ms=until,
            progress=checkpoint is not None or entries.boolean("progress") or False,
            checkpoint=None if checkpoint is None else Document.of(plain_value(checkpoint)),
        )

    def _failure(self, entries: Entries) -> MockedFailure | None:
        tree = entries.map("fails")
        if tree is None:
            return None
        fields = self._entries(tree, language.FAILURE, "a failure")
        details = fields.map("details")
        return MockedFailure(
            failure_class=FailureClass(fields.word("class") or FailureClass.EXEC_FAILED),
            type=fields.text("type") or "Failed",
            message=fields.template("message") or Literal(value="mocked"),
            details={}
            if details is None
            else {name: self._reading.templates.template(value) for name, value in details.entries.items()},
            final=fields.boolean("final") or False,
        )

    def _act(self, tree: YamlMap) -> Act:
        entries = self._entries(tree, language.ACT, "an act")
        self._exactly_one(entries, tuple(_ACTS), "an act")
        kind = next((name for name in _ACTS if name in entries), "cancel")
        for key, goes_with in _GO_WITH.items():
            if key in entries and goes_with != kind:
                self._fault(entries.place_of(key), Code.CONTRADICTION, f"{key} goes with {goes_with}", "remove it")
        if kind not in ("signal", "skip") and entries.boolean(kind) is False:
            self._fault(entries.place_of(kind), Code.WRONG_VALUE, f"{kind} can only be true", "leave the act out")
        run = entries.text("run") or ""
        if run:
            self._mention(run, entries.place_of("run"), Naming.RUN)
        self._names(entries, "from", run)
        if "skip" in entries and (path := entries.text("skip")):
            self._mention(in_run(run, path), entries.place_of("skip"))
        label, do = _ACTS[kind](entries)
        return Act(
            place=tree.place,
            after_ms=entries.duration("after") or 0,
            run=run,
            label=label + whose("", the_run(run)),
            do=do,
            refused=Refused(entries.word("refused") or Refused.NEVER),
        )

    def _crashes(self, entries: Entries) -> dict[tuple[str, int], Crash]:
        crashes: dict[tuple[str, int], Crash] = {}
        for item in self._maps(entries, "crashes"):
            fields = self._entries(item, language.CRASH, "a crash")
            node, attempt = fields.text("node") or "", fields.integer("attempt") or 1
            self._mention(node, fields.place_of("node"), Naming.WORKED)
            if (node, attempt) in crashes:
                message = f"two crashes are around attempt {attempt} of {node}"
                self._fault(item.place, Code.CONTRADICTION, message, "keep one")
            crashes[node, attempt] = Crash(fields.word("crash") or Crash.WORKER_DIES)
        return crashes

    def _instant(self, entries: Entries, name: str) -> datetime:
        text = entries.text(name)
        try:
            instant = START if text is None else datetime.fromisoformat(text)
        except ValueError:
            instant = None
        if instant is not None and instant.tzinfo is not None:
            return instant
        message = f"{name} must be an instant with its offset"
        self._fault(entries.place_of(name), Code.WRONG_VALUE, message, "write 2030-01-31T09:00:00+01:00")
        return START

    # --- what must come of it

    def _expectations(self, tree: YamlMap | None, place: Place) -> tuple[Outcome, tuple[Expectation, ...]]:
        if tree is None:
            return Outcome.SUCCEEDED, (expecting.expect_outcome(place, Outcome.SUCCEEDED),)
        entries = self._entries(tree, language.EXPECT, "an expectation")
        outcome = Outcome(entries.word("outcome") or Outcome.SUCCEEDED)
        found = [expecting.expect_outcome(entries.place_of("outcome"), outcome)]
        found += self._run(entries, "", "")
        for name in ("path", "path_has"):
            names = self._names(entries, name)
            if names is not None:
                path = [each for each, _ in names]
                found.append(expecting.expect_path(entries.place_of(name), path, part=name == "path_has"))
        for name, where in self._texts(entries, "never") or ():
            self._mention(name, where, Naming.NODE)
            found.append(expecting.expect_never(where, name))
        if (nodes := entries.map("nodes")) is not None:
            for name, value in nodes.entries.items():
                self._mention(name, nodes.keys[name])
                found += self._node(name, value)
        if (runs := entries.map("runs")) is not None:
            for name, value in runs.entries.items():
                self._mention(name, runs.keys[name], Naming.RUN)
                found += self._child(name, value)
        found += [self._call(item) for item in self._maps(entries, "calls")]
        self._at_most_one(entries, ("duration", "within"))
        for name in ("duration", "within"):
            wanted = entries.duration(name)
            if wanted is not None:
                found.append(expecting.expect_duration(entries.place_of(name), wanted, at_most=name == "within"))
        return outcome, tuple(found)

    def _run(self, entries: Entries, run: str, of: str) -> list[Expectation]:
        """What a run gave, or how it failed."""
        found = self._values(entries, of, lambda played: played.result_of(run))
        return found + self._error(entries, f"{of}error", lambda played: played.fault_of(run), language.RUN_ERROR, run)

    def _child(self, run: str, tree: Yaml) -> list[Expectation]:
        if not isinstance(tree, YamlMap):
            message = f"what is expected of the run of {run} must be a map"
            self._fault(tree.place, Code.WRONG_TYPE, message, "write {outcome: succeeded}")
            return []
        entries = self._entries(tree, language.RUN, "what is expected of a run")
        found = self._run(entries, run, f"{run}: ")
        outcome = entries.word("outcome")
        if outcome is not None:
            place = entries.place_of("outcome")
            found.insert(0, expecting.expect_outcome(place, Outcome(outcome), run=run, what=f"{run}: outcome"))
        return found

    def _values(self, entries: Entries, of: str, get: Callable[[Played], Json]) -> list[Expectation]:
        found: list[Expectation] = []
        self._at_most_one(entries, ("output", "output_has"))
        for name in ("output", "output_has"):
            tree = entries.tree(name)
            if tree is not None:
                part = name == "output_has"
                found.append(expecting.expect_value(tree.place, f"{of}{name}", plain_value(tree), get, part=part))
        return found

    def _error(
        self,
        entries: Entries,
        what: str,
        get: Callable[[Played], dict[str, Json]],
        keys: tuple[Field, ...] = language.NODE_ERROR,
        run: str = "",
    ) -> list[Expectation]:
        tree = entries.map("error")
        if tree is None:
            return []
        is_of_run = keys is language.RUN_ERROR
        fields = self._entries(tree, keys, f"the expected error of a {'run' if is_of_run else 'node'}")
        fields.word("class")
        if is_of_run:
            self._names(fields, "paths", run)
        found: list[Expectation] = []
        for name, value in tree.entries.items():
            if name == "says":
                text = fields.text(name)
                if text is not None:
                    found.append(
                        expecting.expect_says(value.place, f"{what}.says", text, lambda played: get(played)["message"])
                    )
            elif name in fields:
                found.append(
                    expecting.expect_value(
                        value.place,
                        f"{what}.{name}",
                        plain_value(value),
                        lambda played, name=name: get(played).get(name),
                        part=True,
                    )
                )
        return found

    def _node(self, path: str, tree: Yaml) -> list[Expectation]:
        if not isinstance(tree, YamlMap):
            self._fault(
                tree.place, Code.WRONG_TYPE, f"what is expected of {path} must be a map", "write {state: succeeded}"
            )
            return []
        entries = self._entries(tree, language.NODE, "what is expected of a node")
        found: list[Expectation] = []
        state, attempts = entries.word("state"), entries.integer("attempts")
        if state is not None:
            found.append(
                expecting.expect_value(
                    entries.place_of("state"), f"{path}.state", state, lambda played: played.state_of(path)
                )
            )
        found += self._values(entries, f"{path}.", lambda played: played.output_of(path))
        found += self._error(entries, f"{path}.error", lambda played: played.error_of(path))
        if attempts is not None:

            def count(played: Played) -> Json:
                row = played.task(path)
                return 0 if row is None else row.attempt

            found.append(expecting.expect_value(entries.place_of("attempts"), f"{path}.attempts", attempts, count))
        return found

    def _call(self, tree: YamlMap) -> Expectation:
        entries = self._entries(tree, language.CALL, "an expected call")
        self._exactly_one(entries, ("handler", "node"), "an expected call")
        self._at_most_one(entries, ("input", "input_has"))
        handler, node = entries.text("handler"), entries.text("node")
        if node is not None:
            self._mention(node, entries.place_of("node"), Naming.CALLED)
        elif handler is not None:
            self._mention(handler, entries.place_of("handler"), Naming.HANDLER)
        exact, part = entries.tree("input"), entries.tree("input_has")
        given = None if exact is None and part is None else exact or part
        checkpoint = entries.tree("checkpoint")
        return expecting.expect_calls(
            tree.place,
            f"calls of {node or handler}",
            (lambda call: node in (call.path, place_of(call.path)))
            if node is not None
            else (lambda call: call.handler == handler),
            entries.integer("times"),
            None if given is None else (plain_value(given), exact is None),
            None if checkpoint is None else (plain_value(checkpoint),),
        )

    # --- entries

    def _names(self, entries: Entries, name: str, run: str = "") -> list[tuple[str, Place]] | None:
        """A list of nodes of a run, each with its place."""
        found = self._texts(entries, name)
        for text, place in found or ():
            self._mention(in_run(run, text), place)
        return found

    def _texts(self, entries: Entries, name: str) -> list[tuple[str, Place]] | None:
        """A list of texts, each with its place."""
        if entries.texts(name) is None:
            return None
        tree = entries.list(name)
        return [
            (item.value, item.place)
            for item in (tree.items if tree is not None else ())
            if isinstance(item, YamlScalar) and isinstance(item.value, str)
        ]

    def _maps(self, entries: Entries, name: str) -> list[YamlMap]:
        tree = entries.list(name)
        found: list[YamlMap] = []
        for item in tree.items if tree is not None else ():
            if isinstance(item, YamlMap):
                found.append(item)
            else:
                self._fault(item.place, Code.WRONG_TYPE, f"{name} must hold maps", "write {key: value}")
        return found

    def _entries(self, tree: YamlMap, fields: tuple[Field, ...], what: str) -> Entries:
        return Entries(self._reading, tree, fields, what)

    def _exactly_one(self, entries: Entries, names: tuple[str, ...], what: str) -> None:
        self._at_most_one(entries, names)
        if not any(name in entries for name in names):
            self._fault(entries.place, Code.MISSING_KEY, f"{what} needs one of {', '.join(names)}", "add one")

    def _at_most_one(self, entries: Entries, names: tuple[str, ...]) -> None:
        given = [name for name in names if name in entries]
        if len(given) > 1:
            message = f"{' and '.join(given)} exclude each other"
            self._fault(entries.place_of(given[1]), Code.CONTRADICTION, message, "keep one")

    def _mention(self, name: str, place: Place, naming: Naming = Naming.TASK) -> None:
        self._mentions.append(Mention(place=place, name=name, naming=naming))

    def _fault(self, place: Place, code: Code, message: str, remedy: str) -> None:
        self._reading.faults.add(place, code, message, remedy)
