"""Names of failures in `errors:`, of edges and of retry rules: can they be what a node fails with?

Handlers give their failures names of their own, so a name is seldom surely wrong. It is warned of where it is nearly
the name of a class, and, of nodes whose failures are all known, where it is none of them.
"""

import re
from collections.abc import Iterator

from headway.coordinator.core.compiler.faults import Code, Faults, close_to
from headway.coordinator.core.compiler.yaml_tree import YamlList, YamlScalar
from headway.coordinator.core.failure_types import TYPES_OF_NODES, FailureType
from headway.coordinator.core.plan import FailureClass, Literal, Node, NodeType, Object

_CLASSES = tuple(each.value for each in FailureClass)
_OF_THE_ENGINE = (*_CLASSES, *(each.value for each in FailureType))
_STATUS = re.compile(r"[1-5][0-9][0-9]")
_SHORTEST = 5  # letters of a name that can be a slip of another


def check_failures(faults: Faults, named: object, node: Node | None, *, is_edge: bool = False) -> None:
    """Warns of names that a node hardly fails with.

    Args:
        faults: where the warnings go.
        named: what stands behind `errors`.
        node: whose failures are meant; None: those of any.
        is_edge: they stand on an edge, else in a retry rule.
    """
    for name, item in _names(named):
        status = instead_of_status(named, node, is_edge=is_edge) if _STATUS.fullmatch(name) else ""
        if meant := status or _meant(name, node):
            is_open = node is None or node.type is NodeType.CALL
            whose = "no failure class" if is_open or node is None else f"nothing that {node.id} fails with"
            faults.add(item.place, Code.UNLIKELY_FAILURE, f"{name} is {whose}", meant, warning=True)


def instead_of_status(named: object, node: Node | None, *, is_edge: bool) -> str:
    """Returns what to write instead of statuses of HTTP that stand for names of failures; empty: there is none.

    Args:
        named: what stands behind `errors`.
        node: whose failures are meant; None: those of any.
        is_edge: it stands on an edge, else in a retry rule.
    """
    if node is None or node.type is not NodeType.HTTP:
        return ""
    each = (
        [str(item.value) for item in named.items if isinstance(item, YamlScalar)] if isinstance(named, YamlList) else []
    )
    statuses = [text for text in each if _STATUS.fullmatch(text)]
    if not statuses:
        return ""
    if not is_edge:
        return "write HttpStatus, which is any status that is not expected; an edge may ask for error.status"
    several = f'"error.status in [{", ".join(statuses)}]"'
    asked = f"error.status == {statuses[0]}" if len(statuses) == 1 else several
    return f"write errors: [HttpStatus], when: {asked}"


def meant_failure(name: str) -> str:
    """Returns the failure class that a name is nearly, or the name."""
    return close_to(name, _CLASSES) or name


def _names(named: object) -> Iterator[tuple[str, YamlScalar]]:
    for item in named.items if isinstance(named, YamlList) else ():
        if isinstance(item, YamlScalar) and isinstance(item.value, str):
            yield item.value, item


def _meant(name: str, node: Node | None) -> str:
    """What to write instead; empty: the name may be right."""
    if name in _OF_THE_ENGINE:
        return ""
    known = _CLASSES
    if node is not None and node.type is not NodeType.CALL:
        known = (*TYPES_OF_NODES.get(node.type, ()), *_OF_THE_ENGINE)
        if name in known or (node.type is NodeType.PYTHON and name in _code_of(node)):
            return ""
        if node.type is NodeType.PYTHON:  # whose exceptions may be called anything that ends so
            known = tuple(each for each in known if not each.endswith("Error"))
    close = close_to(name, known) if len(name) >= _SHORTEST else ""
    if not close and node is not None and node.type is NodeType.HTTP:
        return f"name one of {', '.join((*_CLASSES, *TYPES_OF_NODES[node.type]))}"
    return f"did you mean {close}?" if close else ""


def _code_of(node: Node) -> str:
    match node.input:
        case Literal(value={"code": str() as code}) | Object(entries={"code": Literal(value=str() as code)}):
            return code
        case _:
            return ""
