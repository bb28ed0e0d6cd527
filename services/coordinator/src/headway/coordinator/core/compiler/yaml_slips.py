"""What the YAML parser's complaints mean to somebody who writes a workflow, and which value is to blame."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ruamel.yaml.error import MarkedYAMLError, StringMark

from headway.coordinator.core.compiler.faults import Code
from headway.coordinator.core.plan import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slip:
    """What the parser complains of, what the line looks like, and what that means.

    Attributes:
        is_of_value: nothing but one value is to blame, if it can be told where that begins and ends.
    """

    problem: str
    line: str = ""
    code: Code = Code.YAML_SYNTAX
    message: str
    remedy: str
    is_of_value: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is wrong, and where.

    Attributes:
        value: from which to which column, from 0, of its line the one value stands that is to blame; None: not known.
    """

    place: Place
    code: Code
    message: str
    remedy: str
    value: tuple[int, int] | None = None


_GLUED = re.compile(r"""(\s*)([\w-]+):[{\["'\w]""")
_ENTRY = re.compile(r"\s*(?:- )?[\w-]+: +[^\s|>&#]")
_NOT_CLOSED_BEFORE = "a comma or a closing bracket is missing before this"
_BEHIND_THE_QUOTE = "text behind the quote that ends the value"
# A line that holds one value: in front of it a key, a dash, or both.
_LINE = re.compile(
    r"""(?P<lead>\s*(?:- +)*(?:(?:[\w.-]+|"[^"]*"|'[^']*'):[ \t]+|(?<=- )))(?P<value>[^\s{\[|>&#].*?)\s*\Z"""
)
_BLOCK = re.compile(r"(?<=[:\-] )[|>][-+0-9]{0,2}[ \t]*(?:#.*)?$", re.MULTILINE)
_TOKEN = re.compile(
    rf"(?P<comment>(?:^|(?<=\s))#.*$)|(?P<block>{_BLOCK.pattern})|(?:^|[:\-?]\s|[\[{{,])[ \t]*(?P<quote>[\"'])",
    re.MULTILINE,
)
_QUOTED = {'"': re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL), "'": re.compile(r"'(?:''|[^'])*'")}
_BEHIND_A_VALUE = ("", "\n", "\r", ",", "}", "]", "#", ":")
_SLIPS = (
    _Slip(
        problem="",
        line="[\u201c\u201d\u201e\u2018\u2019]",
        message="typographic quotes, which YAML takes for letters",
        remedy="write \" or '",
    ),
    _Slip(
        problem="expected <block end>|expected ',' or",
        line=r""":\s+("[^"]*"|'[^']*')\s*[^\s,}\]#]""",
        message=_BEHIND_THE_QUOTE,
        remedy="put all of the value in quotes of the other kind",
        is_of_value=True,
    ),
    _Slip(
        problem="scanning an alias",
        message="* begins an alias",
        remedy="a value that begins with * must stand in quotes",
    ),
    _Slip(
        problem="<stream end>",
        message="a bracket that is never closed",
        remedy="close it; what stands behind a # is a comment, unless it is in quotes",
    ),
    _Slip(problem=r"found character '\\t'|\btabs?\b", message="a tab", remedy="indent with spaces"),
    _Slip(
        problem=r"scanning a tag",
        code=Code.YAML_TAG,
        message="! begins a YAML tag, which has no meaning here",
        remedy="a value that begins with ! must stand in quotes",
    ),
    _Slip(
        problem=r"expected ',' or '[}\]]', but got '\{'|mapping values are not allowed",
        line=r"\$\{",
        code=Code.UNQUOTED_TEMPLATE,
        message="a template without quotes, which YAML takes for a map",
        remedy='put it in quotes: "${ … }"',
        is_of_value=True,
    ),
    _Slip(
        problem=r"mapping values are not allowed",
        line=r"\?.*:",
        message="`: ` in a value without quotes",
        remedy='put the expression in quotes: "a ? b : c"',
        is_of_value=True,
    ),
    _Slip(
        problem=r"mapping values are not allowed",
        message="`: ` in a value without quotes",
        remedy="put the value in quotes, or the key on a line of its own",
        is_of_value=True,
    ),
    _Slip(
        problem=r"cannot start any token",
        line=r"[:\-,\[] *[|>][-+0-9]*\s*$",
        message="text in lines of its own (|) cannot stand within braces",
        remedy="write the braces' keys in lines of their own, without braces",
    ),
    _Slip(
        problem=r"cannot start any token",
        message="no value can begin with this character",
        remedy="put the value in quotes",
        is_of_value=True,
    ),
    _Slip(problem=r"unexpected end of stream", message="a quote that is never closed", remedy="close it"),
    _Slip(
        problem=r"expected <block end>",
        message="this line does not go with those above it",
        remedy="give neighbours the same indentation, and begin all with a dash or none",
    ),
    _Slip(
        problem=r"expected ',' or",
        message=_NOT_CLOSED_BEFORE,
        remedy="put values that hold , : { } [ ] in quotes",
    ),
    _Slip(problem=r"could not find expected ':'", message="a key without a colon", remedy="write `key: value`"),
)


