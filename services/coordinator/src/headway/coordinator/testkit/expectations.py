"""Expectations of a test file: each a function of what came of the run."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import orjson

from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.plan import Json, Place
from headway.coordinator.testkit.bodies import place_of
from headway.coordinator.testkit.cases import Difference, Expectation
from headway.coordinator.testkit.language import Outcome
from headway.coordinator.testkit.played import Call, Played

_SHOWN = 400  # characters of a value


def expect_outcome(place: Place, outcome: Outcome, *, run: str = "", what: str = "outcome") -> Expectation:
    """A run ends so: the one that is tried, or that of a subflow node."""

    def differs(played: Played) -> Difference | None:
        row, got = played.run_of(run), played.outcome_of(run)
        if got is outcome or (outcome is Outcome.ENDED and row is not None and row.is_final):
            return None
        if row is None and run:
            return Difference(expected=outcome, got="there was no run")
        why = played.refusal or played.fault_of(run)["message"]
        return Difference(expected=outcome, got=f"{got}" + (f": {why}" if why else ""))

    return Expectation(place=place, what=what, differs=differs)


def expect_value(
    place: Place, what: str, wanted: Json, get: Callable[[Played], Json], *, part: bool = False
) -> Expectation:
    """A value is so, or (`part`) has these keys."""

    def differs(played: Played) -> Difference | None:
        got = get(played)
        where = difference(wanted, got, part=part)
        if where is None:
            return None
        return Difference(expected=shown(wanted), got=f"{shown(got)} ({where})" if where else shown(got))

    return Expectation(place=place, what=what, differs=differs)


def expect_says(place: Place, what: str, wanted: str, get: Callable[[Played], Json]) -> Expectation:
    """A text has this in it."""

    def differs(played: Played) -> Difference | None:
        got = get(played)
        holds = isinstance(got, str) and wanted in got
        return None if holds else Difference(expected=f"… {wanted} …", got=shown(got))

    return Expectation(place=place, what=what, differs=differs)


def expect_path(place: Place, wanted: Sequence[str], *, part: bool) -> Expectation:
    """Nodes ran in this order."""

    def differs(played: Played) -> Difference | None:
        rest = iter(played.began)
        holds = all(name in rest for name in wanted) if part else tuple(wanted) == played.began
        return None if holds else Difference(expected=_listed(wanted), got=_listed(played.began))

    return Expectation(place=place, what="path_has" if part else "path", differs=differs)


def expect_never(place: Place, name: str) -> Expectation:
    """A node did not run, in no item or iteration."""

    def differs(played: Played) -> Difference | None:
        ran = [path for path in played.began if name in (path, place_of(path))]
        return Difference(expected=f"{name} does not run", got=f"{ran[0]} ran") if ran else None

    return Expectation(place=place, what="never", differs=differs)


def expect_calls(
    place: Place,
    what: str,
    mine: Callable[[Call], bool],
    times: int | None,
    given: tuple[Json, bool] | None,
    checkpoint: tuple[Json] | None = None,
) -> Expectation:
    """A handler was called so often.

    Args:
        place: in the test file.
        what: the calls, for people.
        mine: whose calls count.
        times: None: at least once.
        given: the input that counts, and whether it is a part of it only; None: any.
        checkpoint: the checkpoint that counts; None: any.
    """

    def has_found(call: Call) -> bool:
        return checkpoint is None or difference(checkpoint[0], call.checkpoint, part=False) is None

    def differs(played: Played) -> Difference | None:
        calls = [call for call in played.calls if mine(call) and has_found(call)]
        fitting = [call for call in calls if given is None or difference(given[0], call.input, part=given[1]) is None]
        if len(fitting) == times or (times is None and fitting):
            return None
        wanted = "at least one call" if times is None else _count(times)
        suffix = "" if given is None else f" with {'at least ' if given[1] else ''}{shown(given[0])}"
        suffix += "" if checkpoint is None else f" from the checkpoint {shown(checkpoint[0])}"
        got = _count(len(fitting)) + suffix
        others = ", ".join(shown(call.input) for call in calls)
        return Difference(expected=wanted + suffix, got=got + (f"; called with {others}" if calls else ""))

    return Expectation(place=place, what=what, differs=differs)


def expect_duration(place: Place, wanted_ms: int, *, at_most: bool) -> Expectation:
    """The run took so long."""

    def differs(played: Played) -> Difference | None:
        took = round(played.duration.total_seconds() * 1000)
        if took == wanted_ms or (at_most and took < wanted_ms):
            return None
        return Difference(
            expected=("at most " if at_most else "") + spell_duration(wanted_ms), got=spell_duration(took)
        )

    return Expectation(place=place, what="within" if at_most else "duration", differs=differs)


def difference(wanted: Json, got: Json, *, part: bool, where: str = "") -> str | None:
    """Compare values; numbers by what they are worth, however they are spelt.

    Args:
        wanted: expected.
        got: instead.
        part: maps may have other keys besides.
        where: this is, in the whole.

    Returns:
        None: no difference. Else where the first one is: `.items[0].sku`, empty at the top.
    """
    if isinstance(wanted, dict) and isinstance(got, dict):
        names = list(wanted) if part else [*wanted, *(name for name in got if name not in wanted)]
        places: Iterable[str | None] = (
            difference(wanted[name], got[name], part=part, where=f"{where}.{name}")
            if name in wanted and name in got
            else f"{where}.{name}"
            for name in names
        )
        return next((place for place in places if place is not None), None)
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return where
        pairs = enumerate(zip(wanted, got, strict=True))
        inner = (difference(one, other, part=part, where=f"{where}[{index}]") for index, (one, other) in pairs)
        return next((place for place in inner if place is not None), None)
    same_kind = isinstance(wanted, bool) == isinstance(got, bool)
    return None if same_kind and wanted == got else where


def shown(value: Json) -> str:
    """A value as JSON, cut."""
    text = orjson.dumps(cast("object", value)).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _count(times: int) -> str:
    return {0: "no call", 1: "1 call"}.get(times, f"{times} calls")
