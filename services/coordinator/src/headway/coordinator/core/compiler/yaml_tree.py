"""YAML to a tree of JSON values that know where they stand.

Built from the parser's events, not from its own types: so that the types are JSON's and nothing else (a date, `on`,
`yes` and `1_000` stay text), every key and value has its place, and size, depth and the growth by aliases are limited
while reading. Numbers are spelt as in JSON.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.compiler.yaml_slips import explain
from headway.coordinator.core.plan import Json, Place

MAX_BYTES = 1_048_576
MAX_VALUES = 50_000  # keys, values and containers, aliases expanded
MAX_DEPTH = 64
_MAX_PARSED_AGAIN = 200_000  # characters in all: parsing is what takes longest
_NOT_TEXT = re.compile(r"\s*(?:-(?:\s|\Z)|[\w.-]+:(?:\s|\Z)|[\"'\]}#]|\Z)")  # what may follow text that is empty
_LONG_TAG = re.compile(r"(?:^|[\s\[{,])(![^\s]{1000})")

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT64 = 2**63
_MAX_SHOWN = 40
_START = Place(line=1, column=1)
_SPLIT = "split the workflow, or pass large data as input"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class YamlScalar:
    """A text, number, boolean or null. `span` is where it stands in the source, quotes included."""

    place: Place
    value: str | int | float | bool | None
    span: tuple[int, int]
    plain: bool
    size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class YamlList:
    """A list."""

    place: Place
    items: "tuple[Yaml, ...]"
    size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class YamlMap:
    """A map; `keys` says where each key stands."""

    place: Place
    entries: "dict[str, Yaml]"
    keys: dict[str, Place]
    size: int


Yaml: TypeAlias = YamlScalar | YamlList | YamlMap


class Source:
    """The text of a workflow, and the way from an index in it to line and column."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [0, *(found.end() for found in re.finditer(r"\n", text))]

    def place(self, index: int) -> Place:
        """Returns where the character at an index stands."""
        line = bisect_right(self._lines, index)
        return Place(line=line, column=index - self._lines[line - 1] + 1)

    def index(self, place: Place) -> int:
        """Returns the index of the character that stands at a place."""
        return self._lines[place.line - 1] + place.column - 1

    def line(self, number: int) -> str:
        """Returns a line, from 1."""
        lines = self.text.split("\n", number)
        return lines[number - 1] if number <= len(lines) else ""


def load_yaml(source: Source, faults: Faults) -> Yaml | None:
    """Returns the one document of the source, or None when a fault leaves nothing to go on with."""
    if len(source.text.encode(errors="replace")) > MAX_BYTES:
        faults.add(_START, Code.TOO_LARGE, f"the file is larger than {MAX_BYTES:,} bytes", _SPLIT)
        return None
    if tag := _LONG_TAG.search(source.text):  # the parser's time grows with the square of a tag's length
        faults.add(
            source.place(tag.start(1)), Code.YAML_TAG, "a tag of this length is no tag", "put the text in quotes"
        )
        return None
    return _parse(source, source.text, faults, 0, -1)


def _parse(source: Source, text: str, faults: Faults, spent: int, behind: int) -> Yaml | None:
    """Parses a text; where one value alone is to blame, that is said, and all is parsed again without it.

    Args:
        source: as it was written.
        text: the same, with what was to blame overwritten.
        faults: where faults go.
        spent: characters that were parsed before.
        behind: the index up to which values were overwritten.
    """
    builder = _Builder(faults, text)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except _TooMuch as error:
        faults.add(error.place, Code.TOO_LARGE, error.message, _SPLIT)
        return None
    except ReaderError as error:
        place = source.place(error.position if isinstance(error.position, int) else 0)
        faults.add(place, Code.YAML_SYNTAX, "a character that YAML does not allow", 'write it as an escape: "\\u0007"')
        return None
    except MarkedYAMLError as error:
        if builder.has_lost_text:
            return None
        found = explain(text, error)
        faults.add(found.place, found.code, found.message, found.remedy)
        spent += len(text)
        if found.value is None or spent > _MAX_PARSED_AGAIN:
            return None
        begin, end = (source.index(replace(found.place, column=column + 1)) for column in found.value)
        if begin <= behind:
            return None
        faults.close(source.place(begin))
        return _parse(source, f"{text[:begin]}{'x' * (end - begin)}{text[end:]}", faults, spent, end)
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        # The parser stumbles over some malformed input (an escape beyond Unicode, for one) with errors not its own.
        faults.add(builder.place, Code.YAML_SYNTAX, f"this is not YAML: {error}", "put the value in quotes")
        return None
    if builder.root is None:
        faults.add(_START, Code.YAML_SYNTAX, "the file is empty", "it begins with `workflow: name`")
    return builder.root


