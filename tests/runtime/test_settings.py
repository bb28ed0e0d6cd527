"""Settings: every way to write a value, and every way to get it wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Literal

import pytest

from headway.runtime.settings import DatabaseSettings, ProcessSettings, SettingsError, load, rows, setting


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Example:
    required: str = setting("X_REQUIRED", meaning="What must be there.")
    count: int = setting("X_COUNT", default=3, minimum=1, maximum=9, unit="lanes", meaning="How many.")
    ratio: float = setting("X_RATIO", default=0.5, minimum=0, meaning="What share.")
    on: bool = setting("X_ON", default=False, meaning="Whether.")
    pause: timedelta = setting("X_PAUSE", default=timedelta(minutes=2), minimum=0.1, meaning="How long.")
    colour: Colour = setting("X_COLOUR", default=Colour.RED, meaning="Which colour.")
    mode: Literal["fast", "slow"] = setting("X_MODE", default="fast", meaning="Which way.")
    folder: Path | None = setting("X_FOLDER", default=None, meaning="Where.")
    names: tuple[str, ...] = setting("X_NAMES", default=("a", "b"), meaning="Who.")
    password: int = setting("X_PASSWORD", default=0, secret=True, meaning="A secret number.")


def test_defaults_hold_for_what_is_unset_or_empty() -> None:
    example = load(Example, {"X_REQUIRED": "here", "X_COUNT": "", "X_MODE": "  "})

    assert (example.required, example.count, example.mode, example.folder) == ("here", 3, "fast", None)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("X_COUNT", "9", "count", 9),
        ("X_RATIO", "1e-3", "ratio", 0.001),
        ("X_ON", "Yes", "on", True),
        ("X_ON", "0", "on", False),
        ("X_PAUSE", "90", "pause", timedelta(seconds=90)),
        ("X_PAUSE", "250ms", "pause", timedelta(milliseconds=250)),
        ("X_PAUSE", "1.5 h", "pause", timedelta(hours=1.5)),
        ("X_COLOUR", "BLUE", "colour", Colour.BLUE),
        ("X_MODE", "slow", "mode", "slow"),
        ("X_FOLDER", "/var", "folder", Path("/var")),
        ("X_NAMES", "c, d,", "names", ("c", "d")),
    ],
)
def test_each_type_is_read(name: str, text: str, field: str, value: object) -> None:
    example = load(Example, {"X_REQUIRED": "here", name: text})

    assert getattr(example, field) == value


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("X_COUNT", "2.5", "write a whole number"),
        ("X_COUNT", "10", "must be at most 9 lanes"),
        ("X_COUNT", "0", "must be at least 1 lanes"),
        ("X_RATIO", "nan", "must be at least 0"),
        ("X_ON", "maybe", "write true or false"),
        ("X_PAUSE", "5 fortnights", "write a duration such as 30s, 250ms, 5m or 2h"),
        ("X_PAUSE", "nan", "write a duration such as 30s, 250ms, 5m or 2h"),
        ("X_PAUSE", "1ms", "must be at least 0.1 seconds"),
        ("X_COLOUR", "green", "write one of red, blue"),
        ("X_MODE", "medium", "write one of fast, slow"),
    ],
)
def test_a_fault_names_variable_value_and_remedy(name: str, text: str, remedy: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(Example, {"X_REQUIRED": "here", name: text})

    assert str(caught.value).startswith(f"{name}={text!r}: {remedy} (")


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Example, {"X_COUNT": "many", "X_ON": "maybe"})

    assert [fault.name for fault in caught.value.faults] == ["X_REQUIRED", "X_COUNT", "X_ON"]


def test_a_secret_is_never_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Example, {"X_REQUIRED": "here", "X_PASSWORD": "hunter2"})

    assert "hunter2" not in str(caught.value)
    assert "5" not in repr(load(DatabaseSettings, {"HEADWAY_DATABASE_URL": "postgresql://a:5@b/c"}))


def test_rows_list_each_variable_once_with_all_its_services() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other(ProcessSettings, DatabaseSettings):
        pass

    found = {row.name: row for row in rows({"one": ProcessSettings, "two": Other, "three": Example})}

    assert found["HEADWAY_LOG_LEVEL"].services == ("one", "two")
    assert found["HEADWAY_DATABASE_URL"].default == "required"
    assert (found["X_PAUSE"].type, found["X_PAUSE"].default) == ("duration", "2m")
    assert (found["X_COUNT"].type, found["X_COUNT"].default) == ("whole number (lanes)", "3")
    assert (found["X_NAMES"].default, found["X_FOLDER"].default) == ("a,b", "")


def test_one_variable_cannot_mean_two_things() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other:
        count: int = setting("X_COUNT", default=4, meaning="How many.")

    with pytest.raises(ValueError, match="X_COUNT is declared twice"):
        rows({"one": Example, "two": Other})
