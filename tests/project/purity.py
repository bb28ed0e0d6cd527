"""Reads the source of the coordinator's core and tells what in it is not pure.

The import contracts (pyproject.toml) forbid what is known to be impure. This is the other way round: what is not on the
list is a fault, and so is every way to import, read or write behind the contracts' back.
"""

from __future__ import annotations

import ast
import re

ALLOWED = frozenset(
    [
        "__future__",
        "abc",
        "bisect",
        "copy",
        "collections",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "functools",
        "graphlib",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
        "msgspec",
        "operator",
        "orjson",
        "re",
        "string",
        "types",
        "typing",
        "unicodedata",
    ]
)
ALLOWED_IN = {
    "headway.coordinator.core.cel": {"cel_expr_python"},
    "headway.coordinator.core.compiler": {"ruamel", "jsonschema", "referencing"},
    "headway.coordinator.core.schemas": {"jsonschema", "jsonschema_specifications", "referencing", "re2"},
    "headway.coordinator.core.compiler.python_code": {"ast", "warnings"},  # parses, and silences what parsing prints
}
CORE = "headway.coordinator.core"

# Of the builtins: those that import, read, write, look around, or ask somebody.
FORBIDDEN_NAMES = frozenset(
    [
        "__import__",
        "__builtins__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "eval",
        "exec",
        "globals",
        "input",
        "open",
        "print",
    ]
)
# Of what may be imported: what reads the clock.
CLOCKS = re.compile(r"(^|\.)(datetime|date)\.(now|utcnow|today)$")


def faults(module: str, source: str) -> list[str]:
    """What is impure in a module, one line each, in the order of the source."""
    found: list[tuple[int, str]] = []
    tree = ast.parse(source)
    # A field or an argument may be called `input`; then the name is no longer the builtin's.
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found += [
                    (node.lineno, f"imports {alias.name}") for alias in node.names if not _allowed(module, alias.name)
                ]
            case ast.ImportFrom(level=0, module=str(name)) if not _allowed(module, name):
                found.append((node.lineno, f"imports {name}"))
            case ast.ImportFrom(level=level) if level > 0:
                found.append((node.lineno, "imports relatively"))
            case ast.Name(id=name) if name in FORBIDDEN_NAMES - own:
                found.append((node.lineno, f"uses {name}"))
            case ast.Attribute() if CLOCKS.search(spelt := ast.unparse(node)):
                found.append((node.lineno, f"reads the clock: {spelt}"))
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                found.append((node.lineno, "waits"))
            case ast.Global():
                found.append((node.lineno, "keeps state between calls: global"))
            case _:
                pass
    return [f"{module}:{line}: {fault}" for line, fault in sorted(found)]


def _allowed(module: str, imported: str) -> bool:
    if imported == CORE or imported.startswith(f"{CORE}."):
        return True
    root = imported.split(".", maxsplit=1)[0]
    return root in ALLOWED or any(
        root in roots for place, roots in ALLOWED_IN.items() if module == place or module.startswith(f"{place}.")
    )
