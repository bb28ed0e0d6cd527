"""Warns where an expression goes through the results of a map for another map, which could do that itself."""

from collections.abc import Mapping

from headway.coordinator.core.cel import compile_expression, limits
from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.plan import Computed, Literal, Node, NodeType, Plan


def check_long_lists(faults: Faults, plan: Plan, around: Mapping[str, Node] | None = None) -> None:
    """Checks what the maps of a plan go over, those in bodies included; `around`: nodes that its own see besides."""
    nodes = {**(around or {}), **plan.nodes}
    for node in plan.nodes.values():
        if isinstance(node.over, Computed):
            _check(faults, nodes, node.over)
        if node.body is not None:
            check_long_lists(faults, node.body, nodes)


def _check(faults: Faults, nodes: Mapping[str, Node], over: Computed) -> None:
    for path in compile_expression(over.expression.source).syntax.gone_through:
        match path:
            case ("nodes", name, "output") if name in nodes and _may_be_long(nodes[name]):
                message = f"the results of {name} are gone through here, which fails with more than {_MOST:,} of them"
                remedy = f"write over: ${{nodes.{name}.output}}, and where: to leave items out"
                faults.add(over.expression.place, Code.LONG_LIST, message, remedy, warning=True)
            case _:
                pass


def _may_be_long(node: Node) -> bool:
    if node.type is not NodeType.MAP:
        return False
    known = node.over.value if isinstance(node.over, Literal) else None
    return not isinstance(known, list | dict) or len(known) > _MOST


_MOST = limits.MAX_LIST[1] or 0
