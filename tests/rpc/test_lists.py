"""Finding runs: every filter by itself and with others, pages that stay whole, labels, and beginnings of ids."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.api.definitions.v1 import definitions_pb2
from headway.api.runs.v1 import runs_pb2
from headway.coordinator.store import listing
from tests.rpc.world import EVENT, ONE, World, refusal_of

LABELLED = (
    "workflow: labelled\n"
    "labels:\n"
    "  customer: '${input.customer}'\n"
    '  size: \'${input.items > 3 ? "large" : "small"}\'\n'
    "  vip: '${has(input.vip) ? input.vip : null}'\n"
    "  shop: corner\n"
    "nodes:\n  work: {type: call, handler: h.work}\n"
)
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
SUCCEEDED, FAILED, RUNNING = (
    runs_pb2.RUN_STATE_SUCCEEDED,
    runs_pb2.RUN_STATE_FAILED,
    runs_pb2.RUN_STATE_RUNNING,
)


def instant(minutes: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(BEGINNING + timedelta(minutes=minutes))
    return stamp


async def page(
    world: World, token: str = "", size: int = 50, namespace: str = "", **fields: Any
) -> runs_pb2.ListResponse:
    return await world.first.runs.List(
        runs_pb2.ListRequest(namespace=namespace, filter=runs_pb2.RunFilter(**fields), page_size=size, page_token=token)
    )


async def found(world: World, size: int = 50, **fields: Any) -> list[str]:
    """Every run of a filter, page by page."""
    seen: list[str] = []
    token = ""
    while True:
        each = await page(world, token, size, **fields)
        assert len(each.runs) <= size
        seen += [run.run_id for run in each.runs]
        token = each.next_page_token
        if not token:
            return seen


async def end(world: World, run_id: str, *, fail: bool = False) -> None:
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await (world.first.fail(dispatch, final=True) if fail else world.first.succeed(dispatch))


async def move(world: World, run_id: str, *, created: float, finished: float | None = None) -> None:
    """Put a run elsewhere in time."""
    await world.database.execute(
        "UPDATE runs SET created_at = $2, finished_at ="
        " CASE WHEN finished_at IS NOT NULL THEN $3::timestamptz END WHERE run_id = $1",
        UUID(run_id),
        BEGINNING + timedelta(minutes=created),
        BEGINNING + timedelta(minutes=finished or 0),
    )
    await world.database.execute(
        "UPDATE run_labels SET created_at = $2 WHERE run_id = $1",
        UUID(run_id),
        BEGINNING + timedelta(minutes=created),
    )


async def test_each_filter_finds_what_it_says_and_all_together_what_all_say(world: World) -> None:
    await world.first.deploy(ONE, EVENT)
    good, bad = await world.first.start("one", key="ORDER-1"), await world.first.start("one", key="ORDER-2")
    await world.first.deploy(ONE + "  more: {type: call, handler: h}\n")
    stopped, waiting = await world.first.start("one", labels={"a": "1"}), await world.first.start("waiting")
    await end(world, good)
    await end(world, bad, fail=True)
    await world.first.cancel(stopped)
    for place, run_id in enumerate((good, bad, stopped, waiting)):
        await move(world, run_id, created=place, finished=20 - place)

    assert await found(world) == [waiting, stopped, bad, good]
    assert await found(world, workflow="one") == [stopped, bad, good]
    assert await found(world, workflow="one", version=1) == [bad, good]
    assert await found(world, states=[SUCCEEDED, FAILED]) == [bad, good]
    assert await found(world, states=[RUNNING]) == [waiting]
    assert await found(world, failure_class="exec_failed") == [bad]
    assert await found(world, failure_class="cancelled") == [stopped]
    assert await found(world, failure_class="timeout") == []
    assert await found(world, failure_class="exec_failed", states=[SUCCEEDED]) == []
    assert await found(world, created_from=instant(1), created_until=instant(3)) == [stopped, bad]
    assert await found(world, finished_from=instant(0)) == [good, bad, stopped]  # latest end first
    assert await found(world, finished_from=instant(18), finished_until=instant(20)) == [bad, stopped]
    assert await found(world, finished_from=instant(0), created_from=instant(1)) == [bad, stopped]
    assert await found(world, key="ORDER-1") == [good]
    assert await found(world, key="ORDER-1", states=[FAILED]) == []
    assert await found(world, key_prefix="ORDER-") == [good, bad]  # in the order of keys
    assert await found(world, key_prefix="ORDER-", states=[FAILED]) == [bad]
    assert await found(world, key_prefix="order-") == []
    assert await found(world, labels={"a": "1"}) == [stopped]
    assert await found(world, labels={"a": "1"}, finished_from=instant(0)) == [stopped]
    assert await found(world, workflow="one", version=1, failure_class="exec_failed", key="ORDER-2") == [bad]
    assert await found(world, namespace="b") == []


async def test_paused_runs_are_found_alone_and_with_whatever_else_is_asked(world: World) -> None:
    await world.first.deploy(ONE, EVENT)
    paused, other = [await world.first.start("one", key=f"k{n}", labels={"shop": "a", "no": f"{n}"}) for n in range(2)]
    waiting = await world.first.start("waiting")
    ended = await world.first.start("one")
    await end(world, ended)
    for run_id in (paused, waiting):
        await world.first.runs.Pause(runs_pb2.PauseRequest(run_id=run_id, request_id=str(uuid4())))

    assert await found(world, paused=True) == [waiting, paused]
    assert await found(world, size=1, paused=True) == [waiting, paused]
    alone: list[dict[str, Any]] = [
        {"workflow": "one"},
        {"labels": {"shop": "a"}},
        {"labels": {"shop": "a"}, "states": [RUNNING]},
        {"key": "k0"},
        {"key_prefix": "k"},
        {"run_id_prefix": paused},
    ]
    assert [await found(world, paused=True, **each) for each in alone] == [[paused]] * len(alone)
    none: list[dict[str, Any]] = [{"run_id_prefix": other}, {"states": [SUCCEEDED]}, {"finished_from": instant(0)}]
    assert [await found(world, paused=True, **each) for each in none] == [[]] * len(none)


async def test_a_run_that_is_reopened_is_no_longer_listed_as_failed(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await end(world, run_id, fail=True)
    assert await found(world, failure_class="exec_failed") == [run_id]

    await world.first.retry(run_id)

    assert await found(world, failure_class="exec_failed") == []
    assert await found(world, states=[RUNNING]) == [run_id]


async def test_labels_come_from_the_definition_and_from_the_start_which_goes_first(world: World) -> None:
    await world.first.deploy(LABELLED)

    run_id = await world.first.start(
        "labelled", {"customer": 42, "items": 4}, labels={"shop": "market", "clerk": "Ada"}
    )
    other = await world.first.start("labelled", {"customer": 7, "items": 1, "vip": True})

    assert dict((await world.first.get(run_id)).run.labels) == {
        "clerk": "Ada",
        "customer": "42",
        "shop": "market",
        "size": "large",
    }
    (listed,) = (await page(world, labels={"customer": "7", "vip": "true"})).runs
    assert (listed.run_id, listed.labels["shop"]) == (other, "corner")
    assert await found(world, labels={"customer": "42", "size": "small"}) == []
    (event,) = await world.first.history(run_id)
    (labelled,) = [fields for name, fields in json.loads(event.actions) if name == "LabelRun"]
    assert labelled == {"labels": dict((await world.first.get(run_id)).run.labels)}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"items": 1}, "customer"),
        ({"customer": [1], "items": 1}, "a list or a map"),
        ({"customer": "x" * 201, "items": 1}, "200 characters"),
    ],
)
async def test_a_start_whose_labels_cannot_be_made_is_refused(data: dict[str, Any], problem: str, world: World) -> None:
    await world.first.deploy(LABELLED)

    refusal = await refusal_of(world.first.start("labelled", data))

    assert refusal.reason == "INVALID_LABEL"
    assert problem in refusal.message
    assert await world.one("SELECT count(*) FROM runs") == 0


async def test_a_key_with_other_labels_is_another_request(world: World) -> None:
    await world.first.deploy(ONE)
    first = await world.first.start("one", key="k", labels={"a": "1"})

    again = await world.first.start("one", key="k", labels={"a": "1"})
    refusal = await refusal_of(world.first.start("one", key="k", labels={"a": "2"}))

    assert (again, refusal.reason) == (first, "KEY_REUSED")


async def test_the_beginning_of_an_id_finds_the_runs_that_begin_so(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [f"{digits:x<8}".replace("x", "0") for digits in ("abc1", "abc2", "abd")]
    started = [
        await world.first.start("one", request_id=f"{digits}-0000-7000-8000-{uuid4().hex[:12]}") for digits in ids
    ]

    assert sorted(await found(world, run_id_prefix="abc")) == sorted(started[:2])
    assert await found(world, run_id_prefix="abc2") == [started[1]]
    assert await found(world, run_id_prefix=started[2]) == [started[2]]
    assert await found(world, run_id_prefix="abe") == []
    assert await found(world, run_id_prefix="ab", namespace="b") == []
    assert len((await page(world, size=1, run_id_prefix="ab")).runs) == 1


async def test_what_no_index_holds_together_is_looked_through_a_bounded_number_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LOOK", 5)
    monkeypatch.setattr(listing, "WIDE_LOOK", 3)
    monkeypatch.setattr(listing, "KEY_LOOK", 4)
    await world.first.deploy(ONE, EVENT)
    ids = [
        await world.first.start(
            "waiting" if place in {1, 13} else "one", labels={"all": "yes", "odd": str(place % 2)}, key=f"k{place:02}"
        )
        for place in range(17)
    ]
    await world.first.cancel(ids[2])

    first = await page(world, size=2, labels={"all": "yes"}, workflow="waiting")

    assert ([run.run_id for run in first.runs], bool(first.next_page_token)) == ([ids[13]], True)
    assert await found(world, labels={"all": "yes"}, workflow="waiting") == [ids[13], ids[1]]
    assert await found(world, labels={"all": "yes", "odd": "1"}, size=3) == ids[1::2][::-1]
    assert await found(world, key_prefix="k", workflow="waiting", size=1) == [ids[1], ids[13]]
    # A label that nearly all have, a state that one is in: the state leads there at once.
    only = await page(world, size=2, labels={"all": "yes"}, states=[runs_pb2.RUN_STATE_CANCELLED])
    assert ([run.run_id for run in only.runs], only.next_page_token) == ([ids[2]], "")


async def test_a_page_token_is_refused_where_the_filter_is_another(world: World) -> None:
    await world.first.deploy(ONE, EVENT)
    for workflow in ("one", "waiting") * 3:
        await world.first.start(workflow)
    mine = (await page(world, size=1, workflow="one")).next_page_token
    running = [runs_pb2.RUN_STATE_RUNNING]
    bulk = runs_pb2.BulkRequest(
        filter=runs_pb2.RunFilter(workflow="waiting", states=running),
        pause=runs_pb2.BulkPause(),
        request_id=str(uuid4()),
        page_token=(await page(world, size=1, workflow="one", states=running)).next_page_token,
    )

    listed = await refusal_of(page(world, workflow="waiting", token=mine))
    elsewhere = await refusal_of(page(world, namespace="b", workflow="one", token=mine))
    refused = await refusal_of(world.first.runs.Bulk(bulk))
    bulk.filter.workflow = "one"
    done = await world.first.runs.Bulk(bulk)

    assert [each.reason for each in (listed, elsewhere, refused)] == ["INVALID_PAGE_TOKEN"] * 3
    assert len(done.results) == 2
    assert await world.one("SELECT count(*) FROM run_events WHERE type = 'RunPaused'") == 2


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_pages_of_any_filter_and_size_give_what_one_page_gives(data: st.DataObject, world: World) -> None:
    if not await world.one("SELECT count(*) FROM runs"):
        await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=ONE))
        for place in range(24):
            run_id = await world.first.start("one", key=f"k{place % 5}{place}", labels={"third": str(place % 3)})
            if place % 4 < 2:
                await end(world, run_id, fail=bool(place % 4))
            await move(world, run_id, created=place // 4, finished=(place * 7) % 5)
        await world.database.execute("ANALYZE")
    fields: dict[str, Any] = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "states": st.lists(st.sampled_from([RUNNING, SUCCEEDED, FAILED]), unique=True),
                "failure_class": st.just("exec_failed"),
                "created_from": st.integers(0, 6).map(instant),
                "created_until": st.integers(0, 6).map(instant),
                "finished_from": st.integers(0, 5).map(instant),
                "key_prefix": st.sampled_from(["k", "k1"]),
                "labels": st.integers(0, 3).map(lambda third: {"third": str(third)}),
            },
        ),
        label="filter",
    )
    size = data.draw(st.integers(1, 7), label="size")

    whole = (await page(world, size=1_000, **fields)).runs
    pages = await found(world, size, **fields)

    assert pages == [run.run_id for run in whole]
    assert len(set(pages)) == len(pages)
