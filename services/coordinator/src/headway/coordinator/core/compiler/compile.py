"""From source to plan: the compiler's one entry, and the order of its steps."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.bookkeeping import read_labels, read_retention
from headway.coordinator.core.compiler.children import Named, check_children
from headway.coordinator.core.compiler.compensation import check_compensation, edges_for_checking
from headway.coordinator.core.compiler.drafts import BodyDraft, NodeDraft, with_bodies
from headway.coordinator.core.compiler.durations import check_durations
from headway.coordinator.core.compiler.edges import EdgeDraft, add_case_edges, read_edges
from headway.coordinator.core.compiler.faults import Code, Enough, Fault, Faults, in_order, nearest
from headway.coordinator.core.compiler.fields import Defaults, Entries, Reading, check_name
from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.compiler.long_lists import check_long_lists
from headway.coordinator.core.compiler.nodes import read_finally, read_nodes, read_queue, read_schema
from headway.coordinator.core.compiler.optional import Optionals
from headway.coordinator.core.compiler.policies import read_retry, read_timeouts
from headway.coordinator.core.compiler.reachability import check_reachability
from headway.coordinator.core.compiler.schema import check_schema, misfit_of
from headway.coordinator.core.compiler.scope import Around, ScopeCheck
from headway.coordinator.core.compiler.template_parser import TemplateParser
from headway.coordinator.core.compiler.types import Child, check_types
from headway.coordinator.core.compiler.yaml_tree import Source, YamlList, YamlMap, load_yaml
from headway.coordinator.core.plan import FINALLY, Edge, EdgeKind, Json, Literal, Node, NodeType, OnFailure, Place, Plan

_MAX_CYCLES = 5
_INSTEAD_OF_CYCLES = (
    "remove one of its edges; what is to be done again is the body of a node "
    "{type: repeat, until: …, max_iterations: 3, body: …}"
)
_HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)
# Faults of edges by which one may be missing, or lead elsewhere than it was meant to.
_OF_THE_GRAPH = (
    Code.UNKNOWN_NODE,
    Code.EDGE_NOT_ALLOWED,
    Code.MISSING_KEY,
    Code.UNKNOWN_KEY,
    Code.WRONG_TYPE,
    Code.WRONG_VALUE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """What a source compiles to.

    Attributes:
        plan: None when there is a fault that is no warning.
        draft: the plan as far as it could be compiled, whatever is wrong; None: there is nothing of it.
        faults: all that is wrong, warnings included, in the order of the source.
        named: the workflows that it runs inside; whether there are such is not known here.
    """

    plan: Plan | None
    faults: tuple[Fault, ...]
    draft: Plan | None = None
    named: tuple[Named, ...] = ()


def compile_workflow(source: str, zones: AbstractSet[str] | None = None) -> CompileResult:
    """Compiles a workflow's YAML. Never raises on any text: whatever is wrong with it is a fault, and all are found.

    Args:
        source: the YAML.
        zones: the names of all time zones; None: they are not checked.
    """
    faults = Faults()
    try:
        return _compile_source(Source(source), faults, zones)
    except Enough:
        return CompileResult(plan=None, faults=faults.ordered())


def faces(compiled: Iterable[CompileResult]) -> dict[tuple[str, int], Child]:
    """Returns what runs of those workflows take and give that can be deployed, by name and version 0."""
    plans = [each.plan for each in compiled if each.plan is not None]
    return {(plan.workflow, 0): (plan.input_schema, plan.output_schema) for plan in plans}


def hold_together(sources: Sequence[str], compiled: Sequence[CompileResult]) -> list[CompileResult]:
    """Returns what workflows compile to that belong together: their subflow nodes are held against the others.

    Args:
        sources: the YAML of each.
        compiled: what each compiles to by itself.
    """
    children = faces(compiled)
    together: list[CompileResult] = []
    for source, each in zip(sources, compiled, strict=True):
        told: tuple[Fault, ...] = ()
        if each.draft is not None and any((one.workflow, one.version) in children for one in each.named):
            told = check_children(source, each.draft, each.faults, each.named, children)
        together.append(replace(each, faults=in_order((*each.faults, *told))))
    return together


def _compile_source(text: Source, faults: Faults, zones: AbstractSet[str] | None) -> CompileResult:
    tree = load_yaml(text, faults)
    if tree is None:
        faults.say_that_checks_wait()
        return CompileResult(plan=None, faults=faults.ordered())
    reading = Reading(source=text, faults=faults, templates=TemplateParser(text, faults), zones=zones)
    if not isinstance(tree, YamlMap):
        faults.add(tree.place, Code.WRONG_TYPE, "a workflow is a map", "it begins with `workflow: name`")
        faults.say_that_checks_wait()
        return CompileResult(plan=None, faults=faults.ordered())
    plan, named = _compile(reading, tree)
    sound = None if faults.fatal() else plan
    return CompileResult(plan=sound, faults=faults.ordered(), draft=plan, named=named)


def _compile(reading: Reading, tree: YamlMap) -> tuple[Plan, tuple[Named, ...]]:
    entries = Entries(reading, tree, language.WORKFLOW, "a workflow", is_file=True)
    workflow = entries.text("workflow") or ""
    if workflow:
        check_name(reading, workflow, entries.place_of("workflow"), "a workflow")
    entries.source_text("description")
    reading = replace(reading, defaults=_read_defaults(reading, entries))
    input_schema = read_schema(reading, entries, "input_schema")
    optionals = Optionals(input_schema)
    labels, retention = read_labels(reading, entries, optionals), read_retention(reading, entries)
    drafts = _read_all_nodes(reading, entries)
    last = read_finally(reading, entries)
    edges = entries.list("edges") if drafts else None
    are_lost = entries.has_lost("edges")
    graph, checks_wait = _compile_graph(reading, workflow, drafts, edges, None, optionals, last, are_lost=are_lost)
    checks_wait = checks_wait or not drafts
    drafts = _with_last(drafts, last)
    plan = replace(
        graph,
        input_schema=input_schema,
        output_schema=read_schema(reading, entries, "output_schema"),
        variables=_read_variables(reading, entries, drafts),
        deadline_ms=entries.duration("deadline"),
        on_failure=OnFailure(entries.word("on_failure") or OnFailure.STOP),
        labels=labels,
        retention_ms=retention,
    )
    _check_run_output(reading, entries, drafts, plan)
    check_durations(reading.faults, plan, tree)
    check_types(reading.faults, reading.source, plan)
    optionals.say(reading.faults)
    check_long_lists(reading.faults, plan)
    if checks_wait:
        reading.faults.say_that_checks_wait()
    named = (
        Named(
            workflow=name,
            version=draft.node.child_version,
            place=draft.places.get("workflow", draft.place),
            input=draft.node.input,
            input_place=draft.places.get("input", draft.place),
        )
        for draft in with_bodies(drafts)
        if (name := draft.node.child_workflow)
    )
    return plan, tuple(named)


def _compile_graph(
    reading: Reading,
    workflow: str,
    drafts: dict[str, NodeDraft],
    edges: YamlList | None,
    around: Around | None,
    optionals: Optionals,
    last: NodeDraft | None = None,
    *,
    are_lost: bool,
) -> tuple[Plan, bool]:
    """Compiles the workflow's own graph, or that of a body, and the bodies in it.

    Args:
        reading: what is shared.
        workflow: its name.
        drafts: the nodes.
        edges: as they are written.
        around: what lies around it.
        optionals: where fields go that need not be there.
        last: `finally`.
        are_lost: there are edges, but they cannot be read.

    Returns:
        The graph, and whether something was left unchecked.
    """
    before = reading.faults.count(_OF_THE_GRAPH)
    written, refused = read_edges(reading, edges, drafts)
    edge_drafts, nodes = add_case_edges(reading, written, drafts)
    if last is not None:  # from here on: no edge leads to it
        drafts = _with_last(drafts, last)
        nodes[FINALLY] = last.node
    is_whole = not are_lost and reading.faults.count(_OF_THE_GRAPH) == before
    is_whole = is_whole and all(draft.is_whole for draft in drafts.values())
    shape = Shape(tuple(nodes), tuple(draft.edge for draft in edge_drafts))
    undone_by = check_compensation(
        reading, drafts, edge_drafts, lambda name: around is not None and around.scope.knows(name)
    )
    _check_joins(reading, drafts, nodes, shape)
    _name_cycles(reading, edge_drafts, shape)
    if is_whole:  # edges that were refused would be missed here
        undoing = {draft.node.compensate or "" for draft in with_bodies(drafts)}
        _warn_of_isolated(reading, drafts, shape, frozenset({FINALLY, *undoing}))
    is_whole = is_whole and not shape.back_edges
    if around is not None:
        if around.is_in_finally:
            _refuse_compensation(reading, drafts)
        _refuse_sets_in_maps(reading, drafts, around)
    checked = Shape(tuple(nodes), (*shape.edges, *edges_for_checking(undone_by, len(shape.edges))))
    scope = ScopeCheck(reading.faults, nodes, checked if is_whole else None, around, drafts, optionals)
    scope.check_refused(refused)
    for edge_draft in edge_drafts:
        scope.check_edge(edge_draft)
    checks_wait = False
    for name, draft in drafts.items():
        scope.check_node(draft)
        if draft.body is not None and draft.body.nodes:
            _refuse_names_of_outer_nodes(reading, draft.body, scope)
            inner = Around(scope=scope, loop=draft)
            found = draft.body
            body, waits = _compile_graph(
                reading, workflow, found.nodes, found.edges, inner, optionals, are_lost=found.has_lost_edges
            )
            nodes[name] = replace(nodes[name], body=body)
            checks_wait = checks_wait or waits
        elif draft.body is not None:
            checks_wait = True
    scope.check_order_of_sets(drafts)
    if is_whole:
        check_reachability(reading.faults, nodes, shape, drafts)
    elif any((node.need or 1) > 1 for node in nodes.values()):
        checks_wait = True
    if around is not None and around.loop.body is not None:
        scope.check_ends(around.loop.body)
    plan = Plan(
        workflow=workflow, nodes=nodes, edges=_with_reach(shape), outgoing=shape.outgoing, incoming=shape.incoming
    )
    return plan, checks_wait or scope.has_left_out


def _with_last(drafts: dict[str, NodeDraft], last: NodeDraft | None) -> dict[str, NodeDraft]:
    return drafts if last is None else {**drafts, FINALLY: last}


def _refuse_compensation(reading: Reading, drafts: dict[str, NodeDraft]) -> None:
    for draft in drafts.values():
        if draft.node.compensate is not None:
            message = "what runs at the end of a run is not undone"
            reading.faults.add(draft.places["compensate"], Code.NOT_IN_A_BODY, message, "remove compensate")


def _refuse_sets_in_maps(reading: Reading, drafts: dict[str, NodeDraft], around: Around) -> None:
    """Items have no order, not even one at a time: a retry does single ones again."""
    over = next((loop.id for loop in around.loops() if loop.type is NodeType.MAP), None)
    for draft in drafts.values():
        if draft.node.type is NodeType.SET and over is not None:
            message = f"{draft.node.id} sets a variable in the map {over}, whose items have no order"
            remedy = f"give the value by the output of {over} and set it behind it, or use a repeat"
            reading.faults.add(draft.place, Code.NOT_IN_A_BODY, message, remedy)


def _refuse_names_of_outer_nodes(reading: Reading, body: BodyDraft, scope: ScopeCheck) -> None:
    """`nodes.x` must mean one node, whoever reads it."""
    for name, draft in body.nodes.items():
        if not body.single and scope.knows(name):
            message = f"{name} is the name of a node outside, too"
            reading.faults.add(draft.place, Code.NOT_IN_A_BODY, message, "choose another")


def _read_defaults(reading: Reading, entries: Entries) -> Defaults:
    tree = entries.map("defaults")
    if tree is None:
        return reading.defaults
    given = Entries(reading, tree, language.DEFAULTS, "defaults")
    return Defaults(
        queue=read_queue(reading, given), retry=read_retry(reading, given), timeouts=read_timeouts(reading, given)
    )


def _read_variables(reading: Reading, entries: Entries, drafts: dict[str, NodeDraft]) -> dict[str, Json] | None:
    """Returns the variables' schemas, and holds what is known of `set` nodes against them."""
    tree = entries.map("vars")
    if tree is None:
        return None
    schemas: dict[str, Json] = {}
    for name, schema in tree.entries.items():
        check_name(reading, name, tree.keys[name], "a variable")
        schemas[name] = check_schema(reading, schema, f"the schema of {name}")
    for draft in with_bodies(drafts):
        for name, value in draft.node.values.items():
            place = draft.places["values"]
            if name not in schemas:
                message = f"{draft.node.id} sets {name}, which vars does not name"
                reading.faults.add(place, Code.UNKNOWN_VARIABLE, message, nearest(name, schemas))
            elif isinstance(value, Literal):
                problem = misfit_of(reading, schemas[name], value.value, place)
                if problem:
                    message = f"{name} breaks its schema in vars: {problem}"
                    reading.faults.add(place, Code.CONTRADICTION, message, "set a value that fits")
    return schemas


