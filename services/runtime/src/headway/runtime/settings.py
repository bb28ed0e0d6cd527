"""Settings from the environment, declared once: a field of a frozen dataclass is the variable, its default, its words.

The declarations are all there is: `load` reads them, `rows` lists them for docs/settings.md. Nothing else in a service
reads the environment.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

__all__ = [
    "CoordinatorAddress",
    "DatabaseSettings",
    "Fault",
    "ProcessSettings",
    "RedisSettings",
    "SettingRow",
    "SettingsError",
    "load",
    "rows",
    "setting",
]

_KEY = "headway.setting"
_SHOWN_PATTERN = 40  # characters: a longer one explains nothing to anybody
_HOST = r"([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:@,?]+)(:[0-9]{1,5})?"  # with a user before it and a port behind
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """What `setting` was told; kept in the field's metadata."""

    name: str
    meaning: str
    unit: str
    minimum: float | None
    maximum: float | None
    pattern: str | None
    secret: bool


def setting(
    name: str,
    *,
    meaning: str,
    default: Any = dataclasses.MISSING,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    pattern: str | None = None,
    secret: bool = False,
) -> Any:
    """Declares a setting: a field of a frozen, keyword-only dataclass.

    The field's annotation is its type: str, int, float, bool, timedelta (`90`, `1.5s`, `250ms`, `2m`, `1h`), Path, an
    Enum, a Literal of strings, `tuple[str, ...]` (with commas between), or one of these or None.

    Args:
        name: The environment variable.
        meaning: One line, for docs/settings.md and for error messages.
        default: Its value when the variable is unset or empty. Without one, the setting is required.
        unit: What a number counts, such as `bytes`; a timedelta needs none.
        minimum: The least number (of seconds, for a timedelta) that is accepted.
        maximum: The greatest.
        pattern: What a text has to match, as a whole.
        secret: The value is never shown, in errors either. URLs may hold passwords: mark them.
    """
    declared = _Declared(
        name=name, meaning=meaning, unit=unit, minimum=minimum, maximum=maximum, pattern=pattern, secret=secret
    )
    return dataclasses.field(default=default, metadata={_KEY: declared}, repr=not secret)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one variable, and what to do about it."""

    name: str
    value: str | None
    """As found; None when it is unset or secret."""
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.remedy}" if self.value is None else f"{self.name}={self.value!r}: {self.remedy}"


class SettingsError(ValueError):
    """The environment does not make valid settings; every fault is listed."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of docs/settings.md."""

    name: str
    type: str
    default: str
    """As one would write it; `required` when there is none."""
    meaning: str
    services: tuple[str, ...]


