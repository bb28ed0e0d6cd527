"""Checks what expressions name: is it there, where they stand, when they are evaluated?"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

from headway.coordinator.core.cel import LIST, ExpressionError, ExpressionInvalid, compile_expression
from headway.coordinator.core.compiler import language, shapes
from headway.coordinator.core.compiler.certainty import Certainty, guard_key, what_is_told
from headway.coordinator.core.compiler.drafts import BodyDraft, NodeDraft, with_bodies
from headway.coordinator.core.compiler.edges import EdgeDraft
from headway.coordinator.core.compiler.faults import Code, Faults, Remedy, nearest
from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.compiler.names import instead_of_field, instead_of_name
from headway.coordinator.core.compiler.optional import Optionals, first_optional, prefixes
from headway.coordinator.core.compiler.template_parser import Mention, Site
from headway.coordinator.core.lookups import spell
from headway.coordinator.core.plan import FINALLY, LOOP_NODES, Edge, EdgeKind, Node, NodeType, Reference, VariablePath

_ERROR_EDGES = (EdgeKind.FAILURE, EdgeKind.TIMEOUT, EdgeKind.ALWAYS)
_HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)
_PAYLOAD = "payload"
_END = ""  # stands for the end of a body
_GIVEN_BY: Mapping[str, tuple[NodeType, ...]] = {
    "item": (NodeType.MAP,),
    "index": (NodeType.MAP, NodeType.REPEAT),
    "last": (NodeType.REPEAT,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewpoint:
    """Where an expression is evaluated.

    Attributes:
        sees: of the graph's nodes, those before its own; all, at the end of a body; or none, before it begins.
        node: the node that it belongs to, or whose edge it is on.
        sees_itself: it is evaluated when the node is done: on an edge.
        has_succeeded: whether a node has surely succeeded by then.
        is_told: whether conditions on every way here have told that something is there.
        error: whether there is an error: always, sometimes or never.
    """

    node: str
    sees_itself: bool
    has_succeeded: Callable[[str], bool]
    is_told: Callable[[VariablePath], bool]
    error: str
    sees: str = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What lies around a body: the graph that its map or repeat is in, and that node."""

    scope: "ScopeCheck"
    loop: NodeDraft

    @property
    def is_in_finally(self) -> bool:
        """It is what runs at the end of a run, or lies in that."""
        around: Around | None = self
        while around is not None:
            if around.loop.node.id == FINALLY:
                return True
            around = around.scope.around
        return False

    def loops(self) -> Iterator[Node]:
        """The maps and repeats around, innermost first."""
        around: Around | None = self
        while around is not None:
            if around.loop.node.id != FINALLY:
                yield around.loop.node
            around = around.scope.around


class _Known(IntEnum):
    """Whether a variable is set; of several answers the largest holds."""

    NOT = 0
    UNKNOWN = 1
    PERHAPS = 2
    SURELY = 3


