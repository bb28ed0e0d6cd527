"""What to write instead of a name that is not there: what is near it, and what other languages call it."""

from collections.abc import Collection, Mapping, Sequence

from headway.coordinator.core.cel import WORDS_OF_OTHERS
from headway.coordinator.core.compiler.faults import close_to
from headway.coordinator.core.lookups import spell, spell_steps
from headway.coordinator.core.plan import NodeType, VariablePath

# Names at which expressions of other workflow languages begin.
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("steps", "tasks", "needs", "jobs", "outputs", "result", "output"), "nodes.name.output"),
    **dict.fromkeys(("inputs", "params", "parameters", "args", "context", "states", "data"), "input.name"),
    **dict.fromkeys(("github", "workflow", "execution"), "run.id, or run.workflow"),
    **dict.fromkeys(("var", "variables"), "vars.name"),
    **dict.fromkeys(("matrix", "each", "element"), "item, in the body of a map"),
    **dict.fromkeys(("i", "iteration", "attempt"), "index, in the body of a map or repeat"),
    **dict.fromkeys(("env", "secrets"), "input.name: what lies in the environment is read by handlers"),
    **dict.fromkeys(("err", "exception"), "error.message, behind a failure edge"),
    **dict.fromkeys(
        ("Math", "JSON", "Date", "Object", "Array", "String", "Number", "datetime", "moment", "math"),
        "it in a python node: there are no libraries here",
    ),
    **dict.fromkeys(("signal", "event"), "nodes.name.output: a signal's payload is its node's output"),
}
_PAYLOADS = ("event", "signal", "message", "data", "body", "msg")  # what other languages call it
# What other languages call the fields of a node.
_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("outputs", "result", "results", "return", "value", "body", "response", "data"), "output"),
    **dict.fromkeys(("status", "conclusion", "phase", "outcome"), "state"),
}
_FIELDS_OF: Mapping[NodeType, Mapping[str, tuple[str, ...]]] = {
    NodeType.WAIT_FOR_EVENT: dict.fromkeys(("payload", *_PAYLOADS), ("output",)),
    NodeType.HTTP: {
        **dict.fromkeys(("body", "json", "content"), ("output", "body")),
        **dict.fromkeys(("status_code", "statusCode", "code"), ("output", "status")),
        "headers": ("output", "headers"),
    },
}


# What a map or repeat gives in its body, and what other languages call that.
_GIVEN: Mapping[NodeType, tuple[str, ...]] = {
    NodeType.MAP: ("item", "index", "items", "key", "value", "each"),
    NodeType.REPEAT: ("last", "index", "iteration", "item"),
}


def instead_of_name(
    path: VariablePath, scope: Sequence[str], nodes: Collection[str], variables: Collection[str]
) -> str:
    """Returns what to write instead of a path that begins at an unknown name.

    Args:
        path: as it was written.
        scope: the names that are there, innermost first.
        nodes: that can be read here.
        variables: that may be set here.
    """
    name, *rest = path
    here = f"in scope here: {', '.join(scope)}"
    if name in WORDS_OF_OTHERS:
        return f"write {WORDS_OF_OTHERS[name]}"
    if "payload" in scope and name in _PAYLOADS:
        return f"write {spell(('payload', *rest))}; {here}"
    if name in nodes:
        fields = rest[1:] if rest and _FIELDS.get(rest[0], rest[0]) == "output" else rest
        return f"write {spell(('nodes', name, 'output', *fields))}"
    if name in variables:
        return f"write {spell(('vars', *path))}"
    if name in _ELSEWHERE:
        return f"write {_ELSEWHERE[name]}; {here}"
    close = close_to(name, scope)
    text = "" if rest else f'; a text stands in quotes: "{name}"'
    return f"did you mean {close}? {here}" if close else here + text


def instead_of_field(
    path: VariablePath, known: Collection[str], kind: NodeType, *, is_inside: bool, is_list: bool = False
) -> str:
    """Returns what to write instead of `nodes.name.field…` when a node has no such field.

    Args:
        path: as it was written.
        known: the fields that it has.
        kind: its type.
        is_inside: it is written in the node's own body.
        is_list: its output is a list of what is meant.
    """
    name, field, *rest = (*path[1:], "") if len(path) == 2 else path[1:]  # noqa: PLR2004 - nodes.name alone
    if not field:
        return f"write {spell(('nodes', name, 'output'))}"
    if field in (given := _GIVEN.get(kind, ())):
        inner = field if field in ("item", "index", "last") else given[0]
        if is_inside:
            return f"write {spell((inner, *rest))}"
        output = spell(("nodes", name, "output"))
        gives = f"{output}[0] is the first of its results" if kind is NodeType.MAP else f"{output} is its last result"
        return f"{inner} is there in the body of {name} only; behind it, {gives}"
    meant = _FIELDS_OF.get(kind, {}).get(field) or (_FIELDS.get(field) or close_to(field, known) or ("output", field))
    steps = (meant,) if isinstance(meant, str) else meant
    meant_path = ("nodes", name, *steps, *rest)
    if is_list and steps[0] == "output":
        return f"write {spell(meant_path[:3])}[0]{spell_steps(meant_path[3:])}"
    return f"write {spell(meant_path)}"