def explain(text: str, error: MarkedYAMLError) -> Explained:
    """Returns where the parser stopped, and what is wrong there and what to do.

    Args:
        text: the source.
        error: the parser's.
    """
    problem = ", ".join(str(part) for part in (error.context, error.problem) if part)
    place, opened_at = _place_of(error.problem_mark) or _place_of(error.context_mark), _place_of(error.context_mark)
    if place is None or (opened_at is not None and "<stream end>" in problem):
        place = opened_at or Place(line=1, column=1)
    lines = text.split("\n")

    def line_of(number: int) -> str:
        return lines[number - 1] if number <= len(lines) else ""

    if (opened := _open_quote(text, place)) is not None:
        return _explain_quote(line_of(opened.line), opened)
    line = line_of(place.line)
    if "mapping values are not allowed" in problem and (found := _misplaced_colon(line_of, place)) is not None:
        at, code, message, remedy = found
        return Explained(place=at, code=code, message=message, remedy=remedy)
    for slip in _SLIPS:
        if re.search(slip.problem, problem) and re.search(slip.line, line):
            value = _value_at(line, place.column - 1) if slip.is_of_value else None
            remedy = slip.remedy
            if slip.message == _BEHIND_THE_QUOTE and (requoted := _requoted(line, place.column - 1, value)):
                remedy = f"write {requoted}"
            if slip.message == _NOT_CLOSED_BEFORE and opened_at is not None and opened_at.line < place.line:
                remedy = f"close the bracket of line {opened_at.line}; {remedy}"
            return Explained(place=place, code=slip.code, message=slip.message, remedy=remedy, value=value)
    remedy = "put values with special characters in quotes"
    return Explained(place=place, code=Code.YAML_SYNTAX, message=f"this is not YAML: {problem}", remedy=remedy)


def _place_of(mark: object) -> Place | None:
    return Place(line=mark.line + 1, column=mark.column + 1) if isinstance(mark, StringMark) else None


def _open_quote(text: str, before: Place) -> Place | None:
    """Where a quote begins that is closed neither on its line nor where a value could end: all else follows from it."""
    at = 0
    end = _end_of_line(text, before.line)
    while (found := _TOKEN.search(text, at)) is not None:
        at = found.end()
        if found["block"] is not None:
            at = _end_of_block(text, found.start())
        if found["quote"] is None:
            continue
        start = found.start("quote")
        if start > end:
            return None
        closed = _QUOTED[found["quote"]].match(text, start)
        behind = "" if closed is None else text[closed.end() :].lstrip(" \t")[:1]
        if closed is None or ("\n" in closed[0] and behind not in _BEHIND_A_VALUE):
            return Place(line=text.count("\n", 0, start) + 1, column=start - text.rfind("\n", 0, start))
        at = closed.end()
    return None


def _end_of_line(text: str, number: int) -> int:
    at = -1
    for _ in range(number):
        at = text.find("\n", at + 1)
        if at < 0:
            return len(text)
    return at