class _Check(Protocol):
    def __call__(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None: ...


def _never(_: object) -> bool:
    return False


def _is_there(mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
    """A name that is everywhere, and of whose fields nothing is known here."""


class ScopeCheck:
    """Goes through all expressions of a workflow.

    Attributes:
        has_left_out: something was not checked, since what runs before what is not known.
    """

    def __init__(
        self,
        faults: Faults,
        nodes: Mapping[str, Node],
        shape: Shape | None,
        around: Around | None,
        drafts: Mapping[str, NodeDraft],
        optionals: Optionals,
    ) -> None:
        """Prepares.

        Args:
            faults: where faults go.
            nodes: of the workflow.
            shape: its graph, without cycles; None: it is not known, and only names are checked.
            around: what lies around it; None: it is the workflow's own graph.
            drafts: of the nodes, with their bodies.
            optionals: where fields go that need not be there.
        """
        self.has_left_out = False
        self._faults = faults
        self._nodes = nodes
        self._shape = shape
        begins = None if around is None else around.loop.node.again_while or around.loop.node.where
        self._at_start = frozenset[VariablePath]() if begins is None else what_is_told(begins)
        self._certainty = Certainty(nodes, shape, self._at_start) if shape is not None else None
        self._optionals = optionals
        self._checks: Mapping[str, _Check] = {
            "input": _is_there,
            "nodes": self._check_nodes,
            "vars": self._check_vars,
            "run": self._check_run,
            "error": self._check_error,
            "outcome": self._check_outcome,
            "item": self._check_innermost,
            "index": self._check_innermost,
            "last": self._check_innermost,
            "loops": self._check_loops,
        }
        self._around = around
        bodies = {name: list(with_bodies(draft.body.nodes)) for name, draft in drafts.items() if draft.body is not None}
        self._inside: dict[str, list[str]] = {}  # by node in bodies: the maps and repeats that it is in
        for loop, body in bodies.items():
            for inner in body:
                self._inside.setdefault(inner.node.id, []).append(loop)
        self._setters: dict[str, dict[str, None]] = {}  # by variable: the nodes that set it, maps and repeats included
        for name, draft in drafts.items():
            for each in (draft, *bodies.get(name, ())):
                for variable in each.node.values:
                    self._setters.setdefault(variable, {})[name] = None

    def knows(self, name: str) -> bool:
        """Returns whether there is a node of that name, here or further out."""
        return name in self._nodes or (self._around is not None and self._around.scope.knows(name))

    def check_node(self, draft: NodeDraft) -> None:
        """Checks the expressions in a node."""
        view = self.view_of(draft.node.id)
        self._check_sites(draft.sites, view)
        for case in draft.cases:
            self._check_sites(case.sites, view)
            if view is not None:
                view = _with_told(view, what_is_told(case.when, holds=False))

    def check_ends(self, body: BodyDraft) -> None:
        """Checks the expressions that are evaluated where this graph, a body, begins and ends."""
        loop = self._around.loop.node.id if self._around is not None else ""
        shape = self._shape
        if shape is None:
            self._check_sites((*body.result, *body.repeats), None)
            return
        undoing = {node.compensate for node in self._nodes.values()}
        onward = {
            name: [index for index in shape.outgoing[name] if shape.edges[index].target not in undoing]
            for name in self._nodes
            if name not in undoing
        }
        outer = [name for name, edges in onward.items() if not (shape.incoming[name] and edges)]
        ends = [name for name in outer if self._nodes[name].type is not NodeType.FINISH]  # behind it nobody asks
        first = len(shape.edges)
        edges = [Edge(index=first + place, source=name, target=_END) for place, name in enumerate(ends)]
        certainty = Certainty(
            {**self._nodes, _END: Node(id=_END, type=NodeType.JOIN)},
            Shape((*self._nodes, _END), (*shape.edges, *edges)),
            self._at_start,
        )
        after = Viewpoint(
            node=loop,
            sees_itself=False,
            has_succeeded=lambda other: certainty.has_succeeded(other, _END),
            is_told=lambda what: certainty.is_told(what, _END),
            error="never",
            sees="all",
        )
        self._check_sites(body.result, after)
        before = _sure_of_nothing(loop, sees="none")
        self._check_sites(body.repeats, before)

    def view_of(self, name: str) -> Viewpoint | None:
        """What a node can see; None where that is not known."""
        shape, certainty = self._shape, self._certainty
        if shape is None or certainty is None:
            return None
        if name == FINALLY:
            return _sure_of_nothing(name, sees="all")
        edges = [shape.edges[index] for index in shape.incoming[name]]
        error = "never"
        if any(edge.on in _ERROR_EDGES for edge in edges):
            is_sure = all(edge.on in _HANDLING or certainty.is_told_at(("error",), edge) for edge in edges)
            error = "always" if is_sure else "sometimes"
        return Viewpoint(
            node=name,
            sees_itself=False,
            has_succeeded=lambda other: certainty.has_succeeded(other, name),
            is_told=lambda what: certainty.is_told(what, name),
            error=error,
        )

    def check_edge(self, draft: EdgeDraft) -> None:
        """Checks the condition of an edge."""
        edge, certainty = draft.edge, self._certainty
        if certainty is None:
            self._check_sites(draft.sites, None)
            return
        error = "always" if edge.on in _HANDLING else "sometimes" if edge.on is EdgeKind.ALWAYS else "never"
        view = Viewpoint(
            node=edge.source,
            sees_itself=True,
            has_succeeded=lambda other: certainty.has_succeeded_at(other, edge),
            is_told=lambda what: certainty.is_told(what, edge.source),
            error=error,
        )
        self._check_sites(draft.sites, view)

    def check_order_of_sets(self, drafts: Mapping[str, NodeDraft]) -> None:
        """Checks that of two nodes that set one variable one comes first, or only one runs."""
        shape, certainty = self._shape, self._certainty
        if shape is None or certainty is None:
            return
        for variable, names in self._setters.items():
            before: list[str] = []
            for one in names:
                apart = shape.unrelated(one, before)
                other = next((each for each in apart if not certainty.exclude(one, each)), None)
                before.append(one)
                if other is not None:
                    message = f"{other} and {one} both set {variable}, and nothing says which of them comes first"
                    remedy = f"let one lead to the other, or give the variable in {one} another name"
                    self._faults.add(drafts[one].place, Code.UNORDERED_SET, message, remedy)

    def check_refused(self, sites: Collection[Site]) -> None:
        """Checks the names in expressions on edges that were refused."""
        self._check_sites(sites, None)

    def _check_sites(self, sites: Collection[Site], view: Viewpoint | None) -> None:
        for site in sites:
            guards = frozenset(key for mention in site.mentions for key in _guards_of(mention))
            for mention in site.mentions:
                name = mention.path[0]
                if name in self._checks:
                    key = guard_key(mention.path)
                    is_guarded = key in guards or self._is_told(key, view)
                    self._checks[name](mention, view, guarded=is_guarded)
                    if view is not None and not mention.tested:
                        self._note_optional(mention, view, prefixes(site.asked))
                elif name != _PAYLOAD:
                    self._say_unknown(mention, view, site)
                elif not site.sees_payload:
                    message = "payload is there only in the filter of a wait_for_event node"
                    remedy = "read nodes.name.output: a signal's payload is its node's output"
                    self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, message, remedy)

    def _note_optional(self, mention: Mention, view: Viewpoint, asked: Collection[VariablePath]) -> None:
        scope, form, begin = self.contract_of(mention.path)
        missing = first_optional(form, mention.path, begin)
        if missing and missing not in asked and not self._is_told(missing, view):
            self._optionals.note(scope, missing, mention.place)

    def contract_of(self, path: VariablePath) -> tuple[int, shapes.Form, int]:
        """Returns what is known by a schema of what a path begins at: whose, of what form, behind how many steps."""
        match path:
            case ("input", _, *_):
                return 0, shapes.of_schema(self._optionals.input_schema), 1
            case ("nodes", name, "output", _, *_) if name in self._nodes:
                node = self._nodes[name]
                schema = node.output_schema if node.payload_schema is None else node.payload_schema
                return id(node), shapes.ANY if node.count is not None else shapes.of_schema(schema), 3
            case ("nodes" | "item", _, *_) if self._around is not None:
                loop = self._around.loop.node
                if path[0] == "item" and loop.type is NodeType.MAP:
                    return id(loop), self._around.scope.items_of(loop), 1
                return self._around.scope.contract_of(path)
            case _:
                return 0, shapes.ANY, 1

    def items_of(self, loop: Node) -> shapes.Form:
        """Returns what is known by a schema of the items that a map of this graph goes over."""
        if not isinstance(loop.over, Reference):
            return shapes.ANY
        path = loop.over.path
        _, form, begin = self.contract_of((*path, "") if path == ("input",) else path)
        for step in path[begin:]:
            form = shapes.member(form, step).form
        return shapes.items(form) if form and shapes.known(form).kinds == {LIST} else shapes.ANY

    def _is_told(self, key: VariablePath, view: Viewpoint | None) -> bool:
        """Whether conditions on every way here, or to what lies around, have told that something is there."""
        if view is not None and view.is_told(key):
            return True
        around = self._around
        if around is None or around.loop.node.type in _GIVEN_BY.get(key[0], ()):  # further out, another one is meant
            return key in self._at_start
        return around.scope.is_told_around(around.loop, key)

    def is_told_around(self, loop: NodeDraft, key: VariablePath) -> bool:
        """Returns whether the body of a map or repeat of this graph knows of something by what was asked before it."""
        return self._is_told(key, self.view_of(loop.node.id))

    def _say_unknown(self, mention: Mention, view: Viewpoint | None, site: Site) -> None:
        name = mention.path[0]
        nodes, variables = set(self.nodes_seen(view)), self._variables_seen(view)
        scope = [_PAYLOAD] if site.sees_payload else []
        scope += self._scope(view, has_nodes=bool(nodes), has_variables=bool(variables))
        remedy = instead_of_name(mention.path, scope, nodes, variables)
        self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, f"unknown name {name}", remedy)

    def _scope(self, view: Viewpoint | None, *, has_nodes: bool, has_variables: bool) -> list[str]:
        """Returns the names that may be read, innermost first."""
        given = [name for loop in self._loops_around() for name, kinds in _GIVEN_BY.items() if loop.type in kinds]
        is_there = {
            "error": view is not None and view.error != "never",
            **dict.fromkeys(given, True),
            "loops": bool(given),
            "outcome": self._around is not None and self._around.is_in_finally,
            "nodes": has_nodes,
            "vars": has_variables,
            "input": True,
            "run": True,
        }
        return [name for name, is_so in is_there.items() if is_so]

    def nodes_seen(self, view: Viewpoint | None) -> Iterator[str]:
        """The nodes that can be read; all of them, where it is not known what comes before."""
        yield from (name for name in self._nodes if (view is None or self._is_visible(name, view)) and name != FINALLY)
        if self._around is not None:
            outer = self._around.scope
            yield from outer.nodes_seen(outer.view_of(self._around.loop.node.id))

    def _variables_seen(self, view: Viewpoint | None) -> list[str]:
        return [name for name in self.all_setters() if self._knowledge_of(name, view) is not _Known.NOT]

    def all_setters(self) -> Collection[str]:
        """The variables that are set here or around, those of here first."""
        outer = self._around.scope.all_setters() if self._around is not None else ()
        return dict.fromkeys((*self._setters, *outer))

    def _check_nodes(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        around, path = self._around, mention.path
        _, name, field = (*path, "", "")[:3]
        if name not in self._nodes and around is not None and around.scope.knows(name):
            around.scope.check_from_inside(around.loop, mention, guarded=guarded)
        elif (fault := self._misnamed(path, view)) is not None:
            self._faults.add(mention.place, *fault)
        elif view is None:
            self.has_left_out = True
        elif not self._is_visible(name, view):
            self._faults.add(mention.place, Code.NOT_AN_ANCESTOR, *self._why_not_visible(name, view))
        elif field != "state" and not (mention.tested or guarded or view.has_succeeded(name)):
            remedy = f"guard it: has({spell(path[:3])}) ? {spell(path)} : null"
            message = f"{name} may not have succeeded when this is evaluated"
            self._faults.add(mention.place, Code.MAY_BE_MISSING, message, remedy)
        elif (
            field == "output"
            and path[3:]
            and not (mention.tested or guarded)
            and _may_go_round_never(self._nodes[name])
        ):
            message = f"{name} gives null when its while does not hold for the first time"
            remedy = f"guard it: has({spell(path)}) ? {spell(path)} : null"
            self._faults.add(mention.place, Code.MAY_BE_MISSING, message, remedy, warning=True)

    def _misnamed(self, path: VariablePath, view: Viewpoint | None) -> tuple[Code, str, Remedy] | None:
        """What is wrong with a path as it is spelt, wherever it stands."""
        match path:
            case (_, str() as name, *_) if name not in self._nodes and name in self._inside:
                loops = self._inside[name]
                before = [loop for loop in loops if view is not None and self._is_visible(loop, view)]
                return self._leads_into_body((before or loops)[0], name)
            case (_, name, *_) if name not in self._nodes:
                return Code.UNKNOWN_REFERENCE, f"there is no node {name}", nearest(name, self._nodes)
            case (_, name, *_) if name == FINALLY:
                message = f"{FINALLY} runs when all else is over: nothing can read it"
                return Code.NOT_AN_ANCESTOR, message, "read outcome, or a node outside of it, in its own nodes"
            case (_, name, inner, *_) if self._leads_inside(name, inner):
                return self._leads_into_body(name, inner)
            case (_, name, field, *_) if field in self._fields_of(name):
                return None
            case (_, name, *_):
                fields = self._fields_of(name)
                has = " and ".join(", ".join(fields).rsplit(", ", 1))
                message = f"{spell(path)} is nothing: a {self._nodes[name].type} node has {has}"
                is_inside = view is not None and view.node == name
                node = self._nodes[name]
                is_list = node.count is not None
                remedy = instead_of_field(path, fields, node.type, is_inside=is_inside, is_list=is_list)
                return Code.UNKNOWN_REFERENCE, message, remedy
            case _:
                return Code.UNKNOWN_REFERENCE, "nodes must be followed by a node's id", "write nodes.name.output"

    def check_from_inside(self, loop: NodeDraft, mention: Mention, *, guarded: bool) -> None:
        """Checks what an expression in the body of a map or repeat of this graph names: it sees what that node sees."""
        view = self.view_of(loop.node.id)
        self._checks[mention.path[0]](mention, view, guarded=guarded)
        self.has_left_out = self.has_left_out or view is None

    def _leads_inside(self, name: str, inner: str) -> bool:
        loop = self._nodes[name]
        return loop.type in LOOP_NODES and (
            name in self._inside.get(inner, ()) or inner in (language.ONLY_NODE, "body")
        )

    def _leads_into_body(self, loop: str, inner: str) -> tuple[Code, str, Remedy]:
        message = f"{inner} is in the body of {loop}: from outside it cannot be read"
        if loop == FINALLY:
            return Code.INSIDE_A_BODY, message, f"do it in a node of {FINALLY}, which runs when all else is over"
        gives = "the list of what the items give"
        if self._nodes[loop].type is NodeType.REPEAT:
            gives = "what the last iteration gives"
        remedy = f"write {spell(('nodes', loop, 'output'))}, {gives}; output of {loop} says what that is"
        return Code.INSIDE_A_BODY, message, remedy

    def _why_not_visible(self, name: str, view: Viewpoint) -> tuple[str, str]:
        """Why a node's output is not there yet, and what to do about that."""
        here = view.node
        if name == here:
            message = f"{name} reads its own output, which is there only behind it"
            is_repeat = self._nodes[name].type is NodeType.REPEAT
            return message, "in its body, read last" if is_repeat else f"read it in a node that {name} leads to"
        message = f"{name} does not come before {here}: its output is not there yet"
        if view.sees == "none" and self._around is not None and self._around.loop.node.type is NodeType.MAP:
            return message, "read item or index: where is asked before anything is done for the item"
        if view.sees == "none":
            return message, "read last, what the latest iteration gave, or ask until, which sees the body"
        if any(node.compensate == here for node in self._nodes.values()):
            return message, "a node that undoes reads what it undoes, and what came before that"
        if self._shape is not None and self._shape.is_ancestor(here, name):
            return message, f"{here} leads to {name}: read it in a node behind {name}"
        return message, f"add an edge so that {name} leads to {here}"

    def _fields_of(self, name: str) -> tuple[str, ...]:
        is_loop = self._nodes[name].type in LOOP_NODES
        return language.LOOP_FIELDS_IN_EXPRESSIONS if is_loop else language.NODE_FIELDS_IN_EXPRESSIONS

    def _is_visible(self, name: str, view: Viewpoint) -> bool:
        if view.sees != "before":
            return view.sees == "all" and name != FINALLY
        is_before = self._shape is not None and self._shape.is_ancestor(name, view.node)
        return is_before or (view.sees_itself and name == view.node)

    def _check_vars(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        if len(mention.path) < 2:  # noqa: PLR2004 - vars alone
            return
        variable = mention.path[1]
        known = self._knowledge_of(variable, view)
        if known is _Known.UNKNOWN:
            self.has_left_out = True
        elif known is _Known.NOT:
            where = "no node" if view is None else f"no node before {view.node}"
            remedy: Remedy = f"add {variable} to the values of a set node before it"
            if variable not in self._setters and self._setters:
                remedy = nearest(variable, self._setters)
            self._faults.add(mention.place, Code.UNKNOWN_VARIABLE, f"{where} sets the variable {variable}", remedy)
        elif known is _Known.PERHAPS and not mention.tested and not guarded:
            remedy = f"guard it: has(vars.{variable}) ? vars.{variable} : null"
            message = f"the variable {variable} may not be set when this is evaluated"
            self._faults.add(mention.place, Code.MAY_BE_MISSING, message, remedy)

    def _knowledge_of(self, variable: str, view: Viewpoint | None) -> "_Known":
        """Whether a variable is set when something is evaluated: by a node before, around, or an iteration before."""
        setters = self._setters.get(variable, {})
        known = _Known.NOT
        if view is None:
            known = _Known.UNKNOWN if setters else _Known.NOT
        elif visible := [name for name in setters if self._is_visible(name, view)]:
            is_sure = any(self._nodes[name].values and view.has_succeeded(name) for name in visible)
            known = _Known.SURELY if is_sure else _Known.PERHAPS
        around = self._around
        if around is None:
            return known
        if setters and around.loop.node.type is NodeType.REPEAT:
            known = max(known, _Known.PERHAPS)
        return max(known, around.scope.knowledge_around(around.loop, variable))

    def knowledge_around(self, loop: NodeDraft, variable: str) -> "_Known":
        """Returns what the body of a map or repeat of this graph knows of a variable by what comes before."""
        return self._knowledge_of(variable, self.view_of(loop.node.id))

    def _check_run(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        del view, guarded
        if len(mention.path) > 1 and mention.path[1] not in language.RUN_FIELDS:
            remedy = nearest(mention.path[1], language.RUN_FIELDS)
            self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, f"run has no {mention.path[1]}", remedy)

    def _loops_around(self) -> Iterator[Node]:
        return iter(()) if self._around is None else self._around.loops()

    @property
    def around(self) -> Around | None:
        """What lies around; None: nothing."""
        return self._around

    def _check_innermost(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        name = mention.path[0]
        kinds = _GIVEN_BY[name]
        if not any(loop.type in kinds for loop in self._loops_around()):
            message = f"{name} is there only in the body of a {' or '.join(kinds)}"
            remedy = "put the node into a body, or read input or nodes.name.output instead"
            self._faults.add(mention.place, Code.NO_LOOP_HERE, message, remedy)
        elif len(mention.path) > 1 and view is not None and not (mention.tested or guarded):
            self._check_last(mention, view)

    def _check_last(self, mention: Mention, view: Viewpoint) -> None:
        """A field of the latest iteration: before the first there is none, and null has no fields."""
        if mention.path[0] != "last" or view.sees == "all":
            return
        path = spell(mention.path)
        remedy = f"write has({path}) ? {path} : null"
        if view.sees == "none":
            remedy = f"write index == 0 || {path} …, so that it begins"
        message = "last is null before the first iteration: it has no fields then"
        self._faults.add(mention.place, Code.MAY_BE_MISSING, message, remedy)

    def _check_loops(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        del view, guarded
        loops = {loop.id: loop for loop in reversed(list(self._loops_around()))}
        match mention.path:
            case (_, name, what, *_) if name in loops:
                given = [each for each, kinds in _GIVEN_BY.items() if loops[name].type in kinds]
                if what not in given:
                    message = f"the {loops[name].type} {name} gives no {what}"
                    self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, message, nearest(what, given))
            case (_, name, *_) if name not in loops:
                message = f"no map or repeat {name} is around this"
                remedy = nearest(name, loops) if loops else "read it in the body of one"
                self._faults.add(mention.place, Code.NO_LOOP_HERE, message, remedy)
            case _:
                message = "loops must be followed by the id of a map or repeat and what it gives"
                self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, message, "write loops.name.index")

    def _check_outcome(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        del view, guarded
        if self._around is None or not self._around.is_in_finally:
            message = "outcome is there only in finally: elsewhere nothing is known yet of how the run ends"
            self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, message, "read nodes.name.state")
        elif len(mention.path) > 1 and mention.path[1] not in language.OUTCOME_FIELDS:
            message = f"outcome has no {mention.path[1]}"
            remedy = nearest(mention.path[1], language.OUTCOME_FIELDS)
            self._faults.add(mention.place, Code.UNKNOWN_REFERENCE, message, remedy)

    def _check_error(self, mention: Mention, view: Viewpoint | None, *, guarded: bool) -> None:
        if view is None:
            self.has_left_out = True
        elif view.error == "never":
            remedy = "add an edge with on: failure, or pass the error on by a set node"
            self._faults.add(mention.place, Code.NO_ERROR_HERE, "error is there only behind a failure edge", remedy)
        elif view.error == "sometimes" and not mention.tested and not guarded:
            remedy = f"guard it: has(error.class) ? {spell(mention.path)} : null"
            message = "error is there only if a failure led here"
            self._faults.add(mention.place, Code.MAY_BE_MISSING, message, remedy)


def _guards_of(mention: Mention) -> Iterator[VariablePath]:
    """What a mention makes sure of in its expression: by has(…), or by looking at a node's state."""
    path = mention.path
    is_state = len(path) == 3 and path[0] == "nodes" and path[2] == "state"  # noqa: PLR2004 - nodes.x.state
    if path in (("index",), ("last",)):  # the first iteration is told from later ones
        yield ("last",)
    elif mention.tested or is_state:
        yield guard_key(path)


def _may_go_round_never(node: Node) -> bool:
    """True for a repeat that may end before its first iteration: its condition does not plainly hold then."""
    condition = node.again_while
    if node.type is not NodeType.REPEAT or condition is None:
        return False
    try:
        return compile_expression(condition.source).evaluate({"index": 0, "last": None}) is not True
    except (ExpressionError, ExpressionInvalid):
        return True  # it depends on more, or is wrong otherwise


def _sure_of_nothing(node: str, sees: str) -> Viewpoint:
    return Viewpoint(node=node, sees_itself=False, has_succeeded=_never, is_told=_never, error="never", sees=sees)


def _with_told(view: Viewpoint, told: Collection[VariablePath]) -> Viewpoint:
    """The same place, where something more is known to be there."""
    return replace(view, is_told=lambda what: what in told or view.is_told(what)) if told else view
