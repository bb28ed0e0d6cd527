"""Reads the entries of a map by a table of fields, and each value by its kind."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from dataclasses import field as attribute

from headway.coordinator.core.cel import ALL_VARIABLES, FILTER_VARIABLES
from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.faults import Code, Faults, nearest
from headway.coordinator.core.compiler.language import Field
from headway.coordinator.core.compiler.template_parser import TemplateParser
from headway.coordinator.core.compiler.yaml_tree import Source, Yaml, YamlList, YamlMap, YamlScalar
from headway.coordinator.core.durations import parse_duration, spell_duration
from headway.coordinator.core.plan import Expression, Place, RetryPolicy, Template, TimeOuts
from headway.coordinator.core.schemas import DEPLOY_STEPS, Budget

_NAME = re.compile(language.NAME_PATTERN)


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
        self, reading: Reading, tree: YamlMap, fields: Sequence[Field], what: str, place: Place | None = None
    ) -> None:
        """Checks the keys.

        Args:
            reading: where faults go.
            tree: the map.
            fields: what may stand in it.
            what: what the map is, for messages: `a call node`.
            place: where to say that a key is missing; by default, where the map begins.
        """
        self.place = place or tree.place
        self._reading = reading
        self._tree = tree
        self._fields: Mapping[str, Field] = {field.name: field for field in fields}
        for key, key_place in tree.keys.items():
            if key not in self._fields:
                message = f"unknown key {cut(key)} in {what}"
                reading.faults.add(key_place, Code.UNKNOWN_KEY, message, nearest(key, self._fields))
        for field in fields:
            if field.required and field.name not in tree.entries:
                message = f"{what} needs the key {field.name}"
                what = f"one of {', '.join(field.words)}" if field.words else field.kind.value
                reading.faults.add(self.place, Code.MISSING_KEY, message, f"add {field.name}: {what}")

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
            self._reading.faults.add(tree.place, Code.TEMPLATE_NOT_ALLOWED, message, "write the text itself")
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
        self._reading.faults.add(tree.place, Code.WRONG_VALUE, f"{name} cannot be {written}", nearest(written, words))
        return None

    def boolean(self, name: str) -> bool | None:
        """Returns true or false."""
        tree = self._scalar(name, "true or false")
        if tree is None or isinstance(tree.value, bool):
            return tree.value if tree is not None and isinstance(tree.value, bool) else None
        self.wrong(tree.place, f"{name} must be true or false{_but_is(tree)}", "YAML 1.2 knows only true and false")
        return None

    def integer(self, name: str) -> int | None:
        """Returns a whole number within the field's bounds."""
        value = self.number(name)
        if value is None or value == int(value):
            return int(value) if value is not None else None
        self.wrong(self.place_of(name), f"{name} must be a whole number", "")
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
            bounds = f"{spell(field.least)} to {spell(field.most)}"
            self._reading.faults.add(tree.place, Code.WRONG_VALUE, f"{name} must be within {bounds}")
            return None
        return tree.value

    def duration(self, name: str) -> int | None:
        """Returns milliseconds, within the field's bounds."""
        tree = self._scalar(name, "a duration")
        if tree is None:
            return None
        milliseconds = parse_duration(tree.value) if isinstance(tree.value, str) else None
        if milliseconds is None:
            is_number = isinstance(tree.value, int | float) and not isinstance(tree.value, bool)
            remedy = f"write the unit: {tree.value}s" if is_number else "write 500ms, 30s, 1m30s, 2h or 2d"
            self.wrong(tree.place, f"{name} is no duration: {spell(tree.value)}", remedy)
            return None
        field = self._fields[name]
        if not field.least <= milliseconds <= field.most:
            bounds = f"{spell_duration(int(field.least))} to {spell_duration(int(field.most))}"
            self._reading.faults.add(tree.place, Code.WRONG_VALUE, f"{name} must be within {bounds}")
            return None
        return milliseconds

    def template(self, name: str) -> Template | None:
        """Returns a value that may hold templates."""
        tree = self._tree.entries.get(name)
        return None if tree is None else self._reading.templates.template(tree)

    def condition(self, name: str) -> Expression | None:
        """Returns a bare expression."""
        tree = self._scalar(name, "an expression")
        if tree is None:
            return None
        text = tree.value if isinstance(tree.value, str) else spell(tree.value)
        variables = FILTER_VARIABLES if self._fields[name].kind is language.Kind.FILTER else ALL_VARIABLES
        return self._reading.templates.condition(tree, text, variables)

    def map(self, name: str) -> YamlMap | None:
        """Returns a map."""
        tree = self._tree.entries.get(name)
        if tree is None or isinstance(tree, YamlMap):
            return tree
        remedy = (
            "write `key: value` lines, without dashes" if isinstance(tree, YamlList) else "write `key: value` lines"
        )
        self.wrong(tree.place, f"{name} must be a map{_but_is(tree)}", remedy)
        return None

    def list(self, name: str) -> YamlList | None:
        """Returns a list."""
        tree = self._tree.entries.get(name)
        if tree is None or isinstance(tree, YamlList):
            return tree
        self.wrong(tree.place, f"{name} must be a list{_but_is(tree)}", "begin each item with `- `, or write [ … ]")
        return None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Returns a list of constant texts."""
        found = self.list(name)
        if found is None:
            return None
        texts: list[str] = []
        for item in found.items:
            if isinstance(item, YamlScalar) and isinstance(item.value, str) and item.value:
                texts.append(item.value)
            else:
                is_empty = isinstance(item, YamlScalar) and item.value in (None, "")
                remedy = "remove what is empty" if is_empty else "put it in quotes"
                self.wrong(item.place, f"{name} must hold texts only", remedy)
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
                self.wrong(item.place, f"{name} must hold whole numbers from {bounds}", "write [200, 409]")
        return tuple(numbers)

    def wrong(self, place: Place, message: str, remedy: str) -> None:
        """Notes that a value is of the wrong type."""
        self._reading.faults.add(place, Code.WRONG_TYPE, message, remedy)

    def _scalar(self, name: str, wanted: str) -> YamlScalar | None:
        tree = self._tree.entries.get(name)
        if tree is None or isinstance(tree, YamlScalar):
            return tree
        code, message, remedy = Code.WRONG_TYPE, f"{name} must be {wanted}{_but_is(tree)}", ""
        if looks_like_template(tree):
            code, remedy = Code.UNQUOTED_TEMPLATE, "put templates in quotes: YAML reads { } as a map"
        self._reading.faults.add(tree.place, code, message, remedy)
        return None


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