def plain_value(tree: Yaml) -> Json:
    """Returns the tree as JSON."""
    match tree:
        case YamlScalar(value=value):
            return value
        case YamlList(items=items):
            return [plain_value(item) for item in items]
        case YamlMap(entries=entries):
            return {key: plain_value(value) for key, value in entries.items()}


class _TooMuch(Exception):
    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or map that is being read."""

    place: Place
    anchor: str | None
    is_map: bool
    children: list[Yaml]
    size: int = 1


class _Builder:
    """Builds the tree from events, without recursion."""

    def __init__(self, faults: Faults, text: str) -> None:
        self.root: Yaml | None = None
        self.has_lost_text = False
        self._text = text
        self.place = Place(line=1, column=1)
        self._faults = faults
        self._open: list[_Open] = []
        self._anchors: dict[str, Yaml | None] = {}  # None: still being read
        self._documents = 0
        self._values = 0

    def take(self, event: Event) -> None:
        self.place = _place(event)
        match event:
            case DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._faults.add(self.place, Code.YAML_SYNTAX, "a second document", "one workflow per file")
            case ScalarEvent():
                self._take_scalar(event)
            case AliasEvent():
                self._take_alias(event)
            case SequenceStartEvent() | MappingStartEvent():
                self._begin(event)
            case SequenceEndEvent() | MappingEndEvent():
                self._end()
            case _:
                pass

    def _take_scalar(self, event: ScalarEvent) -> None:
        self._refuse_tag(event)
        if event.style in ("|", ">") and not event.value:
            self._find_text(event)
        plain = event.style is None or event.style == ""
        value = self._resolve(event.value) if plain else self._unicode(event.value)
        span = (event.start_mark.index, event.end_mark.index)
        self._add(YamlScalar(place=self.place, value=value, span=span, plain=plain), event.anchor)

    def _find_text(self, event: ScalarEvent) -> None:
        """Says that text which was to stand in lines of its own is not indented, where the next line looks like it."""
        begin = self._text.find("\n", event.start_mark.index) + 1
        while begin and not (line := self._text[begin:].partition("\n")[0]).strip() and begin < len(self._text):
            begin += len(line) + 1
        line = self._text[begin:].partition("\n")[0] if begin else ""
        if _NOT_TEXT.match(line):
            return
        self.has_lost_text = True
        at = event.start_mark.line + 1
        message = f"text that is not indented below line {at}, which announces it by {event.style}"
        number = self._text.count("\n", 0, begin) + 1
        place = Place(line=number, column=len(line) - len(line.lstrip()) + 1)
        self._faults.add(place, Code.YAML_SYNTAX, message, f"indent all of it deeper than line {at}")
        self._faults.close(place)
        self._faults.close(self.place)

    def _unicode(self, text: str) -> str:
        """Joins the halves of a character that two escapes may have left apart."""
        try:
            return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._refuse(Code.WRONG_VALUE, "half of a character (a lone surrogate)", "write both halves")
            return ""

    def _resolve(self, text: str) -> str | float | bool | None:
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            value = int(text) if len(text) < 20 else _INT64  # noqa: PLR2004 - the digits of 64 bits
            if -_INT64 <= value < _INT64:
                return value
            self._refuse(Code.WRONG_VALUE, f"{_cut(text)} is an integer beyond 64 bits", "put it in quotes")
            return None
        if _NUMBER.fullmatch(text):
            return self._finite(text, float(text))
        return self._finite(text, float("inf")) if _NOT_FINITE.fullmatch(text) else text

    def _finite(self, text: str, value: float) -> float | None:
        if abs(value) < float("inf"):
            return value
        self._refuse(Code.WRONG_VALUE, f"JSON has no number {_cut(text)}", "put it in quotes to make it text")
        return None

    def _refuse(self, code: Code, message: str, remedy: str) -> None:
        """Says what is wrong with a value, of which nothing more is to be said."""
        self._faults.add(self.place, code, message, remedy)
        self._faults.close(self.place)

    def _take_alias(self, event: AliasEvent) -> None:
        name = str(event.anchor)
        if name not in self._anchors:
            remedy = f"put * in quotes, or set &{name} before it"
            self._refuse(Code.YAML_ALIAS, f"*{name} refers to no anchor", remedy)
        elif self._anchors[name] is None:
            self._refuse(Code.YAML_ALIAS, f"*{name} contains itself", "put what is meant in its place")
        found = self._anchors.get(name)
        value = found or YamlScalar(place=self.place, value=None, span=(0, 0), plain=False)
        self._add(value, None, weight=value.size)

    def _begin(self, event: SequenceStartEvent | MappingStartEvent) -> None:
        self._refuse_tag(event)
        if len(self._open) >= MAX_DEPTH:
            raise _TooMuch(self.place, f"nested more than {MAX_DEPTH} deep")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        is_map = isinstance(event, MappingStartEvent)
        self._open.append(_Open(place=self.place, anchor=event.anchor, is_map=is_map, children=[]))

    def _end(self) -> None:
        done = self._open.pop()
        if done.is_map:
            self._add(self._close_map(done), done.anchor)
        else:
            self._add(YamlList(place=done.place, items=tuple(done.children), size=done.size), done.anchor)

    def _close_map(self, done: _Open) -> YamlMap:
        entries: dict[str, Yaml] = {}
        keys: dict[str, Place] = {}
        pairs = iter(done.children)
        for key, value in zip(pairs, pairs, strict=True):
            name = self._key(key, done.place)
            if name is None:
                continue
            if name in entries:
                first = keys[name]
                message = f"the key {name} stands here twice; first in line {first.line}"
                self._faults.add(key.place, Code.DUPLICATE_KEY, message, "remove or rename one of them")
                continue
            if isinstance(value, YamlScalar) and value.plain and value.value is None and value.span[0] == value.span[1]:
                entries[name] = replace(value, place=key.place)  # it would be said to stand in the next line
            else:
                entries[name] = value
            keys[name] = key.place
        return YamlMap(place=done.place, entries=entries, keys=keys, size=done.size)

    def _key(self, key: Yaml, place: Place) -> str | None:
        if not isinstance(key, YamlScalar):
            remedy = 'a template is written in quotes: "${name}"'
            self._faults.add(key.place, Code.YAML_KEY, "a map or list as a key", remedy)
            self._faults.close(place)
            return None
        name = key.value if isinstance(key.value, str) else self._spell_key(key)
        if name == "<<" and key.plain:
            self._faults.add(key.place, Code.YAML_KEY, "merge keys (<<) are not supported", "repeat the entries")
            return None
        return name

    def _spell_key(self, key: YamlScalar) -> str:
        spelt = {None: "null", True: "true", False: "false"}
        return spelt[key.value] if key.value is None or isinstance(key.value, bool) else str(key.value)

    def _add(self, value: Yaml, anchor: str | None, *, weight: int = 1) -> None:
        self._values += weight
        if self._values > MAX_VALUES:
            raise _TooMuch(self.place, f"more than {MAX_VALUES} values, aliases expanded")
        if anchor is not None:
            self._anchors[anchor] = value
        if self._open:
            self._open[-1].children.append(value)
            self._open[-1].size += value.size
        elif self.root is None:
            self.root = value

    def _refuse_tag(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent) -> None:
        tag = event.tag
        if tag is None:
            return
        remedy = "a value that begins with ! must stand in quotes"
        self._refuse(Code.YAML_TAG, f"{_cut(str(tag))} is a YAML tag, which has no meaning here", remedy)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _place(event: Event) -> Place:
    mark = event.start_mark
    return Place(line=mark.line + 1, column=mark.column + 1)
