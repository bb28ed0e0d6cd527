"""Paths: which task of a run is meant.

A node of the workflow's own graph goes by its id: `crop`. A node in the body of a map or repeat goes by the item or
iteration that it belongs to, its *scope*: `resize[12].crop`, and deeper, `a[3].b[0].c`. The scope is what stands before
the last dot; ids hold neither dots nor brackets, so a path can be read in one way only.
"""

import re

from headway.coordinator.core.rows import PayloadKey

CHUNK = 100  # items of a map's list that are stored together
_SCOPE = re.compile(r"(.+)\[(0|[1-9][0-9]{0,8})\]", re.DOTALL)


def is_within(path: str, node: str) -> bool:
    """True for a map or repeat itself, and for all that is in it."""
    return path == node or path.startswith(f"{node}[")


def scope_of(path: str) -> str:
    """The scope of a task, or of a map or repeat; empty: the run itself."""
    return path.rpartition(".")[0]


def inside(scope: str, name: str) -> str:
    """The path of a node in a scope."""
    return f"{scope}.{name}" if scope else name


def scope_at(loop: str, index: int) -> str:
    """The scope of an item or iteration."""
    return f"{loop}[{index}]"


def loop_of(scope: str) -> tuple[str, int]:
    """The map or repeat that a scope belongs to, and which of its items or iterations it is.

    Raises:
        LookupError: no scope is called that.
    """
    found = _SCOPE.fullmatch(scope)
    if found is None:
        raise LookupError(scope)
    return found[1], int(found[2])


def scopes_around(scope: str) -> list[str]:
    """The scope itself and those that it lies in, innermost first; none for the run itself."""
    around: list[str] = []
    while scope:
        around.append(scope)
        scope = scope_of(loop_of(scope)[0])
    return around


def order_of(path: str) -> list[tuple[str, int]]:
    """By what tasks are put in the order of their items."""
    return [loop_of(step) if step.endswith("]") else (step, -1) for step in path.split(".")]


def chunk_key(loop: str, attempt: int, index: int) -> PayloadKey:
    """Where an item of a map's list is stored: at the first index of its chunk."""
    return scope_at(loop, index - index % CHUNK), attempt, "list"


def chosen_key(loop: str, attempt: int) -> PayloadKey:
    """Where it is stored which nodes in a map are to be redone."""
    return loop, attempt, "chosen"
