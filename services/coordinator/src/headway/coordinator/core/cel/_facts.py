"""What is sure of a run where a condition came out as true, or as false: which values were there."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from headway.coordinator.core.cel._kinds import NULL
from headway.coordinator.core.cel._syntax import Call, Constant, Field, Group, Loop, Tree, path_of
from headway.coordinator.core.plan import VariablePath

Told: TypeAlias = frozenset[VariablePath] | None
"""Paths of which there surely was something; None: it cannot have come out like this."""

_SUCCEEDED = "succeeded"
_NOTHING: Told = frozenset()


def told_by(tree: Tree, *, holds: bool) -> Told:
    """Returns what a condition tells by coming out as true, or as false.

    `has(x)` tells of x, and so does `x != null`. Both sides of `&&` tell, when it holds; of `||` and of a choice only
    what each way tells.
    """
    match tree:
        case Field(tested=True):
            found = path_of(tree, frozenset())
            return frozenset({found[0]}) if holds and found is not None else _NOTHING
        case Constant(truth=bool() as truth):
            return _NOTHING if truth is holds else None
        case Call(function="!_", operands=(operand,)):
            return told_by(operand, holds=not holds)
        case Call(function="_&&_" | "_||_" as function, operands=operands):
            told = [told_by(operand, holds=holds) for operand in operands]
            return _all_of(told) if holds is (function == "_&&_") else _any_of(told)
        case Call(function="_?_:_", operands=(condition, one, other)):
            ways = ((condition, True, one), (condition, False, other))
            return _any_of(
                _all_of((told_by(asked, holds=so), told_by(value, holds=holds))) for asked, so, value in ways
            )
        case Call(function="@in"):
            return frozenset(_key_asked_for(tree)) if holds else _NOTHING
        case Call(function="_==_" | "_!=_" as function, operands=(left, right)):
            return _compared(function, left, right, holds=holds)
        case _:
            return _NOTHING


def asked_by(tree: Tree) -> Iterator[VariablePath]:
    """Yields the paths of which an expression asks whether they are there: by `has(x.y)`, or by `"y" in x`."""
    match tree:
        case Field(operand=operand, tested=tested):
            found = path_of(tree, frozenset()) if tested else None
            yield from asked_by(operand) if found is None else (found[0],)
        case Call(function="@in", operands=operands):
            yield from _key_asked_for(tree)
            for operand in operands:
                yield from asked_by(operand)
        case Call(operands=parts) | Group(parts=parts):
            for part in parts:
                yield from asked_by(part)
        case Loop(outside=outside, inside=inside):
            for part in (*outside, *inside):
                yield from asked_by(part)
        case _:
            pass


def _key_asked_for(tree: Call) -> Iterator[VariablePath]:
    match tree.operands:
        case (Constant(text=str() as key), within) if (found := path_of(within, frozenset())) is not None:
            yield (*found[0], key)
        case _:
            pass


def _compared(function: str, left: Tree, right: Tree, *, holds: bool) -> Told:
    """What is no null was there; and what has the state `succeeded` has an output."""
    is_equal = holds is (function == "_==_")
    for side, other in ((left, right), (right, left)):
        found = path_of(side, frozenset())
        if found is None or not isinstance(other, Constant) or (isinstance(side, Field) and side.tested):
            continue
        path = found[0]
        if path[0] == "nodes" and path[2:] == ("state",):
            return frozenset({(*path[:2], "output")}) if is_equal and other.text == _SUCCEEDED else _NOTHING
        if other.kind == NULL and not is_equal:
            return frozenset({path})
    return _NOTHING


def _all_of(each: Iterable[Told]) -> Told:
    """What is told where everything came out so."""
    told = list(each)
    possible = [one for one in told if one is not None]
    return frozenset[VariablePath]().union(*possible) if len(possible) == len(told) else None


def _any_of(each: Iterable[Told]) -> Told:
    """What is told whichever way it came out so."""
    possible = [one for one in each if one is not None]
    return possible[0].intersection(*possible[1:]) if possible else None
