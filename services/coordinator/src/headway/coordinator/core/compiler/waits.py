"""Reads `wait` nodes: durations, instants and zones."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

import orjson

from headway.coordinator.core.compiler.drafts import NodeDraft
from headway.coordinator.core.compiler.faults import Code, close_to
from headway.coordinator.core.compiler.fields import Entries, Reading, cut
from headway.coordinator.core.compiler.template_parser import Located
from headway.coordinator.core.compiler.yaml_tree import YamlScalar
from headway.coordinator.core.instants import split_zone
from headway.coordinator.core.plan import Json, Literal, Place

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[-+]\d\d:\d\d)")
_OFFSET = re.compile(r"^Etc/.*[0-9]")  # whose signs are the other way round
_LONG_CITY = 6  # letters of a name that may hold two slips


def read_wait(reading: Reading, entries: Entries, draft: NodeDraft) -> NodeDraft:
    """Returns a `wait` node."""
    wait, until, zone = entries.template("duration"), entries.template("until"), entries.template("zone")
    if ("duration" in entries) == ("until" in entries) and ("until" in entries or not entries.means("duration")):
        has = "both duration and until" if "until" in entries else "neither duration nor until"
        remedy = "exactly one of the two says how long"
        reading.faults.add(entries.place, Code.CONTRADICTION, f"the wait node has {has}", remedy)
    if "zone" in entries and "until" not in entries:
        reading.faults.add(entries.place_of("zone"), Code.CONTRADICTION, "zone goes with until", "remove it")
    if isinstance(zone, Literal):
        _check_zone(reading, entries.place_of("zone"), zone.value)
    if isinstance(until, Literal):
        _check_instant(reading, entries, until.value, has_zone="zone" in entries)
    wait_ms = entries.duration("duration") if isinstance(wait, Literal) else None
    wait = None if isinstance(wait, Literal) else wait
    return replace(draft, node=replace(draft.node, wait_ms=wait_ms, wait=wait, until=until, zone=zone))


def _check_instant(reading: Reading, entries: Entries, value: Json, *, has_zone: bool) -> None:
    local, zone = split_zone(value) if isinstance(value, str) else ("", "")
    named = bool(zone) + has_zone
    if _is_instant(local) if not named else named == 1 and _is_instant(f"{local}Z"):
        tree = entries.tree("until")
        if zone and isinstance(value, str) and isinstance(tree, YamlScalar):
            _check_zone(reading, Located(reading.source, tree, value).place(len(value) - len(zone)), zone)
        return
    remedy = "write 2030-01-31T09:00:00+01:00, with Z for UTC, or 2030-01-31T09:00:00 Europe/Vienna"
    message = "until is no instant with either an offset or a zone"
    reading.faults.add(entries.place_of("until"), Code.WRONG_VALUE, message, remedy)


def _check_zone(reading: Reading, place: Place, zone: Json) -> None:
    zones = reading.zones
    if zones is None or (isinstance(zone, str) and zone in zones):
        return
    name = zone if isinstance(zone, str) else orjson.dumps(zone).decode()
    message = f"there is no time zone {cut(name)!r}"
    reading.faults.add(place, Code.UNKNOWN_ZONE, message, lambda: _nearest_zone(name, zones))


def _nearest_zone(name: str, zones: AbstractSet[str]) -> str:
    """A near spelling, or how zones are named: another zone is another hour, so nothing is guessed."""
    city = name.strip().replace(" ", "_").casefold()
    named = sorted(zone for zone in zones if city == zone.rpartition("/")[2].casefold() and not _OFFSET.search(zone))
    whole = next((zone for zone in zones if zone.casefold() == city), "") or next(iter(named), "")
    near = whole or _misspelt(name.strip().replace(" ", "_"), zones)
    return f"did you mean {near}?" if near else "zones are named as in the tz database, such as Europe/Berlin"


def _misspelt(name: str, zones: AbstractSet[str]) -> str:
    """The zone that is a slip away, or two in a long name; area and city begin as they are written."""
    area, _, city = name.rpartition("/")
    if not area or not city:
        return ""
    begin = (area[0].casefold(), city[0].casefold())
    alike = {zone for zone in zones if (zone[0].casefold(), zone.rpartition("/")[2][0].casefold()) == begin}
    return close_to(name, alike, most=1 if len(city) < _LONG_CITY else 2)


def _is_instant(value: object) -> bool:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value.upper())
    except ValueError:
        return False
    return True
