"""Texts with `${ … }` to templates, and expressions to sites that the scope checks go through.

`${ … }` is looked for once, in what the author of the workflow wrote; `$${` stands for `${` itself.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headway.coordinator.core.cel import (
    TEXT_LITERAL,
    VARIABLES,
    Compiled,
    ExpressionInvalid,
    Read,
    UnknownNames,
    asked_by,
    bare_path,
    compile_expression,
    limits,
    meant_expression,
    type_name,
    without_texts,
)
from headway.coordinator.core.compiler.faults import Code, Enough, Faults, Remedy
from headway.coordinator.core.compiler.slips import meant_template, path_here
from headway.coordinator.core.compiler.yaml_tree import Source, Yaml, YamlList, YamlMap, YamlScalar, plain_value
from headway.coordinator.core.plan import (
    Array,
    Computed,
    Expression,
    Literal,
    Object,
    Place,
    Reference,
    Template,
    Text,
    VariablePath,
)

_BRACES = re.compile(f"{TEXT_LITERAL}|[{{}}]", re.DOTALL)
_CONDITION_TYPES = ("bool", "dyn")
_NOT_JSON = ("bytes", "type")
_MAX_SEARCHED = 16_384
_MAX_SHOWN = 60
_MAX_MEANT = 160  # characters of an expression that is given back as it is to be written
_TEMPLATE_BRACES = re.compile(r"\$\{|\{\{")
MAX_EXPRESSIONS_BYTES = 524_288  # of all different expressions of a file that are more than a path
_BYTES_FOR_EACH = 128
_DOUBLED = re.compile(r"\{\s*([^:{}]*?[^:{}\s])\s*\}")
_DASHED = re.compile(r"[A-Za-z_]\w*(?:-\w+)*-\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One place at which an expression names a variable. `tested`: it is the operand of `has(…)`."""

    path: VariablePath
    place: Place
    tested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What one expression names.

    Attributes:
        asked: the paths of which it asks whether they are there.
        sees_payload: it is asked about a signal.
    """

    mentions: tuple[Mention, ...]
    asked: frozenset[VariablePath] = frozenset()
    sees_payload: bool = False


class TemplateParser:
    """Parses templates and conditions, and keeps what they name until it is asked for."""

    def __init__(self, source: Source, faults: Faults) -> None:
        self._source = source
        self._faults = faults
        self._sites: list[Site] = []
        self._compiled: set[str] = set()
        self._bytes = 0

    def take_sites(self) -> tuple[Site, ...]:
        """Returns what was parsed since the last call."""
        taken = tuple(self._sites)
        self._sites.clear()
        return taken

    def template(self, tree: Yaml) -> Template:
        """Returns the template; what is wrong in it becomes a fault, and something unknown in its stead."""
        match tree:
            case YamlScalar(value=str() as text) if "${" in text:
                return self._text(Located(self._source, tree, text))
            case YamlScalar() if self._faults.is_closed(tree.place):
                return _unknown(tree.place)
            case YamlScalar():
                if isinstance(tree.value, str) and (remedy := meant_template(tree.value)):
                    message = f"{_cut(tree.value)} is no template here, but text"
                    self._faults.add(tree.place, Code.NOT_A_TEMPLATE, message, remedy, warning=True)
                return Literal(value=plain_value(tree))
            case YamlList(items=items):
                parsed = tuple(self.template(item) for item in items)
                values = [item.value for item in parsed if isinstance(item, Literal)]
                return Literal(value=values) if len(values) == len(parsed) else Array(items=parsed)
            case YamlMap(entries=entries):
                return object_of({key: self.template(value) for key, value in entries.items()})

    def condition(self, tree: YamlScalar, written: str, *, sees_payload: bool = False) -> Expression:
        """Returns a bare expression that yields true or false; when there is a fault in it, an unknown one."""
        text = Located(self._source, tree, written)
        stripped = written.strip()
        begin = len(written) - len(written.lstrip())
        if braces := _TEMPLATE_BRACES.search(without_texts(stripped)):
            shown = "${ }" if braces[0].startswith("$") else "{{ }}"
            message = f"a condition is an expression already; {shown} does not belong here"
            remedy = _written_here(stripped, "write the expression without them", names_are_known=False)
            self._faults.add(tree.place, Code.BARE_EXPRESSION, message, remedy)
            return unknown_condition(tree.place)
        if _TEMPLATE_BRACES.search(stripped) and (meant := meant_expression(stripped, names_are_known=False)):
            message = "a text in a condition holds no templates: it is compared as it is written"
            self._faults.add(tree.place, Code.BARE_EXPRESSION, message, f"write {meant}")
            return unknown_condition(tree.place)
        compiled = self._compile(text, stripped, begin, sees_payload=sees_payload)
        if compiled is None:
            return unknown_condition(tree.place)
        if compiled.result not in _CONDITION_TYPES:
            message = f"a condition must be true or false, this is of type {type_name(compiled.result)}"
            self._faults.add(tree.place, Code.NOT_A_CONDITION, message, "compare it with something: == … or > …")
            return unknown_condition(tree.place)
        return self._expression(compiled, text.place(begin))

    def _text(self, text: "Located") -> Template:
        parts: list[str | Reference | Computed] = []
        for offset, piece in _split(text.text):
            if offset is None:
                parts.append(piece)
            elif not piece.endswith("}"):
                remedy = "add }, or write $${ for the two characters themselves"
                message = "${ is not closed"
                self._faults.add(text.place(offset), Code.TEMPLATE_SYNTAX, message, remedy)
                parts.append(_unknown(text.place(offset)))
            else:
                parts.append(self._embedded(text, piece, offset))
        match parts:
            case [str() as only]:
                return Literal(value=only)
            case [Reference() | Computed() as only]:
                return only
            case _:
                return Text(parts=tuple(parts))

    def _embedded(self, text: "Located", piece: str, offset: int) -> Reference | Computed:
        inner = piece[2:-1]
        begin = offset + 2 + len(inner) - len(inner.lstrip())
        place = text.place(begin)
        if doubled := _DOUBLED.fullmatch(inner.strip()):
            message = "${{ }} is not a template here"
            self._faults.add(text.place(offset), Code.TEMPLATE_SYNTAX, message, f"write ${{{path_here(doubled[1])}}}")
            return _unknown(place)
        if (path := bare_path(inner.strip())) is not None:  # most templates are one: no need to compile it
            self._sites.append(Site(mentions=(Mention(path=path, place=place, tested=False),)))
            return Reference(path=path, place=place) if path[0] in VARIABLES else _unknown(place)
        compiled = self._compile(text, inner.strip(), begin)
        if compiled is None:
            return _unknown(place)
        if compiled.result in _NOT_JSON:
            message = f"the result is of type {type_name(compiled.result)}, which has no JSON form"
            self._faults.add(place, Code.EXPRESSION_INVALID, message, "make it text: string(…)")
            return _unknown(place)
        if compiled.references.whole is not None:
            return Reference(path=compiled.references.whole, place=place)
        return Computed(expression=self._expression(compiled, place))

    def _compile(self, text: "Located", expression: str, begin: int, *, sees_payload: bool = False) -> Compiled | None:
        """Compiles what stands in the text at `begin`, and notes what it names, be it known or not."""
        self._charge(text, expression)
        compiled: Compiled | None = None
        try:
            compiled = compile_expression(expression)
            reads = [read for read in compiled.syntax.reads if read.path[0] in VARIABLES]
        except UnknownNames as error:  # what may be named is known when the graph is
            reads = [read for read in error.reads if not self._says_dashed(text, expression, begin, read)]
        except ExpressionInvalid as error:
            place = text.place(begin + offset_of(expression, error.line, error.column))
            remedy = _written_here(expression, error.remedy)
            self._faults.add(place, Code.EXPRESSION_INVALID, error.message, remedy)
            return None
        mentions = (
            Mention(path=read.path, place=text.place(begin + read.offset), tested=read.tested) for read in reads
        )
        asked = frozenset(() if compiled is None else asked_by(compiled.syntax.root))
        self._sites.append(Site(mentions=tuple(mentions), asked=asked, sees_payload=sees_payload))
        return compiled

    def _charge(self, text: "Located", expression: str) -> None:
        """Refuses a file whose expressions take too long to compile. Each different one is compiled once."""
        if expression in self._compiled:
            return
        self._compiled.add(expression)
        self._bytes += len(expression) + _BYTES_FOR_EACH
        if self._bytes > MAX_EXPRESSIONS_BYTES:
            message = f"the expressions up to here have more than {MAX_EXPRESSIONS_BYTES:,} bytes"
            self._faults.add(text.place(0), Code.TOO_LARGE, message, "compute in python nodes, or split the workflow")
            raise Enough

    def _says_dashed(self, text: "Located", expression: str, begin: int, read: Read) -> bool:
        """Whether an unknown name is the rest of a field's that has dashes; there is a fault then."""
        before = _DASHED.search(expression[: read.offset])
        if read.path[0] in VARIABLES or before is None:
            return False
        name = before[0] + read.path[0]
        message = f"- subtracts: {name} is not read as one name"
        self._faults.add(text.place(begin + before.start()), Code.UNKNOWN_REFERENCE, message, f'write ["{name}"]')
        return True

    def _expression(self, compiled: Compiled, place: Place) -> Expression:
        found = compiled.references
        return Expression(source=compiled.source, reads=found.reads, parts=found.parts, tests=found.tests, place=place)


