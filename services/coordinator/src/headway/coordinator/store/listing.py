"""Finding runs by filters, page by page. No locks; each page is one snapshot.

A page goes on exactly behind the last run that the page before looked at, in an order that no run leaves: of creation,
of ends, or of keys. What no index holds together is looked through a bounded number of runs at a time: then a page may
be short, or empty, and still not be the last.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias
from uuid import UUID

from headway.coordinator.core.machines import FINAL_RUN_STATES, RunState
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.ids import KEY_BUCKETS, bucket_of, key_bucket, run_id_in
from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection, Connections
from headway.coordinator.store.starting import find_keys
from headway.coordinator.store.statements import SQL

LOOK = 500  # runs that a page looks at, when it is an index on something else that leads to them
WIDE_LOOK = 200  # the same, when they are merged from many streams
KEY_LOOK = 60  # the same, when they are merged from the keys' buckets
FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_NOBODY = UUID(int=0)
Standing: TypeAlias = tuple[RunState, str]
"""A state, and the class of the failure in it."""
STANDINGS: Final[Sequence[Standing]] = (
    (RunState.PENDING, ""),
    (RunState.RUNNING, ""),
    (RunState.SUCCEEDED, ""),
    *((RunState.FAILED, str(failure)) for failure in FailureClass),
    (RunState.CANCELLED, "cancelled"),
)


class Order(StrEnum):
    """In what order runs are listed."""

    CREATION = "c"
    END = "e"
    KEY = "k"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ended: at a run, by its instant or its key."""

    order: Order
    at: datetime = LAST
    run_id: UUID = _NOBODY
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs are meant; what is not given does not matter.

    Attributes:
        version: 0: any.
        states: empty: any.
        created: from the first instant, to before the second.
        finished: the same, of finished runs only; None: any, open ones too.
        labels: all of them, by name.
        parent: the run whose subflow nodes started them; None: does not matter.
        paused: only paused runs.
        id_prefix: hexadecimal digits that the id begins with, at most 32; then the first page is the only one.
    """

    namespace: str
    workflow: str = ""
    version: int = 0
    states: frozenset[RunState] = frozenset()
    failure_class: str = ""
    created: tuple[datetime, datetime] = (FIRST, LAST)
    finished: tuple[datetime, datetime] | None = None
    key: str = ""
    key_prefix: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    id_prefix: str = ""
    parent: UUID | None = None
    paused: bool = False

    @property
    def order(self) -> Order:
        """In what order they are listed: by end where that is asked for, by key where its beginning is."""
        if self.key_prefix:
            return Order.KEY
        return Order.CREATION if self.finished is None else Order.END

    @property
    def is_one_label(self) -> bool:
        """One label says it all, but for when the runs were created."""
        rest = RunFilter(namespace=self.namespace, created=self.created, labels=self.labels)
        return len(self.labels) == 1 and self == rest

    @property
    def standings(self) -> list[Standing]:
        """The states and classes that it lets through."""
        return [
            (state, failure)
            for state, failure in STANDINGS
            if (not self.states or state in self.states)
            and (not self.failure_class or failure == self.failure_class)
            and (self.finished is None or state in FINAL_RUN_STATES)
            and (not self.paused or state is RunState.RUNNING)
        ]


@dataclass(frozen=True, slots=True)
class Page:
    """Runs in order, and where the next page begins; None: there is none."""

    run_ids: Sequence[UUID]
    after: Place | None


@dataclass(frozen=True, slots=True)
class _Looked:
    """Runs that were looked at, in order, each with where it stands; `is_all`: there are no more."""

    run_ids: Sequence[UUID]
    places: Sequence[Place]
    is_all: bool


async def find_runs(connections: Connections, wanted: RunFilter, after: Place | None, limit: int) -> Page:
    """A page of what a filter means: at most `limit` runs behind the place where the page before ended."""
    with translated():
        async with (
            connections.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            return await _find(connection, wanted, after, limit)


async def list_runs(
    connections: Connections, wanted: RunFilter, after: Place | None, limit: int
) -> tuple[list[Any], Place | None]:
    """The same, with the rows as lists show them."""
    with translated():
        async with (
            connections.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            page = await _find(connection, wanted, after, limit)
            return await get_listed(connection, page.run_ids), page.after


async def get_listed(connection: Connection, run_ids: Sequence[UUID]) -> list[Any]:
    """Rows as lists show them, in this order."""
    return await connection.fetch(SQL["get_listed_runs"], [bucket_of(run_id) for run_id in run_ids], run_ids)


async def _find(connection: Connection, wanted: RunFilter, after: Place | None, limit: int) -> Page:
    if not wanted.standings:
        return Page((), None)
    if wanted.key:
        return Page(await _matching(connection, wanted, await _of_key(connection, wanted)), None)
    if wanted.id_prefix:
        return Page((await _matching(connection, wanted, await _of_prefix(connection, wanted, limit)))[:limit], None)
    place = after or Place(wanted.order)
    if wanted.parent is not None:
        return await _through(connection, wanted, await _by_parent(connection, wanted.parent, place), limit)
    is_one_stream = wanted.order is Order.CREATION or wanted.created == (FIRST, LAST)
    is_plain = is_one_stream and not wanted.labels
    if wanted.key_prefix:
        looked = await _by_key(connection, wanted, place)
    elif wanted.paused:
        looked = await _by_pause(connection, wanted, place)
    elif is_plain or wanted.is_one_label:  # an index holds all that is asked for
        looked = await (_merged if is_plain else _by_label)(connection, wanted, place, limit + 1)
        return _cut(looked, looked.run_ids, limit)
    elif wanted.order is Order.END or not wanted.labels:
        looked = await _merged(connection, wanted, place, WIDE_LOOK)
    else:
        looked = await _by_label(connection, wanted, place, LOOK)
    page = await _through(connection, wanted, looked, limit)
    is_of_states = bool(wanted.states or wanted.failure_class)
    is_by_label = bool(wanted.labels) and wanted.order is Order.CREATION and not wanted.paused
    if len(page.run_ids) == limit or page.after is None or not (is_by_label and is_of_states):
        return page
    # The label is on many runs of other states: those of the states asked for may be fewer.
    other = await _through(connection, wanted, await _merged(connection, wanted, place, WIDE_LOOK), limit)
    return other if other.after is None or _is_behind(other.after, page.after) else page


def _is_behind(one: Place, other: Place) -> bool:
    return (one.at, one.run_id) < (other.at, other.run_id)


async def _through(connection: Connection, wanted: RunFilter, looked: _Looked, limit: int) -> Page:
    """Those of the runs looked at that match."""
    return _cut(looked, await _matching(connection, wanted, looked.run_ids), limit)


def _cut(looked: _Looked, matching: Sequence[UUID], limit: int) -> Page:
    """A page of the matching runs, and where it ends."""
    if len(matching) > limit:
        last = matching[limit - 1]
        return Page(matching[:limit], looked.places[looked.run_ids.index(last)])
    return Page(matching, None if looked.is_all else looked.places[-1])


async def _merged(connection: Connection, wanted: RunFilter, after: Place, limit: int) -> _Looked:
    """Runs by the indexes on versions and states, in the order of creation or of ends."""
    is_by_end = wanted.order is Order.END
    since, until = (wanted.finished or wanted.created) if is_by_end else wanted.created
    before = min((after.at, after.run_id), (until, _NOBODY))
    records = await connection.fetch(
        SQL["find_by_end" if is_by_end else "find_by_creation"],
        wanted.namespace,
        wanted.workflow,
        wanted.version,
        *_columns(wanted.standings),
        *before,
        since,
        limit,
    )
    return _looked(records, wanted.order, limit)


async def _by_label(connection: Connection, wanted: RunFilter, after: Place, look: int) -> _Looked:
    since, until = wanted.created
    before = min((after.at, after.run_id), (until, _NOBODY))
    records = await connection.fetch(SQL["find_by_label"], wanted.namespace, *wanted.labels[0], *before, since, look)
    return _looked(records, Order.CREATION, look)


async def _by_pause(connection: Connection, wanted: RunFilter, after: Place) -> _Looked:
    since, until = wanted.created
    before = min((after.at, after.run_id), (until, _NOBODY))
    records = await connection.fetch(SQL["find_paused"], wanted.namespace, *before, since, LOOK)
    return _looked(records, Order.CREATION, LOOK)


async def _by_parent(connection: Connection, parent: UUID, after: Place) -> _Looked:
    records = await connection.fetch(SQL["get_children"], bucket_of(parent), parent, after.at, after.run_id, LOOK)
    return _looked(records, after.order, LOOK)


async def _by_key(connection: Connection, wanted: RunFilter, after: Place) -> _Looked:
    bounds = wanted.key_prefix, _behind_all_with(wanted.key_prefix)
    records = await connection.fetch(
        SQL["find_by_key"], wanted.namespace, after.key, *bounds, KEY_BUCKETS - 1, KEY_LOOK
    )
    places = [Place(Order.KEY, run_id=record["run_id"], key=record["key"]) for record in records]
    return _Looked([place.run_id for place in places], places, is_all=len(places) < KEY_LOOK)


async def _of_key(connection: Connection, wanted: RunFilter) -> list[UUID]:
    claims = await find_keys(connection, key_bucket(wanted.namespace, wanted.key), [(wanted.namespace, wanted.key)])
    return [claim.run_id for claim in claims.values()]


async def _of_prefix(connection: Connection, wanted: RunFilter, limit: int) -> list[UUID]:
    found: list[UUID] = []
    for record in await connection.fetch(SQL["list_buckets"]):
        least, greatest = (run_id_in(record["bucket"], UUID(wanted.id_prefix.ljust(32, fill))) for fill in "0f")
        if least.hex.startswith(wanted.id_prefix):
            bounds = (record["bucket"], least, greatest, wanted.namespace, limit)
            found += [each["run_id"] for each in await connection.fetch(SQL["find_by_prefix"], *bounds)]
    return sorted(found)[:limit]


async def _matching(connection: Connection, wanted: RunFilter, run_ids: Sequence[UUID]) -> list[UUID]:
    """Those that match, in this order."""
    if not run_ids:
        return []
    records = await connection.fetch(
        SQL["match_runs"],
        [bucket_of(run_id) for run_id in run_ids],
        run_ids,
        wanted.namespace,
        wanted.workflow,
        wanted.version,
        [f"{state} {failure}" for state, failure in wanted.standings],
        *wanted.created,
        *(wanted.finished or (None, None)),
        *_columns(wanted.labels),
        wanted.paused,
    )
    matching = {record["run_id"] for record in records}
    return [run_id for run_id in run_ids if run_id in matching]


def _looked(records: Sequence[Any], order: Order, limit: int) -> _Looked:
    places = [Place(order, record["at"], record["run_id"]) for record in records]
    return _Looked([place.run_id for place in places], places, is_all=len(places) < limit)


def _columns(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    rows = list(pairs)
    return [first for first, _ in rows], [second for _, second in rows]


def _behind_all_with(beginning: str) -> str:
    """The least text, in the order of code points, that is greater than all that begin so."""
    beginning = beginning.rstrip("\U0010ffff") or "\U0010fffe"  # of those that are left, none is a key in earnest
    last = len(beginning) - 1
    following = ord(beginning[last]) + 1
    return beginning[:last] + chr(0xE000 if following == 0xD800 else following)  # noqa: PLR2004 - surrogates
