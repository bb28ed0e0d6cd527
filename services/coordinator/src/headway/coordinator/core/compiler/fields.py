"""Reads the entries of a map by a table of fields, and each value by its kind."""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from dataclasses import field as attribute
from enum import StrEnum

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.failures import meant_failure
from headway.coordinator.core.compiler.faults import Code, Faults, close_to, nearest
from headway.coordinator.core.compiler.habits import WORDS, attempts_meant, instead_of_key, normal, says_order
from headway.coordinator.core.compiler.language import Field, Kind
from headway.coordinator.core.compiler.slips import meant_duration
from headway.coordinator.core.compiler.template_parser import TemplateParser, unknown_condition
from headway.coordinator.core.compiler.yaml_tree import Source, Yaml, YamlList, YamlMap, YamlScalar
from headway.coordinator.core.durations import parse_duration, spell_duration
from headway.coordinator.core.plan import Expression, Place, RetryPolicy, Template, TimeOuts
from headway.coordinator.core.schemas import DEPLOY_STEPS, Budget

_NAME = re.compile(language.NAME_PATTERN)
_KEY_IN_REMEDY = re.compile(r"\b([a-z_]+):")
_SAMPLES: Mapping[StrEnum, str] = {
    Kind.NAME: "a_name",
    Kind.TEXT: "text",
    Kind.INTEGER: "a number, such as 100",
    Kind.TEMPLATE: '"${input.name}", or any value',
    Kind.TEMPLATES: "{name: value}",
    Kind.CONDITION: "an expression, such as input.amount > 100",
    Kind.CODE: '"def run(input): return …"',
    Kind.SCHEMA: "{type: object, properties: {…}}",
    Kind.SCHEMAS: "{name: {type: number}}",
    Kind.TEXTS: "[a, b]",
    Kind.STATUSES: "[200, 201]",
    Kind.NODE: "the name of a node",
    Kind.NODES: "{name: {type: call, handler: …}}",
    Kind.EDGES: "[[from, to]]",
    Kind.CASES: "[{when: …, to: …}]",
    Kind.REQUEST: '{url: "https://…"}',
    Kind.RETRY: "{max_attempts: 3}",
    Kind.DEFAULTS: "{retry: {max_attempts: 3}}",
    Kind.RULES: "[{errors: [Name], max_attempts: 3}]",
    Kind.BODY: "{type: call, handler: …}, or {nodes: …, edges: …}",
    Kind.LAST: "{type: call, handler: …}, or {nodes: …, edges: …}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What nodes have that do not say otherwise; None: what the language says."""

    queue: str | None = None
    retry: RetryPolicy = RetryPolicy()
    timeouts: TimeOuts = TimeOuts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is shared while one source is read.

    Attributes:
        zones: the names of all time zones; None: they are not checked.
        schema_steps: what the checks of all its schemas may still take.
    """

    source: Source
    faults: Faults
    templates: TemplateParser
    defaults: Defaults = Defaults()
    zones: AbstractSet[str] | None = None
    schema_steps: Budget = attribute(default_factory=lambda: Budget(DEPLOY_STEPS))


class Entries:
    """A map whose keys a table names.

    Asking for a value that is absent gives None; for one that is wrong, too, and there is a fault.
    """

    def __init__(
        self,
        reading: Reading,
        tree: YamlMap,
        fields: Sequence[Field],
        what: str,
        place: Place | None = None,
        name: str = "",
        *,
        is_file: bool = False,
    ) -> None:
        """Checks the keys.

        Args:
            reading: where faults go.
            tree: the map.
            fields: what may stand in it.
            what: what the map is, for messages: `a call node`.
            place: where to say that a key is missing; by default, where the map begins.
            name: of the node that it is.
            is_file: it is a whole file, in which keys of one's own may stand.
        """
        self._is_file = is_file
        self.place = place or tree.place
        self._reading = reading
        self._tree = tree
        self._fields: Mapping[str, Field] = {field.name: field for field in fields}
        self._meant = self._refuse_unknown(what, name)
        for field in fields:
            if field.required and field.name not in tree.entries and not {field.name, "type"} & self._meant:
                message = f"{what} needs the key {field.name}"
                reading.faults.add(self.place, Code.MISSING_KEY, message, f"add {field.name}: {sample_of(field)}")

    def _refuse_unknown(self, what: str, name: str) -> frozenset[str]:
        """Says which keys have no meaning; returns those that were meant by them."""
        meant: set[str] = set()
        for key, place in self._tree.keys.items():
            if key in self._fields or (self._is_file and key.startswith(language.OWN_KEYS)):
                continue
            value = self._tree.entries[key]
            remedy = instead_of_key(key, what, name, value) or _space_behind_colon(key)
            close = "" if remedy else close_to(key, self._fields)
            if close and close not in self._tree.entries:
                meant.add(close)
            is_node = isinstance(value, YamlMap) and "type" in value.entries
            if is_node and not remedy and not close and "nodes" in self._fields:
                remedy = f"{cut(key)} is a node: indent it below nodes:"
            meant |= set(_KEY_IN_REMEDY.findall(remedy))
            if says_order(key):
                meant.add("edges")
            if self._is_file and not remedy and not close:
                remedy = f"{nearest(key, self._fields)()}; a key of your own begins with {language.OWN_KEYS}"
            message = f"unknown key {cut(key)} in {what}"
            self._reading.faults.add(place, Code.UNKNOWN_KEY, message, remedy or nearest(key, self._fields))
        return frozenset(meant)

    def means(self, name: str) -> bool:
        """Returns whether a key is there, or another was meant to be it."""
        return name in self or name in self._meant

    def has_lost(self, name: str) -> bool:
        """Returns whether something stands for a list, but not so that it can be read."""
        return name in self._meant or (name in self and not isinstance(self._tree.entries[name], YamlList))

    def __contains__(self, name: str) -> bool:
        return name in self._tree.entries

    def place_of(self, name: str) -> Place:
        """Returns where a value stands, or the map when it is absent."""
        tree = self._tree.entries.get(name)
        return tree.place if tree is not None else self.place

    def tree(self, name: str) -> Yaml | None:
        """Returns the value as it was written."""
        return self._tree.entries.get(name)

    def text(self, name: str) -> str | None:
        """Returns a constant text that is not empty."""
        tree = self._scalar(name, "text")
        if tree is None:
            return None
        if not isinstance(tree.value, str) or not tree.value:
            remedy = "write at least one character" if tree.value in (None, "") else "put it in quotes"
            self.wrong(tree.place, f"{name} must be text{_but_is(tree)}", remedy)
            return None
        if "${" in tree.value:
            message = f"{name} is constant: no template can stand here"
            remedy = "write the text itself; where it is to be chosen, let a switch go to one of several nodes"
            self._reading.faults.add(tree.place, Code.TEMPLATE_NOT_ALLOWED, message, remedy)
            return None
        return tree.value

    def source_text(self, name: str) -> str | None:
        """Returns text that is passed on as it is, whatever stands in it."""
        tree = self._scalar(name, "text")
        if tree is None:
            return None
        if isinstance(tree.value, str):
            return tree.value
        self.wrong(tree.place, f"{name} must be text{_but_is(tree)}", "put it in quotes")
        return None

    def word(self, name: str) -> str | None:
        """Returns one of the words that the field allows."""
        tree = self._scalar(name, "a word")
        if tree is None:
            return None
        words = self._fields[name].words
        if isinstance(tree.value, str) and tree.value in words:
            return tree.value
        written = spell(tree.value)
        remedy = WORDS.get(name, {}).get(normal(written)) or nearest(written, words)
        self._reading.faults.add(tree.place, Code.WRONG_VALUE, f"{name} cannot be {written}", remedy)
        return None

    def boolean(self, name: str) -> bool | None:
        """Returns true or false."""
        tree = self._scalar(name, "true or false")
        if tree is None or isinstance(tree.value, bool):
            return tree.value if tree is not None and isinstance(tree.value, bool) else None
        meant = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
        word = meant.get(spell(tree.value).lower(), "true or false")
        self.wrong(tree.place, f"{name} must be true or false{_but_is(tree)}", f"write {word}, without quotes")
        return None

    def integer(self, name: str) -> int | None:
        """Returns a whole number within the field's bounds."""
        value = self.number(name)
        if value is None or value == int(value):
            return int(value) if value is not None else None
        remedy = f"write {int(value)} or {int(value) + 1}"
        self.wrong(self.place_of(name), f"{name} must be a whole number, this is {spell(value)}", remedy)
        return None

    def number(self, name: str) -> float | None:
        """Returns a number within the field's bounds."""
        tree = self._scalar(name, "a number")
        if tree is None:
            return None
        if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
            self.wrong(tree.place, f"{name} must be a number{_but_is(tree)}", "write digits only, without quotes")
            return None
        field = self._fields[name]
        if not field.least <= tree.value <= field.most:
            self._out_of_bounds(name, tree.place, tree.value, spell)
            return None
        return tree.value

    def duration(self, name: str) -> int | None:
        """Returns milliseconds, within the field's bounds."""
        tree = self._scalar(name, "a duration")
        if tree is None:
            return None
        milliseconds = parse_duration(tree.value) if isinstance(tree.value, str) else None
        if milliseconds is None:
            remedy = meant_duration(tree.value) or "write 500ms, 30s, 1m30s, 2h or 2d"
            self.wrong(tree.place, f"{name} is no duration: {spell(tree.value)}", remedy)
            return None
        field = self._fields[name]
        if not field.least <= milliseconds <= field.most:
            self._out_of_bounds(name, tree.place, milliseconds, lambda value: spell_duration(int(value)))
            return None
        return milliseconds

    def _out_of_bounds(self, name: str, place: Place, value: float, spelt: Callable[[float], str]) -> None:
        field = self._fields[name]
        message = f"{name} must be within {spelt(field.least)} to {spelt(field.most)}, this is {spelt(value)}"
        remedy = f"write at least {spelt(field.least)}" if value < field.least else f"write at most {spelt(field.most)}"
        self._reading.faults.add(place, Code.WRONG_VALUE, message, remedy)

    def template(self, name: str) -> Template | None:
        """Returns a value that may hold templates."""
        tree = self._tree.entries.get(name)
        return None if tree is None else self._reading.templates.template(tree)

    def condition(self, name: str) -> Expression | None:
        """Returns a bare expression."""
        tree = self._scalar(name, "an expression")
        if tree is None:
            return unknown_condition(self.place_of(name)) if name in self else None
        text = tree.value if isinstance(tree.value, str) else spell(tree.value)
        sees_payload = self._fields[name].kind is Kind.FILTER
        return self._reading.templates.condition(tree, text, sees_payload=sees_payload)

    def map(self, name: str) -> YamlMap | None:
        """Returns a map."""
        tree = self._tree.entries.get(name)
        if tree is None or isinstance(tree, YamlMap):
            return tree
        if isinstance(tree, YamlScalar) and tree.value is None and name in self._meant:
            return None
        field, is_count = self._fields[name], isinstance(tree, YamlScalar) and isinstance(tree.value, int)
        remedy = _as_written(field, "`key: value` lines") + (", without dashes" if isinstance(tree, YamlList) else "")
        if field.kind is Kind.RETRY and isinstance(tree, YamlScalar) and is_count:
            remedy = f"write retry: {{max_attempts: {attempts_meant(tree.value)}}}, the first attempt included"
        self.wrong(tree.place, f"{name} must be a map{_but_is(tree)}", remedy)
        return None

    def list(self, name: str) -> YamlList | None:
        """Returns a list."""
        tree = self._tree.entries.get(name)
        if tree is None or isinstance(tree, YamlList):
            return tree
        remedy = _as_written(self._fields[name], "[ … ], or begin each item with `- `")
        if self._fields[name].kind is Kind.TEXTS and isinstance(tree, YamlScalar) and isinstance(tree.value, str):
            texts = re.split(r"[,;|\s]+", tree.value.strip())
            remedy = f"write {name}: [{', '.join(meant_failure(text) for text in texts)}]"
        self.wrong(tree.place, f"{name} must be a list{_but_is(tree)}", remedy)
        return None

    def texts(self, name: str, instead: str = "") -> tuple[str, ...] | None:
        """Returns a list of constant texts.

        Args:
            name: the key.
            instead: what to write where a number stands; empty: it in quotes.
        """
        found = self.list(name)
        if found is None:
            return None
        texts: list[str] = []
        for item in found.items:
            if isinstance(item, YamlScalar) and isinstance(item.value, str) and item.value:
                texts.append(item.value)
            else:
                is_empty = isinstance(item, YamlScalar) and item.value in (None, "")
                remedy = "remove what is empty" if is_empty else instead or "put it in quotes"
                self.wrong(item.place, f"{name} must hold texts only{_but_is(item)}", remedy)
        return tuple(texts)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Returns a list of whole numbers, each within the field's bounds."""
        found = self.list(name)
        if found is None:
            return None
        field = self._fields[name]
        numbers: list[int] = []
        for item in found.items:
            value = item.value if isinstance(item, YamlScalar) else None
            if isinstance(value, int) and not isinstance(value, bool) and field.least <= value <= field.most:
                numbers.append(value)
            else:
                bounds = f"{spell(field.least)} to {spell(field.most)}"
                this = spell(item.value) if isinstance(item, YamlScalar) else "a list or a map"
                message = f"{name} must hold whole numbers from {bounds}, this is {this}"
                self.wrong(item.place, message, "write [200, 409]")
        return tuple(numbers)

    def wrong(self, place: Place, message: str, remedy: str) -> None:
        """Notes that a value is of the wrong type."""
        self._reading.faults.add(place, Code.WRONG_TYPE, message, remedy)

    def _scalar(self, name: str, wanted: str) -> YamlScalar | None:
        tree = self._tree.entries.get(name)
        if tree is None or isinstance(tree, YamlScalar):
            return tree
        code, message = Code.WRONG_TYPE, f"{name} must be {wanted}{_but_is(tree)}"
        remedy = f"write {wanted} behind {name}:"
        if looks_like_template(tree):
            code, remedy = Code.UNQUOTED_TEMPLATE, "put templates in quotes: YAML reads { } as a map"
        self._reading.faults.add(tree.place, code, message, remedy)
        return None


def sample_of(field: Field) -> str:
    """Returns what may stand behind a key, as somebody would write it."""
    return _SAMPLES.get(field.kind, " or ".join(field.words) or field.kind.value)


def _as_written(field: Field, otherwise: str) -> str:
    sample = _SAMPLES.get(field.kind)
    return f"write {otherwise}" if sample is None else f"write {field.name}: {sample}"


def _space_behind_colon(key: str) -> str:
    name, colon, value = key.partition(":")
    return f"write a space behind the colon: {name}: {value}" if colon and value else ""


def check_name(reading: Reading, name: str, place: Place, what: str) -> bool:
    """Returns whether this can be a name; if not, there is a fault."""
    if name in language.RESERVED_NAMES:
        reading.faults.add(
            place, Code.RESERVED_NAME, f"{name} cannot name {what}: it has a meaning of its own", "choose another"
        )
        return False
    if _NAME.fullmatch(name) and len(name) <= language.MAX_NAME:
        return True
    message = f"{cut(name)!r} cannot name {what}"
    remedy = f"small letters, digits and _, a letter first, at most {language.MAX_NAME}: {_nearest_name(name)}"
    reading.faults.add(place, Code.WRONG_NAME, message, remedy)
    return False


def _nearest_name(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    allowed = re.sub(r"[^a-z0-9_]+", "_", words.lower()).strip("_")[: language.MAX_NAME]
    return allowed if _NAME.fullmatch(allowed) else f"step_{allowed}"[: language.MAX_NAME].rstrip("_")


def spell(value: str | float | None) -> str:
    """Returns a scalar as JSON spells it; text without quotes, unless it is empty."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value) or "''"


def looks_like_template(tree: Yaml) -> bool:
    """Returns whether this map is what YAML makes of `{name}` or `{{name}}`: keys without values."""
    if not isinstance(tree, YamlMap) or len(tree.entries) != 1:
        return False
    (value,) = tree.entries.values()
    return isinstance(value, YamlScalar) and value.value is None and value.span[0] == value.span[1]


def cut(text: str) -> str:
    """Returns a text that stands where a name is meant, as long as names may be."""
    return text if len(text) <= language.MAX_NAME else text[: language.MAX_NAME] + "…"


def _but_is(tree: Yaml) -> str:
    match tree:
        case YamlMap():
            return ", this is a map"
        case YamlList():
            return ", this is a list"
        case YamlScalar(value=None | ""):
            return ", this is empty"
        case YamlScalar(value=value):
            return f", this is {spell(value)}"
