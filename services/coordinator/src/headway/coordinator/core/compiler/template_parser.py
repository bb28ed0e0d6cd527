"""Texts with `${ … }` to templates, and expressions to sites that the scope checks go through.

`${ … }` is looked for once, in what the author of the workflow wrote; `$${` stands for `${` itself.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headway.coordinator.core.cel import (
    ALL_VARIABLES,
    TEXT_LITERAL,
    Compiled,
    ExpressionInvalid,
    compile_expression,
    limits,
    type_name,
)
from headway.coordinator.core.compiler.faults import Code, Faults
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One place at which an expression names a variable. `tested`: it is the operand of `has(…)`."""

    path: VariablePath
    place: Place
    tested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What one expression names."""

    mentions: tuple[Mention, ...]


class TemplateParser:
    """Parses templates and conditions, and keeps what they name until it is asked for."""

    def __init__(self, source: Source, faults: Faults) -> None:
        self._source = source
        self._faults = faults
        self._sites: list[Site] = []

    def take_sites(self) -> tuple[Site, ...]:
        """Returns what was parsed since the last call."""
        taken = tuple(self._sites)
        self._sites.clear()
        return taken

    def template(self, tree: Yaml) -> Template:
        """Returns the template; what is wrong in it becomes a fault, and null in its stead."""
        match tree:
            case YamlScalar(value=str() as text) if "${" in text:
                return self._text(Located(self._source, tree, text))
            case YamlScalar():
                return Literal(value=plain_value(tree))
            case YamlList(items=items):
                parsed = tuple(self.template(item) for item in items)
                values = [item.value for item in parsed if isinstance(item, Literal)]
                return Literal(value=values) if len(values) == len(parsed) else Array(items=parsed)
            case YamlMap(entries=entries):
                return object_of({key: self.template(value) for key, value in entries.items()})

    def condition(self, tree: YamlScalar, written: str, variables: frozenset[str] = ALL_VARIABLES) -> Expression | None:
        """Returns a bare expression that yields true or false, or None when there is a fault in it."""
        text = Located(self._source, tree, written)
        stripped = written.strip()
        if stripped.startswith("${"):
            inner = stripped[2:].removesuffix("}").strip()
            message = "a condition is an expression already; ${ } does not belong here"
            self._faults.add(tree.place, Code.BARE_EXPRESSION, message, f"write {inner}")
            return None
        begin = len(written) - len(written.lstrip())
        compiled = self._compile(text, stripped, begin, variables)
        if compiled is None:
            return None
        if compiled.result not in _CONDITION_TYPES:
            message = f"a condition must be true or false, this is of type {type_name(compiled.result)}"
            self._faults.add(tree.place, Code.NOT_A_CONDITION, message, "compare it with something: == … or > …")
            return None
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
            else:
                part = self._embedded(text, piece, offset)
                parts += [part] if part is not None else []
        match parts:
            case []:
                return Literal(value=None)
            case [str() as only]:
                return Literal(value=only)
            case [Reference() | Computed() as only]:
                return only
            case _:
                return Text(parts=tuple(parts))

    def _embedded(self, text: "Located", piece: str, offset: int) -> Reference | Computed | None:
        inner = piece[2:-1]
        begin = offset + 2 + len(inner) - len(inner.lstrip())
        compiled = self._compile(text, inner.strip(), begin)
        if compiled is None:
            return None
        place = text.place(begin)
        if compiled.result in _NOT_JSON:
            message = f"the result is of type {type_name(compiled.result)}, which has no JSON form"
            self._faults.add(place, Code.EXPRESSION_INVALID, message, "make it text: string(…)")
            return None
        if compiled.references.whole is not None:
            return Reference(path=compiled.references.whole, place=place)
        return Computed(expression=self._expression(compiled, place))

    def _compile(
        self, text: "Located", expression: str, begin: int, variables: frozenset[str] = ALL_VARIABLES
    ) -> Compiled | None:
        """Compiles what stands in the text at `begin`, and notes what it names."""
        try:
            compiled = compile_expression(expression, variables)
        except ExpressionInvalid as error:
            place = text.place(begin + offset_of(expression, error.line, error.column))
            self._faults.add(place, Code.EXPRESSION_INVALID, error.message, error.remedy)
            return None
        mentions = (
            Mention(path=read.path, place=text.place(begin + read.offset), tested=read.tested)
            for read in compiled.syntax.reads
        )
        self._sites.append(Site(mentions=tuple(mentions)))
        return compiled

    def _expression(self, compiled: Compiled, place: Place) -> Expression:
        found = compiled.references
        return Expression(source=compiled.source, reads=found.reads, tests=found.tests, place=place)


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
