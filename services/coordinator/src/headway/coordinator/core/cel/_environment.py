"""The operators of the expression language, as data for the CEL checker and evaluator.

CEL's own rules keep int, uint and double strictly apart: `1500 > 0.8` and `1 + 2.5` do not pass its checker and
`1500 / 1000` is 1. In a workflow all numbers come from JSON, where 1500 and 1500.0 are one value, so here numbers work
together however they are spelt:

- mixed arithmetic gives a double (int and uint: an int);
- `/` is exact: 1500 / 1000 is 1.5, 3000 / 1000 is 3; `int(a / b)` cuts;
- `%` keeps the sign of its left side, like CEL's;
- dividing by zero is an error for doubles too, since JSON has no infinity;
- numbers compare by value; both results of `? :` may differ in type.

The checker refuses a second declaration of a standard function, so each changed function is left out of its standard
library and declared again with all its overloads. The evaluator has the same-type overloads of its own and cannot be
given others, so only the mixed ones are implemented, and division (whose int overload is wrong for us) is compiled to a
function of our own by `_rewrite`. This module only makes data; it does not know the evaluator.
"""

from collections.abc import Callable, Mapping
from itertools import permutations, product
from typing import Any, TypeAlias, TypeVar

from headway.coordinator.core.cel._parts import item_of, size_of
from headway.coordinator.core.cel._rewrite import DIVISION, ITEM, ITEMS, SIZE

Number: TypeAlias = int | float
Overload: TypeAlias = tuple[str, str, str]  # (id, parameters, result)
T = TypeVar("T")

_NUMBERS = {"int": "int64", "uint": "uint64", "double": "double"}  # each with its name in overload ids
_MIXED = tuple(permutations(_NUMBERS, 2))


def _divide(left: Number, right: Number) -> Number:
    if right == 0:
        message = "division by zero"
        raise ZeroDivisionError(message)
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _modulo(left: Number, right: Number) -> Number:
    if right == 0:
        message = "modulus by zero"
        raise ZeroDivisionError(message)
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _add(left: Number, right: Number) -> Number:
    return left + right


def _subtract(left: Number, right: Number) -> Number:
    return left - right


def _multiply(left: Number, right: Number) -> Number:
    return left * right


_Operator: TypeAlias = Callable[[Number, Number], Number]

# Function: its implementation for mixed numbers, the prefix of its overload ids, and its standard overloads.
_ARITHMETIC: dict[str, tuple[_Operator, str, tuple[Overload, ...]]] = {
    "_+_": (
        _add,
        "add",
        (
            ("add_int64", "int,int", "int"),
            ("add_uint64", "uint,uint", "uint"),
            ("add_double", "double,double", "double"),
            ("add_string", "string,string", "string"),
            ("add_bytes", "bytes,bytes", "bytes"),
            ("add_list", "list<~A>,list<~A>", "list<~A>"),
            ("add_duration_duration", "duration,duration", "duration"),
            ("add_duration_timestamp", "duration,timestamp", "timestamp"),
            ("add_timestamp_duration", "timestamp,duration", "timestamp"),
        ),
    ),
    "_-_": (
        _subtract,
        "subtract",
        (
            ("subtract_int64", "int,int", "int"),
            ("subtract_uint64", "uint,uint", "uint"),
            ("subtract_double", "double,double", "double"),
            ("subtract_duration_duration", "duration,duration", "duration"),
            ("subtract_timestamp_duration", "timestamp,duration", "timestamp"),
            ("subtract_timestamp_timestamp", "timestamp,timestamp", "duration"),
        ),
    ),
    "_*_": (
        _multiply,
        "multiply",
        (
            ("multiply_int64", "int,int", "int"),
            ("multiply_uint64", "uint,uint", "uint"),
            ("multiply_double", "double,double", "double"),
        ),
    ),
    "_/_": (
        _divide,
        "divide",
        (
            ("divide_int64", "int,int", "dyn"),
            ("divide_uint64", "uint,uint", "dyn"),
            ("divide_double", "double,double", "double"),
        ),
    ),
    "_%_": (
        _modulo,
        "modulo",
        (
            ("modulo_int64", "int,int", "int"),
            ("modulo_uint64", "uint,uint", "uint"),
            ("modulo_double", "double,double", "double"),
        ),
    ),
}

