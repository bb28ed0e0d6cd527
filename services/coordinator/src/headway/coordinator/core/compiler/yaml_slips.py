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


_SLIPS = (
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
    for slip in _SLIPS:
        if re.search(slip.problem, problem) and re.search(slip.line, line):
            return place, slip.code, slip.message, slip.remedy
    return place, Code.YAML_SYNTAX, f"this is not YAML: {problem}", ""
