"""What is wrong with a workflow's source: where, what, and what to do about it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import nsmallest
from itertools import islice
from typing import TypeAlias

from headway.coordinator.core.plan import Place

MAX_FAULTS = 200
_MAX_CANDIDATES = 500
_MAX_MEASURED = 12  # of them, those that share most letters
_MAX_LISTED = 20

Remedy: TypeAlias = "str | Callable[[], str]"


class Code(StrEnum):
    """Kinds of faults; stable, for tools and tests. The message says the rest."""

    YAML_SYNTAX = "yaml_syntax"
    YAML_TAG = "yaml_tag"
    YAML_ALIAS = "yaml_alias"
    YAML_KEY = "yaml_key"
    DUPLICATE_KEY = "duplicate_key"
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    UNKNOWN_KEY = "unknown_key"
    MISSING_KEY = "missing_key"
    WRONG_TYPE = "wrong_type"
    WRONG_VALUE = "wrong_value"
    CONTRADICTION = "contradiction"
    UNQUOTED_TEMPLATE = "unquoted_template"
    NOT_A_TEMPLATE = "not_a_template"
    TEMPLATE_SYNTAX = "template_syntax"
    TEMPLATE_NOT_ALLOWED = "template_not_allowed"
    BARE_EXPRESSION = "bare_expression"
    EXPRESSION_INVALID = "expression_invalid"
    NOT_A_CONDITION = "not_a_condition"
    WRONG_NAME = "wrong_name"
    RESERVED_NAME = "reserved_name"
    UNKNOWN_NODE_TYPE = "unknown_node_type"
    UNKNOWN_NODE = "unknown_node"
    NO_NODES = "no_nodes"
    DUPLICATE_EDGE = "duplicate_edge"
    CYCLE = "cycle"
    EDGE_NOT_ALLOWED = "edge_not_allowed"
    EDGE_NEVER_FOLLOWED = "edge_never_followed"
    MAY_LEAD_NOWHERE = "may_lead_nowhere"
    UNORDERED_SET = "unordered_set"
    ISOLATED_NODE = "isolated_node"
    JOIN_OUT_OF_REACH = "join_out_of_reach"
    JOIN_OF_ONE = "join_of_one"
    NEVER_RUNS = "never_runs"
    TYPE_MISMATCH = "type_mismatch"
    SCHEMA_INVALID = "schema_invalid"
    UNKNOWN_REFERENCE = "unknown_reference"
    NOT_AN_ANCESTOR = "not_an_ancestor"
    MAY_BE_MISSING = "may_be_missing"
    NO_ERROR_HERE = "no_error_here"
    UNKNOWN_VARIABLE = "unknown_variable"
    UNKNOWN_ZONE = "unknown_zone"
    NOT_IN_A_BODY = "not_in_a_body"
    INSIDE_A_BODY = "inside_a_body"
    NO_LOOP_HERE = "no_loop_here"
    TOO_DEEP = "too_deep"
    LONG_LIST = "long_list"
    NOT_DEPLOYED = "not_deployed"
    UNLIKELY_FAILURE = "unlikely_failure"
    CHECKS_WAIT = "checks_wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        line, column: in the source, from 1.
        code: its kind.
        message: what is wrong.
        remedy: what to do; may be empty.
        warning: the workflow can be deployed all the same.
    """

    line: int
    column: int
    code: Code
    message: str
    remedy: str = ""
    warning: bool = False

    def __str__(self) -> str:
        """One line, as compilers print them."""
        kind = "warning" if self.warning else "error"
        return f"{self.line}:{self.column}: {kind}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


class Enough(Exception):
    """There are more faults than are shown: nothing that is still found would be."""


