"""What a value was meant to be, where it is spelt as another language spells it."""

import re
from collections.abc import Mapping

from headway.coordinator.core.durations import spell_duration

_UNITS: Mapping[str, int] = {
    "ms": 1, "milli": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "hour": 3_600_000,
    "hr": 3_600_000, "d": 86_400_000, "day": 86_400_000, "w": 604_800_000, "week": 604_800_000,
}  # fmt: skip
_AMOUNTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([a-z]*)")
_CLOCK = re.compile(r"([0-9]{1,3}):([0-9]{2}):([0-9]{2})")
_ROOTS = "inputs?|steps|tasks|workflow|item|vars|nodes|outputs|params"
_PATHS = rf"(?:{_ROOTS}|run|error|last|index)\b[\w.\[\]]*"
# Templates as other languages write them; what is caught is the path or the expression in them.
_TEMPLATES = (
    re.compile(rf"\{{\{{-?\s*((?:{_ROOTS})\b[^{{}}]*?)\s*-?\}}\}}"),
    re.compile(r"\$\.(?:input\.)?([A-Za-z_][\w.\[\]]*)\Z"),
    re.compile(rf"[#%]\{{\s*({_PATHS})\s*\}}"),
    re.compile(rf"\$\(\s*({_PATHS})\s*\)"),
    re.compile(rf"<%=?\s*(?:\$\.)?({_PATHS})\s*%>"),
    re.compile(r"\A<%\s*\$\.([A-Za-z_]\w*(?:\.\w+)*)\s*%>\Z"),
    re.compile(rf"(?<!\$)\{{({_PATHS}\.\w+)\}}"),
    re.compile(rf"\A=\s*({_PATHS})\Z"),
    re.compile(r"\$((?:input|nodes|vars|item|run|error)\.[\w.]+)"),
)
_OF_THE_INPUT = frozenset({1, 5})  # those whose paths begin in the input
_OUTPUT = re.compile(r"nodes\.\w+\.(?:output|state)\b")
_CLOCK_PARTS = (3_600_000, 60_000, 1_000)
_MIN_WORD = 3  # letters of a unit that may go on, as seconds does


def meant_duration(value: str | float | None) -> str:
    """Returns what to write instead of something that is no duration; empty: nobody knows."""
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return f"write the unit: {spell_duration(round(value * 1_000))}" if value > 0 else ""
    if clock := _CLOCK.fullmatch(value):
        milliseconds = sum(int(part) * size for part, size in zip(clock.groups(), _CLOCK_PARTS, strict=True))
        return f"write {spell_duration(milliseconds)}"
    text = value.strip().lower()
    is_iso = text.startswith("p")
    text = re.sub(r"[pt,\s]|\band\b", " ", text) if is_iso else text.replace(",", " ").replace(" and ", " ")
    found = list(_AMOUNTS.finditer(text))
    milliseconds = 0.0
    for amount, unit in (each.groups() for each in found):
        longer = (_UNITS[each] for each in _UNITS if len(each) >= _MIN_WORD and unit.startswith(each))
        size = _UNITS.get(unit) or next(longer, 0)
        if not size:
            return f"write the unit: {amount}s" if not unit and len(found) == 1 else ""
        milliseconds += float(amount) * size
    if not milliseconds or _AMOUNTS.sub("", text).strip():
        return ""
    return f"write {spell_duration(round(milliseconds))}"


def meant_template(text: str) -> str:
    """Returns what to write instead of text that is a template elsewhere; empty: it is none."""
    for number, pattern in enumerate(_TEMPLATES):
        if (found := pattern.search(text)) is not None:
            begin = "input." if number in _OF_THE_INPUT and not _OUTPUT.match(found[1]) else ""
            return f"write ${{{begin}{path_here(found[1])}}}"
    return ""


def path_here(path: str) -> str:
    """Returns a path of another language as it is spelt here."""
    path = re.sub(r"\A(?:inputs|params|workflow)\.(?:parameters\.)?", "input.", path)
    path = re.sub(r"\A(?:steps|tasks|needs)\.", "nodes.", path)
    return re.sub(r"\.outputs\.(?:parameters\.)?", ".output.", path)
