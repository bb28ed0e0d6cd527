"""Writes workflows as YAML from a few texts, and compiles them."""

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.plan import Plan

WORKER = "{type: call, handler: h}"


def compiled(source: str) -> Plan:
    result = compile_workflow(source)
    assert result.plan is not None, "\n".join(str(fault) for fault in result.faults)
    return result.plan


def workflow(nodes: dict[str, str], edges: str = "[]") -> str:
    lines = "".join(f"  {name}: {node}\n" for name, node in nodes.items())
    return f"workflow: w\nnodes:\n{lines}edges: {edges}\n"


def reads(template: str) -> str:
    return f"{{type: call, handler: h, input: '${{{template}}}'}}"
