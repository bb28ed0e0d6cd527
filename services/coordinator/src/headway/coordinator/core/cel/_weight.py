"""What an expression does that takes longer the larger the values are: comparing, joining, searching.

A comparison with something that is surely small, a constant or a computed number, is none of it; one of an item that a
comprehension goes through takes no longer than its largest item.
"""

from dataclasses import dataclass

from headway.coordinator.core.cel import limits
from headway.coordinator.core.cel._syntax import Call, Constant, Field, Group, Loop, Name, Tree
from headway.coordinator.core.cel._values import Room

_EQUALITIES = frozenset({"_==_", "_!=_"})
_SEARCHES = frozenset({"matches", "size"})  # they read a text character by character
_SMALL_RESULTS = frozenset({
    "-_", "_-_", "_*_", "_/_", "_%_", "!_", "_&&_", "_||_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in",
    "size", "string", "int", "uint", "double", "bool", "matches", "contains", "startsWith", "endsWith",
})  # fmt: skip


@dataclass(slots=True)
class Weight:
    """How often each is done in one round; `small`, `items` and `whole` are comparisons, by what they may go through.

    Attributes:
        items: of an item that a comprehension goes through.
        whole: of anything.
        lookups: whether something is in a list or a map.
        joins: of lists.
        searches: through a text.
    """

    items: int = 0
    whole: int = 0
    lookups: int = 0
    joins: int = 0
    searches: int = 0

    def steps(self, room: Room, reach: int, growth: int) -> int:
        """Steps of one round, at the most.

        Args:
            room: what was bound.
            reach: items of the longest list that there may be.
            growth: how often what was bound may be made longer by itself.
        """
        return (
            self.items * room.largest_item * growth * limits.COMPARED_STEPS
            + self.whole * room.values * growth * limits.COMPARED_STEPS
            + self.lookups * reach * limits.LOOKED_UP_STEPS
            + self.joins * reach // limits.JOINED_A_STEP
            + self.searches * room.longest_text * growth // limits.SEARCHED_A_STEP
        )


@dataclass(frozen=True, slots=True)
class _Names:
    """What comprehensions around a part of the tree have named: items of bound lists, and what may be anything."""

    items: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()


def weigh(root: Tree) -> tuple[Weight, Weight]:
    """Returns what is done once, and what is done in each round of comprehensions."""
    weights = Weight(), Weight()
    _visit(root, weights, _Names(), 0)
    return weights


def _visit(tree: Tree, weights: tuple[Weight, Weight], names: _Names, depth: int) -> None:
    match tree:
        case Constant() | Name():
            pass
        case Field(operand=operand):
            _visit(operand, weights, names, depth)
        case Call(operands=operands):
            _weigh_call(tree, weights[depth > 0], names)
            for operand in operands:
                _visit(operand, weights, names, depth)
        case Group(parts=parts):
            for part in parts:
                _visit(part, weights, names, depth)
        case Loop(names=own, outside=outside, inside=inside):
            for part in outside:
                _visit(part, weights, names, depth)
            is_bound = _is_bound(outside[0], names)
            items, loose = names.items - own, names.loose - own
            within = _Names(items | own, loose) if is_bound else _Names(items, loose | own)
            for part in inside:
                _visit(part, weights, within, depth + 1)


def _weigh_call(call: Call, weight: Weight, names: _Names) -> None:
    if call.function == "@in":
        weight.lookups += 1
    elif call.function in _SEARCHES:
        weight.searches += 1
    elif any(_is_small(operand) for operand in call.operands):
        return
    elif call.function in _EQUALITIES:
        if any(_is_item(operand, names.items) for operand in call.operands):
            weight.items += 1
        else:
            weight.whole += 1
    elif call.function == "_+_" and not _is_collected(call.operands[0]):
        if all(_is_item(operand, names.items) for operand in call.operands):
            weight.items += 1
        else:
            weight.joins += 1


def _is_collected(tree: Tree) -> bool:
    """It is what a comprehension has gathered so far: no source can spell its name."""
    return isinstance(tree, Name) and tree.name.startswith("@")


def _is_small(tree: Tree) -> bool:
    return isinstance(tree, Constant) or (isinstance(tree, Call) and tree.function in _SMALL_RESULTS)


def _is_item(tree: Tree, items: frozenset[str]) -> bool:
    """It is an item that a comprehension goes through, or in one."""
    match tree:
        case Name(name=name):
            return name in items
        case Field(operand=operand) | Call(function="_[_]", operands=(operand, _)):
            return _is_item(operand, items)
        case _:
            return False


def _is_bound(tree: Tree, names: _Names) -> bool:
    """It is a value that was bound, or in one, or the part of a list that a comprehension leaves of one."""
    match tree:
        case Name(name=name):
            return name not in names.loose
        case Field(operand=operand) | Call(function="_[_]", operands=(operand, _)):
            return _is_bound(operand, names)
        case Loop(names=own, outside=outside, inside=inside):
            kept = [part for part in inside for part in _kept(part)]
            return _is_bound(outside[0], names) and all(_is_item(part, own) for part in kept)
        case _:
            return False


def _kept(tree: Tree) -> list[Tree]:
    """What a round of a comprehension adds to its list."""
    match tree:
        case Call(function="_?_:_", operands=(_, *branches)):
            return [part for branch in branches for part in _kept(branch)]
        case Call(function="_+_", operands=(Name(), Group(parts=parts))):
            return list(parts)
        case _:
            return []