def _end_of_block(text: str, indicator: int) -> int:
    """Where text ends that stands in lines of its own, deeper than the line that opens it."""
    begin = text.rfind("\n", 0, indicator) + 1
    depth = _indentation(text[begin:indicator])
    at = text.find("\n", indicator)
    while at >= 0:
        end = text.find("\n", at + 1)
        line = text[at + 1 : end if end >= 0 else len(text)]
        if line.strip() and _indentation(line) <= depth:
            return at
        at = end
    return len(text)


def _explain_quote(line: str, place: Place) -> Explained:
    start = place.column - 1
    found = _LINE.match(line)
    is_alone = found is not None and found.start("value") == start
    remedy = f"write {line[start:].rstrip()}{line[start]}" if is_alone else "close it on the line that it stands on"
    return Explained(
        place=place,
        code=Code.YAML_SYNTAX,
        message="a quote that is never closed",
        remedy=remedy,
        value=(start, len(line.rstrip())) if is_alone else None,
    )


def _value_at(line: str, column: int) -> tuple[int, int] | None:
    """The columns of the value that a column is in, of a line of its own or within braces; None: it cannot be told."""
    found = _LINE.match(line)
    if found is not None and found.start("value") <= column and _is_balanced(found["value"]):
        return found.span("value")
    opened = line.rfind("${", 0, column + 2)
    start = max(opened, 0) if opened >= 0 else column
    marks = (mark for mark in (": ", ", ", "[", "- ") if mark in line[:start])
    start = max((line.rfind(mark, 0, start) + len(mark) for mark in marks), default=0)
    if line[start:].lstrip(" ")[:1] in ('"', "'", "") or _is_balanced(line[:start].rstrip(" ,")):
        return None
    start += len(line[start:]) - len(line[start:].lstrip(" "))
    depth = 0
    for at in range(start, len(line)):
        depth += (line[at] in "{[") - (line[at] in "}]")
        if depth < 0 or (depth == 0 and line[at] == ","):
            return start, at
    return None


def _is_balanced(value: str) -> bool:
    return all(value.count(one) == value.count(other) for one, other in ("{}", "[]")) and not value.endswith(",")


def _requoted(line: str, column: int, value: tuple[int, int] | None) -> str:
    """A value with text behind the quote that ends it, in quotes of another kind; empty: it cannot be told which."""
    if value is None:
        opened = max(line.rfind(f": {quote}", 0, column) for quote in "\"'")
        ends = re.search(r"(?<=[\"'])[\]}\s]*\Z", line)
        if opened < 0 or ends is None or "," in line[opened:]:
            return ""
        value = opened + 2, ends.start()
    written = line[slice(*value)]
    inner = written[1:-1] if written[0] == written[-1] and len(written) > 1 else written
    if "'" not in inner:
        return f"'{inner}'"
    return f'"{inner}"' if not re.search(r'["\\]', inner) else "'" + inner.replace("'", "''") + "'"


def _misplaced_colon(line_of: Callable[[int], str], place: Place) -> tuple[Place, Code, str, str] | None:
    """What is wrong when a colon stands where none is expected, if the lines around it tell."""
    line = line_of(place.line)
    if (glued := _GLUED.match(line)) is not None:
        here = Place(line=place.line, column=glued.start(2) + 1)
        return here, Code.YAML_SYNTAX, "no space behind a colon", f"write `{glued[2]}: `"
    number = next((each for each in range(place.line - 1, 0, -1) if line_of(each).strip()), 0)
    above = line_of(number) if number else ""
    if line.find(":") != place.column - 1 or not above or above.lstrip().startswith("#"):
        return None
    if _ENTRY.match(above) and _indentation(line) > _indentation(above):
        here = Place(line=place.line, column=_indentation(line) + 1)
        return here, Code.YAML_SYNTAX, "a key below a line that has a value already", "indent both lines alike"
    if above.lstrip().startswith("//"):
        here = Place(line=number, column=_indentation(above) + 1)
        return here, Code.YAML_SYNTAX, "// begins no comment", "write #"
    if ": " not in above and not above.rstrip().endswith(":"):
        fixed = re.sub(r"^([\w-]+)\s*[:=\s]\s*", r"\1: ", above.strip())
        here = Place(line=number, column=_indentation(above) + 1)
        return here, Code.YAML_SYNTAX, "a key without a colon and a space behind it", f"write {fixed}"
    return None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