def _read_all_nodes(reading: Reading, entries: Entries) -> dict[str, NodeDraft]:
    tree = entries.map("nodes")
    return read_nodes(reading, tree) if tree is not None else {}


def _check_run_output(reading: Reading, entries: Entries, drafts: dict[str, NodeDraft], plan: Plan) -> None:
    """Meets outputs that are known before any run and break the run's contract."""
    ends = [draft for draft in with_bodies(drafts) if draft.node.type is NodeType.FINISH]
    known: list[tuple[Place, str, Literal]] = []
    if drafts and not ends and all(draft.is_whole for draft in with_bodies(drafts)):  # what is not may be meant for one
        known.append((entries.place_of("output_schema"), "a run without a finish node", Literal(value=None)))
    for draft in ends:
        node = draft.node
        given = node.output or Literal(value=None)
        if node.outcome == "succeeded" and isinstance(given, Literal):
            known.append((draft.places.get("output", draft.place), node.id, given))
    for place, whose, given in known:
        problem = misfit_of(reading, plan.output_schema, given.value, place)
        if problem:
            message = f"the output of {whose} breaks output_schema: {problem}"
            reading.faults.add(place, Code.CONTRADICTION, message, "give a finish node an output that fits")


def _with_reach(shape: Shape) -> tuple[Edge, ...]:
    if shape.back_edges:
        return tuple(shape.edges)
    return tuple(
        replace(edge, reach=shape.reach(edge.target)) if edge.on in _HANDLING else edge for edge in shape.edges
    )