class Faults:
    """Collects faults, so that one look shows them all.

    Attributes:
        errors: how often something was called an error, what was known already and what is not shown included.
    """

    def __init__(self, found: Iterable[Fault] = ()) -> None:
        """Go on from what was found before."""
        self.errors = 0
        self._found: dict[Fault, None] = dict.fromkeys(found)
        self._closed: set[Place] = set()
        self._hidden: Counter[Code] = Counter()
        self._no_templates: dict[Place, Fault] = {}  # an error at the place of one has it for its cause

    def add(self, place: Place, code: Code, message: str, remedy: Remedy, *, warning: bool = False) -> None:
        """Notes one. The same fault at the same place is noted once, however often an alias repeats it.

        Args:
            place: where.
            code: its kind.
            message: what is wrong.
            remedy: what to do; a function, if that takes time to find out.
            warning: it does not stand in the way of deploying.

        Raises:
            Enough: there are more than are shown.
        """
        self.errors += not warning
        if place in self._closed:
            self._hidden[code] += 1
            return
        found = Fault(
            line=place.line,
            column=place.column,
            code=code,
            message=message,
            remedy=remedy if isinstance(remedy, str) else remedy(),
            warning=warning,
        )
        if code is Code.NOT_A_TEMPLATE:
            self._no_templates[place] = found
        elif not warning and (cause := self._no_templates.pop(place, None)) is not None:
            self._found.pop(cause, None)
            found = replace(found, remedy=cause.remedy)
        if len(self._found) >= MAX_FAULTS and found not in self._found:
            message, remedy = "there are more faults than are shown", "mend these first"
            self._found[replace(found, code=Code.TOO_MANY, message=message, remedy=remedy, warning=False)] = None
            raise Enough
        self._found[found] = None

    def close(self, place: Place) -> None:
        """Lets nothing more be said of a place: what stands there could not be read, and all else follows from that."""
        self._closed.add(place)

    def is_closed(self, place: Place) -> bool:
        """Returns whether what stands there could not be read."""
        return place in self._closed

    def has_error_within(self, place: Place, length: int) -> bool:
        """Returns whether something is wrong in so many characters of a line."""
        columns = range(place.column, place.column + length)
        return any(not fault.warning and fault.line == place.line and fault.column in columns for fault in self._found)

    def say_that_checks_wait(self) -> None:
        """Notes, behind all the others, that there may be more, which only shows when these are mended."""
        last = max(self._found, key=lambda fault: (fault.line, fault.column))
        message = "further checks wait until what is found here is mended"
        found = Fault(line=last.line, column=last.column, code=Code.CHECKS_WAIT, message=message, warning=True)
        self._found[found] = None

    def count(self, codes: Collection[Code]) -> int:
        """Returns how many there are of some kinds, those included of which nothing is said."""
        return sum(fault.code in codes for fault in self._found) + sum(self._hidden[code] for code in codes)

    def withdraw(self, code: Code, column: int, lines: range) -> None:
        """Takes back what was said, of a kind and at a column of some lines, before its cause was known."""
        gone = [each for each in self._found if each.code is code and each.column == column and each.line in lines]
        for fault in gone:
            del self._found[fault]

    def fatal(self) -> bool:
        """Returns whether there is one that is no warning."""
        return any(not fault.warning for fault in self._found)

    def ordered(self) -> tuple[Fault, ...]:
        """Returns them in the order of the source."""
        return in_order(self._found)


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Returns faults in the order of the source; last, that there may be more."""
    return tuple(sorted(faults, key=lambda fault: (fault.code is Code.CHECKS_WAIT, fault.line, fault.column)))


def nearest(word: str, known: Collection[str]) -> Callable[[], str]:
    """Returns how to find the known word that is at most a few slips away, or else a list of what is known."""

    def find() -> str:
        if close := close_to(word, known):
            return f"did you mean {close}?"
        more = ", …" if len(known) > _MAX_LISTED else ""
        return f"known here: {', '.join(sorted(known)[:_MAX_LISTED])}{more}" if known else ""

    return find


def close_to(word: str, known: Collection[str], most: int | None = None) -> str:
    """Returns the known word that is at most a few slips away; empty: there is none.

    Args:
        word: as it was written.
        known: what it may have been meant for.
        most: how many slips; None: as many as a word of this length may hold.
    """
    if same := next((each for each in islice(known, _MAX_CANDIDATES) if each.casefold() == word.casefold()), ""):
        return same
    most = max(1, len(word) // 3) if most is None else most
    letters = set(word)
    candidates = islice((each for each in known if abs(len(each) - len(word)) <= most), _MAX_CANDIDATES)
    likely = nsmallest(_MAX_MEASURED, candidates, key=lambda each: len(letters.symmetric_difference(each)))
    slips, close = min(((_distance(word, each), each) for each in likely), default=(len(word), ""))
    return close if slips <= most and slips < len(word) else ""


def _distance(one: str, other: str) -> int:
    """Edits from one word to another: insert, remove, replace, or swap two neighbours."""
    before: list[int] = []
    previous = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, against in enumerate(other, 1):
            cost = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == against:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, previous = previous, current
    return previous[-1]
