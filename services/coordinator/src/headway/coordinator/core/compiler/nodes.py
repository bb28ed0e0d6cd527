"""Reads the nodes of a source: everything about a node that needs no other node."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.drafts import BodyDraft, CaseDraft, NodeDraft, Target, with_bodies
from headway.coordinator.core.compiler.faults import Code, nearest
from headway.coordinator.core.compiler.fields import Entries, Reading, check_name, cut, spell
from headway.coordinator.core.compiler.habits import WORDS, instead_of_type, normal, says_order, type_by_key
from headway.coordinator.core.compiler.language import Field
from headway.coordinator.core.compiler.policies import lease_within, read_retry, read_timeouts
from headway.coordinator.core.compiler.python_code import complaint_about, templates_in
from headway.coordinator.core.compiler.schema import check_schema
from headway.coordinator.core.compiler.template_parser import Located, Site, object_of, offset_of
from headway.coordinator.core.compiler.waits import read_wait
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlMap, YamlScalar
from headway.coordinator.core.plan import (
    FINALLY,
    LOOP_NODES,
    Expression,
    Json,
    Literal,
    Node,
    NodeType,
    Place,
    Template,
    TimeOuts,
)

_HANDLER = re.compile(language.HANDLER_PATTERN)
_QUEUE = re.compile(language.QUEUE_PATTERN)
_EVENT = re.compile(language.EVENT_PATTERN)
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_NONE = "none"
_KINDS = tuple(language.NODES.items())
_LAST_LINE = 1 << 31
_WITHOUT_TEMPLATES = ("type", "code", "cases", "body")


_NO_BODY = BodyDraft(nodes={}, edges=None, single=False, result=(), repeats=())
_KEYS_OF_NODES = {field.name for kind in language.NODES.values() for field in kind.fields} - {
    field.name for field in language.LAST
}


def read_nodes(reading: Reading, tree: YamlMap, depth: int = 0) -> dict[str, NodeDraft]:
    """Returns the nodes by id, in written order; each as complete as its faults allow. depth: of bodies around."""
    if not tree.entries:
        reading.faults.add(tree.place, Code.NO_NODES, "a workflow has at least one node", "add one under nodes:")
    if len(tree.entries) > language.MAX_NODES:
        message = f"{len(tree.entries)} nodes; at most {language.MAX_NODES} are allowed"
        reading.faults.add(tree.place, Code.TOO_LARGE, message, "split the workflow")
        return {}
    drafts: dict[str, NodeDraft] = {}
    astray = _keys_beside_nodes(reading, tree)
    for name, value in tree.entries.items():
        place = tree.keys[name]
        if name in astray:
            drafts[astray[name]] = replace(drafts[astray[name]], is_whole=False)
            continue
        if name == "edges" and isinstance(value, YamlList):
            message, remedy = "edges stands among the nodes", "indent it less: it stands beside nodes:"
            reading.faults.add(place, Code.UNKNOWN_KEY, message, remedy)
            reading.faults.close(value.place)
        check_name(reading, name, place, "a node")
        drafts[name] = _read_node(reading, name, place, value, depth)
    return drafts


def _keys_beside_nodes(reading: Reading, tree: YamlMap) -> dict[str, str]:
    """Says which keys of nodes stand beside their nodes, not below them; returns the node of each."""
    astray: dict[str, str] = {}
    owner = ""
    for name, value in tree.entries.items():
        place = tree.keys[name]
        if isinstance(value, YamlScalar) and value.value is None:
            owner = name
        elif name not in _KEYS_OF_NODES or (isinstance(value, YamlMap) and "type" in value.entries) or not owner:
            owner = ""
        else:
            if not astray or owner not in astray.values():
                message = f"{name} stands beside {owner}, not below it"
                remedy = "indent the keys of each node deeper than its name"
                reading.faults.add(place, Code.WRONG_TYPE, message, remedy)
            astray[name] = owner
    if astray:
        for value in tree.entries.values():
            if isinstance(value, YamlScalar) and value.value is None:
                reading.faults.close(value.place)
        lines = range(min(place.line for place in tree.keys.values()), _LAST_LINE)
        reading.faults.withdraw(Code.DUPLICATE_KEY, tree.place.column, lines)
    return astray


def _read_node(reading: Reading, name: str, place: Place, tree: Yaml, depth: int) -> NodeDraft:
    bare = NodeDraft(node=Node(id=name, type=NodeType.CALL), place=place, is_whole=False)
    if not isinstance(tree, YamlMap):
        remedy = f"write {name}: {{type: call, …}}"
        if isinstance(tree, YamlList):
            remedy += ", without a dash"
        reading.faults.add(tree.place, Code.WRONG_TYPE, f"the node {name} must be a map", remedy)
        return bare
    node_type = _read_type(reading, name, place, tree)
    if node_type is None:
        return replace(bare, sites=_read_templates(reading, tree))
    if node_type in LOOP_NODES and depth == language.MAX_NESTING:
        message = f"maps and repeats lie {depth + 1} deep in one another; at most {language.MAX_NESTING} may"
        reading.faults.add(place, Code.TOO_DEEP, message, "let an inner one follow an outer one")
        return bare
    fields = language.NODES[node_type].fields
    entries = Entries(reading, tree, fields, f"a {node_type.value} node", place, name)
    reading.templates.take_sites()
    bare = replace(bare, node=Node(id=name, type=node_type), is_whole=True)
    if node_type in LOOP_NODES:
        draft = _read_loop(reading, entries, bare, depth)
    else:
        draft = _READERS[node_type](reading, entries, bare)
    places = {key: value.place for key, value in tree.entries.items()}
    known = {field.name for field in fields}
    is_whole = draft.is_whole and not any(says_order(key) for key in tree.entries if key not in known)
    sites = (*draft.sites, *reading.templates.take_sites())
    return replace(draft, places=places, sites=sites, is_whole=is_whole)


def _read_templates(reading: Reading, tree: YamlMap) -> tuple[Site, ...]:
    """Returns the expressions in a node of which nothing else is known."""
    reading.templates.take_sites()
    for key, value in tree.entries.items():
        if key not in _WITHOUT_TEMPLATES:
            reading.templates.template(value)
    return reading.templates.take_sites()


def _read_type(reading: Reading, name: str, place: Place, tree: YamlMap) -> NodeType | None:
    written = tree.entries.get("type")
    known = tuple(each.value for each in NodeType)
    if written is None:
        _say_without_type(reading, name, place, tree)
        return None
    if isinstance(written, YamlScalar) and isinstance(written.value, str) and written.value in known:
        return NodeType(written.value)
    spelt = spell(written.value) if isinstance(written, YamlScalar) else "a map or list"
    message = f"there is no node type {cut(spelt)}"
    remedy = instead_of_type(spelt) or nearest(spelt, known)
    reading.faults.add(written.place, Code.UNKNOWN_NODE_TYPE, message, remedy)
    return None


def _say_without_type(reading: Reading, name: str, place: Place, tree: YamlMap) -> None:
    """Says that a node has no type, and which one it seems to be by its keys."""
    near = next((key for key in tree.entries if key.casefold().partition(":")[0] == "type"), None)
    if near is not None:
        remedy = "write a space behind the colon" if ":" in near else "write type, in small letters"
        message = f"unknown key {cut(near)} in the node {name}"
        reading.faults.add(tree.keys[near], Code.UNKNOWN_KEY, message, remedy)
        return
    own = {kind: {field.name for field in node.fields if field.required} - {"type"} for kind, node in _KINDS}
    likely = [kind for kind, keys in own.items() if keys and keys <= tree.entries.keys()]
    kinds = likely or list(own)
    remedy = f"add type: {', '.join(kinds[:-1])}{' or ' if kinds[:-1] else ''}{kinds[-1]}"
    remedy = remedy if likely else type_by_key(tree.entries) or remedy
    reading.faults.add(place, Code.MISSING_KEY, f"the node {name} needs the key type", remedy)


# Worker nodes


def _read_call(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    handler = _named(reading, entries, "handler", _HANDLER, "letters, digits and _ . : / -")
    if handler is not None and handler.startswith(language.OWN_HANDLERS):
        message = f"handlers beginning with {language.OWN_HANDLERS} are Headway's own"
        reading.faults.add(entries.place_of("handler"), Code.RESERVED_NAME, message, "use the type http or python")
    return _worker(reading, entries, draft, handler or "", entries.template("input"))


def _read_http(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    tree = entries.map("request")
    request = _read_request(reading, tree) if tree is not None else Literal(value=None)
    return _worker(reading, entries, draft, "headway.http", request)


def _read_request(reading: Reading, tree: YamlMap) -> Template:
    entries = Entries(reading, tree, language.REQUEST, "a request")
    members: dict[str, Template] = {"method": Literal(value=entries.word("method") or "GET")}
    for name, wanted in (("url", str), ("headers", dict), ("query", dict), ("body", object)):
        value = entries.template(name)
        if value is None:
            continue
        if isinstance(value, Literal) and not isinstance(value.value, wanted):
            message, remedy = f"{name} must be a map", f"write {name}: {{name: value}}"
            if wanted is str:
                message, remedy = f"{name} must be text", f"write {name}: https://…"
            entries.wrong(entries.place_of(name), f"{message}, this is {_shown(value.value)}", remedy)
        if name == "headers" and isinstance(value, Literal) and isinstance(value.value, dict):
            wrong = next((key for key, each in value.value.items() if not isinstance(each, str | int | float)), None)
            if wrong is not None:
                message = f"the header {cut(wrong)} must be text or a number"
                entries.wrong(entries.place_of(name), message, "put it in quotes, or leave it out")
        members[name] = value
    statuses = entries.integers("expect")
    if statuses is not None:
        members["expect"] = Literal(value=[*statuses])
    timeout_ms = entries.duration("timeout")
    if timeout_ms is not None:
        members["timeout"] = Literal(value=timeout_ms / 1_000)  # the handler counts in seconds
    return object_of(members)


def _shown(value: Json) -> str:
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else spell(value)


def _read_python(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    code = entries.source_text("code")
    tree = entries.tree("code")
    if code is not None and isinstance(tree, YamlScalar):
        text = Located(reading.source, tree, code)
        if (found := complaint_about(code)) is not None:
            place = text.place(offset_of(code, found.line, found.column))
            reading.faults.add(place, Code.WRONG_VALUE, found.message, found.remedy)
        for offset, written, remedy in templates_in(code):
            message = f"code holds no templates: {cut(written)} stays text"
            reading.faults.add(text.place(offset), Code.NOT_A_TEMPLATE, message, remedy, warning=True)
    given = entries.template("input") or Literal(value=None)
    # Built by hand: code is never looked at for templates, and must not become one.
    return _worker(reading, entries, draft, "headway.python", object_of({"code": Literal(value=code), "input": given}))


def _worker(reading: Reading, entries: Entries, draft: NodeDraft, handler: str, given: Template | None) -> NodeDraft:
    default_queue = language.NODES[draft.node.type].default_queue
    if draft.node.type is NodeType.CALL:  # the others' workers are Headway's own
        default_queue = reading.defaults.queue or default_queue
    queue = read_queue(reading, entries)
    undo = read_target(entries, "compensate") if "compensate" in entries else None
    timeouts = read_timeouts(reading, entries)
    if draft.node.type is not NodeType.CALL:
        timeouts = _without_silence(reading, entries, timeouts)
    node = replace(
        draft.node,
        handler=handler,
        input=given,
        queue=queue or default_queue,
        lease_ms=lease_within(reading, entries, timeouts, draft.node.lease_ms),
        retry=read_retry(reading, entries, replace(draft.node, input=given)),
        timeouts=timeouts,
        optional=entries.boolean("optional") or False,
        output_schema=read_schema(reading, entries, "output_schema"),
        compensate=None if undo is None else undo.node,
    )
    return replace(draft, node=node)


def _without_silence(reading: Reading, entries: Entries, timeouts: TimeOuts) -> TimeOuts:
    """Only handlers of one's own send heartbeats."""
    if "timeout" in entries and not timeouts.heartbeat_ms is timeouts.stall_ms is None:
        message = "heartbeat and stall are time-outs of call nodes: no other sends heartbeats"
        reading.faults.add(entries.place_of("timeout"), Code.CONTRADICTION, message, "set attempt instead")
    return replace(timeouts, heartbeat_ms=None, stall_ms=None)


