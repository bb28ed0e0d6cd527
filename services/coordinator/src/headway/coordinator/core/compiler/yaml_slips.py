"""What the YAML parser's complaints mean to somebody who writes a workflow."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ruamel.yaml.error import MarkedYAMLError, StringMark

from headway.coordinator.core.compiler.faults import Code
from headway.coordinator.core.plan import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slip:
    """What the parser complains of, what the line looks like, and what that means."""

    problem: str
    line: str = ""
    code: Code = Code.YAML_SYNTAX
    message: str
    remedy: str


_GLUED = re.compile(r"""(\s*)([\w-]+):[{\["'\w]""")
_ENTRY = re.compile(r"\s*(?:- )?[\w-]+: +[^\s|>&#]")
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
        message="text behind the quote that ends the value",
        remedy="put all of the value in quotes of the other kind: '\"a\" == input.name'",
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
    ),
    _Slip(
        problem=r"mapping values are not allowed",
        line=r"\?.*:",
        message="`: ` in a value without quotes",
        remedy='put the expression in quotes: "a ? b : c"',
    ),
    _Slip(
        problem=r"mapping values are not allowed",
        message="`: ` in a value without quotes",
        remedy="put the value in quotes, or the key on a line of its own",
    ),
    _Slip(
        problem=r"cannot start any token",
        message="no value can begin with this character",
        remedy="put the value in quotes",
    ),
    _Slip(problem=r"unexpected end of stream", message="a quote that is never closed", remedy="close it"),
    _Slip(
        problem=r"expected <block end>",
        message="this line does not go with those above it",
        remedy="give neighbours the same indentation, and begin all with a dash or none",
    ),
    _Slip(
        problem=r"expected ',' or",
        message="a comma or a closing bracket is missing before this",
        remedy="put values that hold , : { } [ ] in quotes",
    ),
    _Slip(problem=r"could not find expected ':'", message="a key without a colon", remedy="write `key: value`"),
)


def explain(line_of: Callable[[int], str], error: MarkedYAMLError) -> tuple[Place, Code, str, str]:
    """Returns where the parser stopped, and what is wrong there and what to do.

    Args:
        line_of: gives a line of the source, from 1.
        error: the parser's.
    """
    problem = ", ".join(str(part) for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    place = Place(line=1, column=1)
    if isinstance(mark, StringMark):
        place = Place(line=mark.line + 1, column=mark.column + 1)
    line = line_of(place.line)
    if "mapping values are not allowed" in problem and (found := _misplaced_colon(line_of, place)) is not None:
        return found
    for slip in _SLIPS:
        if re.search(slip.problem, problem) and re.search(slip.line, line):
            return place, slip.code, slip.message, slip.remedy
    return place, Code.YAML_SYNTAX, f"this is not YAML: {problem}", "put values with special characters in quotes"


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
    if ": " not in above and not above.rstrip().endswith(":"):
        fixed = re.sub(r"^([\w-]+)[:\s]\s*", r"\1: ", above.strip())
        here = Place(line=number, column=_indentation(above) + 1)
        return here, Code.YAML_SYNTAX, "a key without a colon and a space behind it", f"write {fixed}"
    return None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