def _written_here(expression: str, otherwise: str, *, names_are_known: bool = True) -> Remedy:
    """Returns how to find out what to write instead of an expression, all of it; or what is said of a part of it."""

    def find() -> str:
        meant = meant_expression(expression, names_are_known=names_are_known)
        return f"write {meant}" if 0 < len(meant) <= _MAX_MEANT else otherwise

    return find


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def unknown_condition(place: Place) -> Expression:
    """Returns what stands for a condition in which there is a fault: sound, and unlike that of any other place."""
    return Expression(source=f"{place.line} == {place.column}", reads=(), place=place)


def is_unknown(condition: Expression) -> bool:
    """Returns whether there is a fault in a condition."""
    return condition == unknown_condition(condition.place)


def _unknown(place: Place) -> Reference:
    """What stands for an expression in which there is a fault: nothing is known of it."""
    return Reference(path=(), place=place)


class Located:
    """A scalar's text, and the way from a character in it to its place in the file.

    Escapes and folded lines set the two apart; then the line, or what follows the character, is looked for, and if that
    is not found exactly once, the place is the scalar's.
    """

    __slots__ = ("_base", "_raw", "_source", "_tree", "text")

    def __init__(self, source: Source, tree: YamlScalar, text: str) -> None:
        self.text = text
        self._source = source
        self._tree = tree
        self._raw = source.text[tree.span[0] : tree.span[1]]
        self._base = self._raw.find(text)

    def place(self, offset: int) -> Place:
        """Returns where the character at an offset stands."""
        start = self._tree.span[0]
        if self._base >= 0:
            return self._source.place(start + self._base + offset)
        if len(self._raw) > _MAX_SEARCHED:
            return self._tree.place
        line_start = self.text.rfind("\n", 0, offset) + 1
        line = self.text[line_start:].partition("\n")[0]
        if self._raw.startswith("|"):  # line by line as it is written, but for the indentation
            before = self.text.count("\n", 0, offset) + 1
            raw_lines = self._raw.split("\n")
            if before < len(raw_lines) and raw_lines[before].endswith(line):
                begin = sum(len(each) + 1 for each in raw_lines[:before]) + len(raw_lines[before]) - len(line)
                return self._source.place(start + begin + offset - line_start)
        if line.strip() and self._raw.count(line) == 1:
            return self._source.place(start + self._raw.find(line) + offset - line_start)
        near = self.text[offset : offset + 16].partition("\n")[0].rstrip("\"'")
        if near.strip() and self._raw.count(near) == 1:
            return self._source.place(start + self._raw.find(near))
        return self._tree.place