def load(settings_type: type[SettingsT], environ: Mapping[str, str] | None = None) -> SettingsT:
    """Reads the declared settings.

    Args:
        settings_type: A dataclass whose fields are made by `setting`; it may inherit from several.
        environ: Where to read; the process's environment when None.

    Raises:
        SettingsError: At least one variable is missing or not understood.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for field, declared, annotation in _declared(settings_type):
        text = environ.get(declared.name, "").strip()
        if not text:
            if field.default is dataclasses.MISSING:
                faults.append(Fault(declared.name, None, f"is required: {declared.meaning}"))
            continue
        try:
            value = _parse(text, annotation)
            _check_range(value, declared)
            _check_pattern(value, declared)
        except ValueError as error:
            faults.append(Fault(declared.name, None if declared.secret else text, f"{error} ({declared.meaning})"))
        else:
            values[field.name] = value
    if faults:
        raise SettingsError(faults)
    return settings_type(**values)


def rows(services: Mapping[str, type[Any]]) -> list[SettingRow]:
    """The settings of several services, each once, in the order of their first declaration.

    Args:
        services: The settings type of each service, by the service's name.

    Raises:
        ValueError: Two services give one variable another type, default or meaning.
    """
    found: dict[str, SettingRow] = {}
    for service, settings_type in services.items():
        for field, declared, annotation in _declared(settings_type):
            row = SettingRow(
                declared.name,
                _type_words(annotation, declared.unit),
                "required" if field.default is dataclasses.MISSING else _spell(field.default),
                declared.meaning,
                (service,),
            )
            known = found.setdefault(declared.name, row)
            if known is row:
                continue
            if dataclasses.replace(known, services=row.services) != row:
                raise ValueError(f"{declared.name} is declared twice, differently: {known} and {row}")
            found[declared.name] = dataclasses.replace(known, services=(*known.services, service))
    return list(found.values())


def _declared(settings_type: type[Any]) -> list[tuple[dataclasses.Field[Any], _Declared, Any]]:
    annotations = typing.get_type_hints(settings_type)
    return [
        (field, field.metadata[_KEY], annotations[field.name])
        for field in dataclasses.fields(settings_type)
        if _KEY in field.metadata
    ]


def _parse(text: str, annotation: Any) -> Any:
    match annotation:
        case _ if typing.get_origin(annotation) in {types.UnionType, typing.Union}:
            return _parse(text, next(arg for arg in typing.get_args(annotation) if arg is not types.NoneType))
        case _ if typing.get_origin(annotation) is Literal:
            return _choice(text, {str(arg): arg for arg in typing.get_args(annotation)})
        case _ if typing.get_origin(annotation) is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        case type() if issubclass(annotation, enum.Enum):
            return _choice(text, {str(member.value): member for member in annotation})
        case type() if annotation is bool:
            return _boolean(text)
        case type() if annotation in {int, float}:
            return _number(text, annotation)
        case type() if annotation is timedelta:
            return _duration(text)
        case _:
            return annotation(text)


def _choice(text: str, choices: Mapping[str, Any]) -> Any:
    for name, value in choices.items():
        if name.casefold() == text.casefold():
            return value
    raise ValueError(f"write one of {', '.join(choices)}")


def _boolean(text: str) -> bool:
    if text.casefold() in _TRUE:
        return True
    if text.casefold() in _FALSE:
        return False
    raise ValueError("write true or false")


def _number(text: str, annotation: type[int | float]) -> int | float:
    try:
        return annotation(text)
    except ValueError:
        raise ValueError("write a whole number" if annotation is int else "write a number") from None


def _duration(text: str) -> timedelta:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    try:
        return timedelta(seconds=float(number) * _UNITS[text[len(number) :].strip() or "s"])
    except (ValueError, KeyError, OverflowError):
        raise ValueError("write a duration such as 30s, 250ms, 5m or 2h") from None


def _check_range(value: Any, declared: _Declared) -> None:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, int | float):
        return
    unit = " seconds" if isinstance(value, timedelta) else f" {declared.unit}".rstrip()
    # Written so that NaN, of which no comparison holds, is refused as well.
    if declared.minimum is not None and not number >= declared.minimum:
        raise ValueError(f"must be at least {declared.minimum:g}{unit}")
    if declared.maximum is not None and not number <= declared.maximum:
        raise ValueError(f"must be at most {declared.maximum:g}{unit}")


def _check_pattern(value: Any, declared: _Declared) -> None:
    if declared.pattern is not None and isinstance(value, str) and not re.fullmatch(declared.pattern, value):
        shown = declared.pattern if len(declared.pattern) <= _SHOWN_PATTERN else "the form that its meaning gives"
        raise ValueError(f"must match {shown}")


def _spell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case enum.Enum():
            return str(value.value)
        case tuple():
            return ",".join(str(part) for part in typing.cast("tuple[object, ...]", value))
        case timedelta():
            seconds = value.total_seconds()
            unit = next((unit for unit in ("d", "h", "m", "s") if seconds >= 1 and seconds % _UNITS[unit] == 0), None)
            return f"{seconds / _UNITS[unit]:g}{unit}" if unit else f"{seconds * 1000:g}ms" if seconds else "0s"
        case _:
            return str(value)


def _type_words(annotation: Any, unit: str) -> str:
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        timedelta: "duration",
        Path: "path",
    }
    match annotation:
        case _ if typing.get_origin(annotation) in {types.UnionType, typing.Union}:
            return _type_words(next(arg for arg in typing.get_args(annotation) if arg is not types.NoneType), unit)
        case _ if typing.get_origin(annotation) is Literal:
            return " or ".join(str(arg) for arg in typing.get_args(annotation))
        case _ if typing.get_origin(annotation) is tuple:
            return "list, with commas"
        case type() if issubclass(annotation, enum.Enum):
            return " or ".join(str(member.value) for member in annotation)
        case _:
            words = names.get(annotation, getattr(annotation, "__name__", str(annotation)))
            return f"{words} ({unit})" if unit else words


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """What every service process has. A service's own settings inherit from this."""

    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "HEADWAY_LOG_LEVEL", default="info", meaning="The least severe level that is logged."
    )
    log_format: Literal["auto", "json", "text"] = setting(
        "HEADWAY_LOG_FORMAT",
        default="auto",
        meaning="One JSON object a line, or text for people; auto is text on a terminal and JSON elsewhere.",
    )
    drain_timeout: timedelta = setting(
        "HEADWAY_DRAIN_TIMEOUT",
        default=timedelta(seconds=25),
        minimum=0,
        meaning="How long a process may finish its work after SIGTERM or SIGINT before it is stopped.",
    )
    otlp_endpoint: str | None = setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        default=None,
        meaning="Where traces and metrics go (OTLP over gRPC); unset: nowhere. Other OTEL_* variables are honoured.",
    )
    trace_file: Path | None = setting(
        "HEADWAY_TRACE_FILE",
        default=None,
        meaning="A file to which each finished span is appended as one line of JSON, for tests.",
    )


@dataclass(frozen=True, kw_only=True)
class DatabaseSettings:
    """For services that speak to PostgreSQL."""

    database_url: str = setting(
        "HEADWAY_DATABASE_URL",
        secret=True,
        pattern=rf"postgres(ql)?://({_HOST}(,{_HOST})*)?(/\S*|\?\S*)?",
        meaning="The PostgreSQL database: postgresql://user:password@host:port/name.",
    )


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """For services that speak to Redis."""

    redis_url: str = setting(
        "HEADWAY_REDIS_URL",
        secret=True,
        pattern=rf"unix://\S+|rediss?://{_HOST}(/\S*)?",
        meaning="The Redis that carries dispatches: redis://host:port/number, or rediss:// over TLS.",
    )


@dataclass(frozen=True, kw_only=True)
class CoordinatorAddress:
    """For services that call the coordinator."""

    coordinator: str = setting(
        "HEADWAY_COORDINATOR",
        default="127.0.0.1:7710",
        meaning="The coordinator: host:port, several IP addresses with commas between, or a target (dns:///name:port).",
    )