def _name_cycles(reading: Reading, edge_drafts: list[EdgeDraft], shape: Shape) -> None:
    for index in shape.back_edges[:_MAX_CYCLES]:
        cycle = shape.cycle_through(shape.edges[index])
        message = f"a cycle: {' → '.join([*cycle, cycle[0]])}"
        reading.faults.add(edge_drafts[index].place, Code.CYCLE, message, _INSTEAD_OF_CYCLES)


def _check_joins(reading: Reading, drafts: dict[str, NodeDraft], nodes: dict[str, Node], shape: Shape) -> None:
    for name, node in nodes.items():
        if node.type is not NodeType.JOIN:
            continue
        place = drafts[name].places.get("need", drafts[name].place)
        incoming = len(shape.incoming[name])
        if node.need is not None and node.need > incoming:
            message = f"the join {name} needs {node.need} branches; {incoming} lead to it"
            reading.faults.add(place, Code.JOIN_OUT_OF_REACH, message, "add edges to it or lower need")
        elif incoming == 1:
            message = f"only one edge leads to the join {name}"
            reading.faults.add(drafts[name].place, Code.JOIN_OF_ONE, message, "a node waits without it", warning=True)


def _warn_of_isolated(reading: Reading, drafts: dict[str, NodeDraft], shape: Shape, undoing: frozenset[str]) -> None:
    for name, draft in drafts.items() if shape.edges else ():
        if not shape.incoming[name] and not shape.outgoing[name] and name not in undoing:
            message = f"no edge leads to {name} or away from it: it runs at the start, by itself"
            reading.faults.add(
                draft.place, Code.ISOLATED_NODE, message, "add an edge, if that is not meant", warning=True
            )