def object_of(entries: dict[str, Template]) -> Literal | Object:
    """Returns a map of templates; a literal one when there is no expression in it."""
    values = {key: entry.value for key, entry in entries.items() if isinstance(entry, Literal)}
    return Literal(value=values) if len(values) == len(entries) else Object(entries=entries)


def _split(text: str) -> Iterator[tuple[int | None, str]]:
    """Yields plain text without an offset, and each `${ … }` with its own; one that is open to the end is the last."""
    literal = ""
    at = 0
    while (found := text.find("${", at)) >= 0:
        if found > at and text[found - 1] == "$":
            literal += text[at : found - 1] + "${"
            at = found + 2
            continue
        literal += text[at:found]
        if literal:
            yield None, literal
        literal = ""
        end = _end_of(text, found + 2)
        yield found, text[found:end]
        if end is None:
            return
        at = end
    literal += text[at:]
    if literal:
        yield None, literal


def _end_of(text: str, start: int) -> int | None:
    """Returns where the expression that begins at `start` ends, its } included; texts and maps have their own."""
    depth = 1
    for token in _BRACES.finditer(text, start, start + limits.MAX_SOURCE_BYTES + 1):
        match token[0]:
            case "{":
                depth += 1
            case "}":
                depth -= 1
            case _:
                pass
        if depth == 0:
            return token.end()
    return None


def offset_of(text: str, line: int, column: int) -> int:
    """Returns the offset, from 0, of a line and column, from 1."""
    lines = text.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