# Control nodes


def _read_switch(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    found = entries.list("cases")
    cases: list[CaseDraft] = []
    astray: list[Site] = []
    is_whole = "default" in entries
    if found is not None and not found.items:
        reading.faults.add(found.place, Code.WRONG_VALUE, "a switch has at least one case", "add {when: …, to: …}")
    for item in found.items if found is not None else ():
        if not isinstance(item, YamlMap):
            entries.wrong(item.place, "a case must be a map", "write {when: …, to: …}")
            is_whole = False
            continue
        case = Entries(reading, item, language.CASE, "a case")
        when, to = case.condition("when"), read_target(case, "to")
        sites = reading.templates.take_sites()
        is_whole = is_whole and to is not None
        if to is None:
            astray += sites
        else:
            never = Expression(source="false", reads=(), place=item.place)
            cases.append(CaseDraft(when=when or never, to=to, sites=sites))
    default = _read_default(entries) if "default" in entries else None
    is_whole = is_whole and found is not None and default is not None
    if default is not None and default.node == _NONE:
        default = None
    return replace(draft, cases=tuple(cases), default=default, is_whole=is_whole, sites=tuple(astray))


def _read_default(entries: Entries) -> Target | None:
    tree = entries.tree("default")
    if isinstance(tree, YamlScalar) and tree.value is None:
        entries.wrong(tree.place, "default must be a node, or none", WORDS["default"]["null"])
        return None
    return read_target(entries, "default")


def _read_join(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    draft = _read_need(reading, entries, draft)
    if entries.word("rest") != "cancel":
        return draft
    if "need" not in entries or draft.node.need is None:
        message = "rest goes with need: any or a number: with all, there is no rest"
        reading.faults.add(entries.place_of("rest"), Code.CONTRADICTION, message, "add need, or remove rest")
    return replace(draft, node=replace(draft.node, cancels_rest=True))


def _read_need(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    tree = entries.tree("need")
    if tree is None or (isinstance(tree, YamlScalar) and tree.value == "all"):
        return draft
    if isinstance(tree, YamlScalar) and tree.value == "any":
        return replace(draft, node=replace(draft.node, need=1))
    if isinstance(tree, YamlScalar) and isinstance(tree.value, int) and not isinstance(tree.value, bool):
        need = entries.integer("need")
        return replace(draft, node=replace(draft.node, need=need))
    written = tree.value if isinstance(tree, YamlScalar) else None
    remedy = WORDS["need"].get(normal(str(written)), "write need: 2")
    reading.faults.add(tree.place, Code.WRONG_VALUE, "need must be all, any or a number", remedy)
    return draft


def _read_set(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    found = entries.map("values")
    values: dict[str, Template] = {}
    for name, value in found.entries.items() if found is not None else ():
        check_name(reading, name, found.keys[name] if found is not None else draft.place, "a variable")
        values[name] = reading.templates.template(value)
    if found is not None and not values:
        reading.faults.add(found.place, Code.WRONG_VALUE, "a set node sets at least one variable", "add name: value")
    return replace(draft, node=replace(draft.node, values=values))


def _read_finish(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    outcome = (entries.word("outcome") or "") if "outcome" in entries else "succeeded"  # empty: not known
    message = entries.template("message")
    if message is not None and outcome == "succeeded":
        remedy = "add outcome: failed, or move it to output"
        reading.faults.add(entries.place_of("message"), Code.CONTRADICTION, "message goes with outcome: failed", remedy)
    node = replace(draft.node, outcome=outcome, output=entries.template("output"), message=message)
    return replace(draft, node=node)


# Wait nodes


def _read_wait_for_event(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    given = entries.template("event") if "event" in entries else None
    is_computed = given is not None and not isinstance(given, Literal)
    event = None if is_computed else _named(reading, entries, "event", _EVENT, "letters, digits and _ . : / -")
    node = replace(
        draft.node,
        event=event or "",
        event_name=given if is_computed else None,
        filter=entries.condition("filter"),
        payload_schema=read_schema(reading, entries, "payload_schema"),
        count=entries.integer("count"),
        reuse=entries.boolean("reuse") or False,
        timeouts=TimeOuts(total_ms=entries.duration("timeout")),
    )
    return replace(draft, node=node)


def _read_subflow(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    name, version = entries.text("workflow"), entries.integer("version")
    is_named = name is not None and check_name(reading, name, entries.place_of("workflow"), "a workflow")
    is_named = is_named and (version is not None or "version" not in entries)
    undo = read_target(entries, "compensate") if "compensate" in entries else None
    found = entries.map("labels")
    labels = {} if found is None else {key: reading.templates.template(value) for key, value in found.entries.items()}
    node = replace(
        draft.node,
        child_workflow=name if is_named and name is not None else "",
        child_version=version or 0,
        input=entries.template("input"),
        labels=labels,
        key=entries.template("key"),
        detach=entries.boolean("detach") or False,
        retry=read_retry(reading, entries, draft.node) if "retry" in entries else draft.node.retry,
        timeouts=TimeOuts(total_ms=entries.duration("timeout")),
        output_schema=read_schema(reading, entries, "output_schema"),
        optional=entries.boolean("optional") or False,
        compensate=None if undo is None else undo.node,
    )
    return replace(draft, node=node)


# Maps and repeats


def _read_loop(reading: Reading, entries: Entries, draft: NodeDraft, depth: int) -> NodeDraft:
    templates = reading.templates
    tree = entries.map("body")
    body = _NO_BODY if tree is None else _read_body(reading, tree, language.BODY, "a body", depth + 1)[0]
    nodes = body.nodes
    templates.take_sites()
    output, ends_when = entries.template("output"), None
    node = replace(
        draft.node,
        output=output,
        optional=entries.boolean("optional") or False,
        timeouts=TimeOuts(total_ms=entries.duration("timeout")),
    )
    repeats: tuple[Site, ...] = ()
    if node.type is NodeType.MAP:
        result = templates.take_sites()
        where = entries.condition("where")
        repeats = templates.take_sites()
        node = _read_map(reading, entries, replace(node, where=where))
    else:
        ends_when = entries.condition("until")
        result = templates.take_sites()
        again_while = entries.condition("while")
        repeats = templates.take_sites()
        node = _read_repeat(reading, entries, replace(node, ends_when=ends_when, again_while=again_while))
    if "keep_last" in entries and any(inner.body is not None for inner in nodes.values()):
        message = "keep_last cannot stand where a map or repeat is in the body"
        reading.faults.add(entries.place_of("keep_last"), Code.CONTRADICTION, message, "move it to the inner repeat")
    if "keep_last" in entries and any(inner.node.compensate is not None for inner in nodes.values()):
        message = "keep_last cannot stand where a node of the body is undone: its rows would be gone by then"
        remedy = "remove keep_last, or compensate"
        reading.faults.add(entries.place_of("keep_last"), Code.CONTRADICTION, message, remedy)
    if "keep_last" in entries and any(inner.node.count is not None for inner in nodes.values()):
        message = "keep_last cannot stand where a node of the body counts signals"
        remedy = "remove it: what was counted is known by the rows of its iterations"
        reading.faults.add(entries.place_of("keep_last"), Code.CONTRADICTION, message, remedy)
    body = replace(body, result=result, repeats=repeats)
    return replace(draft, node=node, body=body, is_whole=bool(nodes) or draft.is_whole)


def _read_body(
    reading: Reading, tree: YamlMap, fields: Sequence[Field], what: str, depth: int
) -> tuple[BodyDraft, Entries | None]:
    """Returns what lies in a map, in a repeat or in `finally`: one node, or a graph, whose entries come along."""
    if "type" in tree.entries or ("nodes" not in tree.entries and _KEYS_OF_NODES & tree.entries.keys()):
        only = {language.ONLY_NODE: _read_node(reading, language.ONLY_NODE, tree.place, tree, depth)}
        return replace(_NO_BODY, nodes=only, single=True), None
    entries = Entries(reading, tree, fields, what)
    found = entries.map("nodes")
    nodes = read_nodes(reading, found, depth) if found is not None else {}
    edges = entries.list("edges") if nodes else None
    return replace(_NO_BODY, nodes=nodes, edges=edges, has_lost_edges=entries.has_lost("edges")), entries


def read_finally(reading: Reading, outer: Entries) -> NodeDraft | None:
    """Returns what runs at the end, as a repeat of one iteration; None: nothing does."""
    tree = outer.map(FINALLY)
    if tree is None:
        return None
    body, entries = _read_body(reading, tree, language.LAST, FINALLY, 1)
    timeout_ms = entries.duration("timeout") if entries is not None else None
    for draft in with_bodies(body.nodes):
        if draft.node.type is NodeType.FINISH:
            message = f"finish cannot stand in {FINALLY}: by then it is known how the run ends"
            reading.faults.add(draft.place, Code.NOT_IN_A_BODY, message, "leave it out; a failure of its nodes counts")
    node = Node(
        id=FINALLY,
        type=NodeType.REPEAT,
        optional=True,  # what its failure means is said when it is over
        max_iterations=1,
        ends_when=Expression(source="true", reads=(), place=tree.place),
        timeouts=TimeOuts(total_ms=timeout_ms),
    )
    return NodeDraft(node=node, place=tree.place, body=body, is_whole=bool(body.nodes))


def _meant_percent(tree: Yaml | None) -> str | None:
    """Returns what share of the items was meant by `20%` or `0.2`, in percent."""
    match tree:
        case YamlScalar(value=str() as text) if found := _PERCENT.fullmatch(text):
            return found[1]
        case YamlScalar(value=float() as share) if 0 < share < 1:
            return f"{share * 100:g}"
        case _:
            return None


def _read_map(reading: Reading, entries: Entries, node: Node) -> Node:
    most = entries.integer("max_concurrency")
    tree = entries.tree("tolerate")
    count: int | None = None
    percent: float | None = None
    if isinstance(tree, YamlMap):
        inner = Entries(reading, tree, language.TOLERATE, "what is tolerated")
        count, percent = inner.integer("count"), inner.number("percent")
        if len(tree.entries) > 1:
            message = "tolerate has both count and percent"
            reading.faults.add(tree.place, Code.CONTRADICTION, message, "keep one of the two")
    elif (meant := _meant_percent(tree)) is not None:
        what = f"tolerate is a number of items, this is {spell(cast('YamlScalar', tree).value)}"
        entries.wrong(cast("YamlScalar", tree).place, what, f"write tolerate: {{percent: {meant}}}")
    elif tree is not None:
        count = entries.integer("tolerate")
    return replace(
        node,
        over=entries.template("over"),
        max_concurrency=node.max_concurrency if most is None else most,
        tolerate=count or 0,
        tolerate_percent=percent or 0,
    )


def _read_repeat(reading: Reading, entries: Entries, node: Node) -> Node:
    if "until" not in entries and "while" not in entries:
        message = f"the repeat {node.id} needs until or while"
        reading.faults.add(entries.place, Code.MISSING_KEY, message, "add until: a condition that ends it")
    return replace(
        node,
        max_iterations=entries.integer("max_iterations") or 1,
        wait_ms=entries.duration("delay"),
        keep_last=entries.integer("keep_last"),
    )


_READERS: Mapping[NodeType, Callable[[Reading, Entries, NodeDraft], NodeDraft]] = {
    NodeType.CALL: _read_call,
    NodeType.HTTP: _read_http,
    NodeType.PYTHON: _read_python,
    NodeType.SWITCH: _read_switch,
    NodeType.JOIN: _read_join,
    NodeType.SET: _read_set,
    NodeType.FINISH: _read_finish,
    NodeType.WAIT: read_wait,
    NodeType.WAIT_FOR_EVENT: _read_wait_for_event,
    NodeType.SUBFLOW: _read_subflow,
}


def read_schema(reading: Reading, entries: Entries, key: str) -> Json:
    """Returns the JSON Schema behind a key; None: there is none, and anything fits."""
    tree = entries.tree(key)
    return None if tree is None else check_schema(reading, tree, key)


def read_queue(reading: Reading, entries: Entries) -> str | None:
    """Returns the name of a queue."""
    return _named(reading, entries, "queue", _QUEUE, "small letters, digits and _ . -, at most 63")


def read_target(entries: Entries, name: str, *, is_edge: bool = False) -> Target | None:
    """Returns the node that a key names, of an edge or of a node; whether it exists is seen later."""
    tree = entries.tree(name)
    if tree is None:
        return None
    if isinstance(tree, YamlList):
        named = [str(item.value) for item in tree.items if isinstance(item, YamlScalar) and item.value]
        several = named if len(named) > 1 else ["a", "b"]
        remedy = _instead_of_several(name, several, is_edge=is_edge)
        if len(named) == len(tree.items) == 1:
            remedy = f"write {name}: {named[0]}"
        entries.wrong(tree.place, f"{name} must be one node, this is a list", remedy)
        return None
    text = entries.text(name)
    return Target(node=text, place=tree.place) if text is not None else None


def _instead_of_several(name: str, several: Sequence[str], *, is_edge: bool) -> str:
    """What to write where one node is wanted and several are named."""
    if is_edge:
        return "write one edge for each"
    if name == "compensate":
        return "name one: each node is undone by one other"
    ways = ", ".join(f"[fork, {each}]" for each in several)
    return (
        f"let it lead to one node, fork: {{type: set, values: {{forked: true}}}}, and fork behind it by edges: {ways}"
    )


def _named(reading: Reading, entries: Entries, key: str, pattern: re.Pattern[str], allowed: str) -> str | None:
    text = entries.text(key)
    if text is None or pattern.fullmatch(text):
        return text
    reading.faults.add(entries.place_of(key), Code.WRONG_VALUE, f"{key} cannot be {text!r}", f"it holds {allowed}")
    return None