_KEYS = (*_NUMBERS, "string", "bool", "null", "list<dyn>", "map<dyn,dyn>")  # what an item may be looked up by
_COMPARISONS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_ORDERED = ("bool", "int64", "uint64", "double", "string", "bytes", "timestamp", "duration")
_EQUALITIES = {"_==_": "equals", "_!=_": "not_equals"}


def _mixed_result(left: str, right: str) -> str:
    return "double" if "double" in (left, right) else "int"


def _mixed(prefix: str, result: str | None = None) -> tuple[Overload, ...]:
    return tuple(
        (f"{prefix}_{_NUMBERS[left]}_{_NUMBERS[right]}", f"{left},{right}", result or _mixed_result(left, right))
        for left, right in _MIXED
    )


def _declarations() -> dict[str, tuple[Overload, ...]]:
    declared = {name: (*standard, *_mixed(prefix)) for name, (_, prefix, standard) in _ARITHMETIC.items()}
    for name, prefix in _COMPARISONS.items():
        same = ((f"{prefix}_{each}", f"{each},{each}".replace("64", ""), "bool") for each in _ORDERED)
        declared[name] = (*same, *_mixed(prefix, "bool"))
    for name, prefix in _EQUALITIES.items():
        declared[name] = ((prefix, "~A,~A", "bool"), *_mixed(prefix, "bool"))
    declared["_?_:_"] = (("conditional", "bool,dyn,dyn", "dyn"),)
    declared["@in"] = (
        ("in_list", "~A,list<~A>", "bool"),
        ("in_map", "~A,map<~A,~B>", "bool"),
        *((f"in_list_{left}_{right}", f"{left},list<{right}>", "bool") for left, right in _MIXED),
    )
    return declared


def _own() -> dict[str, tuple[Overload, ...]]:
    """What stands only in rewritten expressions: no source can spell these names."""
    division = ((f"exact_{left}_{right}", f"{left},{right}", "dyn") for left, right in product(_NUMBERS, _NUMBERS))
    items = (("items_list", "list<dyn>", "list<dyn>"), ("items_map", "map<dyn,dyn>", "list<dyn>"))
    return {
        DIVISION.decode(): tuple(division),
        ITEMS.decode(): items,
        ITEM.decode(): tuple((f"item_by_{place}", f"int,{key}", "dyn") for place, key in enumerate(_KEYS)),
        SIZE.decode(): (("size_of", "int", "int"),),
    }


def _same(items: T) -> T:
    return items


def _sorted_keys(entries: Mapping[Any, object]) -> list[Any]:
    return sorted(entries, key=lambda key: (type(key).__name__, key))


def configuration() -> str:
    """Returns the checker's configuration, as the YAML text that it takes."""
    declared = _declarations()
    lines = ["stdlib:", "  exclude_functions:", *(f'    - name: "{name}"' for name in declared), "functions:"]
    for name, overloads in {**declared, **_own()}.items():
        spelt = name.replace("<", "\\\\<").replace(">", "\\\\>")
        lines += [f'  - name: "{name}"', "    overloads:"]
        for overload, parameters, result in overloads:
            lines += [f'      - id: "{overload}"', f'        signature: "{spelt}({parameters})"']
            lines += [f'        return: "{result}"']
    return "\n".join(lines)


def implementations() -> dict[str, Callable[..., object]]:
    """Returns what the evaluator lacks, by overload id."""
    found: dict[str, Callable[..., object]] = {
        "items_list": _same,
        "items_map": _sorted_keys,
        "size_of": size_of,
    }
    found |= {f"item_by_{place}": item_of for place in range(len(_KEYS))}
    found |= {f"exact_{left}_{right}": _divide for left, right in product(_NUMBERS, _NUMBERS)}
    for name, (operator, prefix, _) in _ARITHMETIC.items():
        if name != "_/_":
            found |= {overload: operator for overload, _, _ in _mixed(prefix)}
    found["modulo_double"] = _modulo
    return found
