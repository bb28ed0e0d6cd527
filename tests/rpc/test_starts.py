"""Many starts at once: in one call, and in calls that come together."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import grpc
import orjson
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.client import Client, KeyReused, NewRun, Started
from headway.coordinator.engine import definitions
from headway.coordinator.ids import key_bucket
from headway.coordinator.store import starting
from tests.rpc.world import EVENT, ONE, TWO, World, refusal_of, until

STRICT = (
    "workflow: one\ninput_schema: {type: object, required: [order]}\n"
    "nodes:\n  work: {type: call, handler: h.work, input: '${input}'}\n"
)

NOTHING = (
    'workflow: nothing\ninput_schema: {type: "null"}\n'
    "nodes:\n  work: {type: call, handler: h.work, input: {got: '${input}'}}\n"
)


def item(workflow: str = "one", **fields: Any) -> runs_pb2.StartRequest:
    fields.setdefault("request_id", str(uuid4()))
    return runs_pb2.StartRequest(workflow=workflow, **fields)


async def start_many(world: World, *items: runs_pb2.StartRequest) -> list[runs_pb2.StartResult]:
    return list((await world.first.runs.StartMany(runs_pb2.StartManyRequest(items=items))).results)


def keys_of_one_bucket(size: int) -> list[str]:
    """Keys that share the bucket of the first."""
    named = (f"key-{n}" for n in count())
    first = next(named)
    bucket = key_bucket("default", first)
    return [first, *(key for key in (next(named) for _ in range(10_000)) if key_bucket("default", key) == bucket)][
        :size
    ]


# --- lists


async def test_each_item_of_a_list_is_judged_by_itself(world: World) -> None:
    await world.first.deploy(ONE, STRICT.replace("workflow: one", "workflow: strict"))
    good, keyed, fitting = item(), item(key="k"), item("strict", input=b'{"order": 1}')
    items = [
        good,
        item(input=b"{"),
        item(input=b'"' + b"x" * (1 << 20) + b'"'),
        item(key=""),
        keyed,
        item(request_id="1"),
        item("nope"),
        item("strict"),
        fitting,
        item(version=9),
        item(namespace="a/b"),
        item(""),
        item(key="k", input=b"[1]"),
    ]

    results = await start_many(world, *items)

    assert [result.refusal.reason for result in results] == [
        "", "INVALID_PAYLOAD", "PAYLOAD_TOO_LARGE", "INVALID_KEY", "", "INVALID_REQUEST_ID", "WORKFLOW_NOT_FOUND",
        "INVALID_INPUT", "", "WORKFLOW_NOT_FOUND", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "KEY_REUSED",
    ]  # fmt: skip
    assert results[7].refusal.metadata["path"] == "$.order"
    assert "input_schema" in results[7].refusal.message
    started = [result.started for result in results if result.HasField("started")]
    assert [(run.existed, run.version) for run in started] == [(False, 1)] * 3
    assert sorted(dispatch.run_id for dispatch in await world.dispatches()) == sorted(run.run_id for run in started)
    assert await world.one("SELECT count(*) FROM start_keys") == 1


async def test_an_input_of_null_is_kept_and_is_another_than_none_at_all(world: World) -> None:
    await world.first.deploy(ONE, NOTHING)
    ask = item("nothing", input=b"null", key="k")

    run_id = (await world.first.runs.Start(ask)).run_id
    again, none = await start_many(world, item("nothing", input=b"null", key="k"), item("nothing", key="k"))
    await start_many(world, item(key="n"))
    same, other = await start_many(world, item(key="n", input=b"{}"), item(key="n", input=b"null"))

    assert (again.started.run_id, again.started.existed, same.started.existed) == (run_id, True, True)
    assert [none.refusal.reason, other.refusal.reason] == ["KEY_REUSED", "KEY_REUSED"]
    assert (await world.first.get(run_id)).run.input == b"null"
    (dispatch,) = await world.dispatches(run_id)
    assert (await world.first.grant(dispatch)).input == b'{"got":null}'
    refused = await refusal_of(world.first.runs.Start(item("nothing")))
    assert (refused.reason, refused.metadata["problem"]) == ("INVALID_INPUT", "must be of type null, not object")


async def test_null_is_kept_where_a_signal_starts_a_run(world: World) -> None:
    await world.first.deploy(EVENT)
    start = item("waiting", key="k", input=b"null")

    run_id = (
        await world.first.runs.SignalWithStart(
            runs_pb2.SignalWithStartRequest(start=start, name="approval", payload=b"null")
        )
    ).run.run_id

    assert (await world.first.get(run_id)).run.input == b"null"
    assert (await world.first.task(run_id, "ask")).output == b"null"


async def test_a_list_that_is_repeated_is_answered_as_the_first_time(world: World) -> None:
    await world.first.deploy(ONE)
    other = await world.coordinator()
    items = [item(input=json.dumps(n).encode(), **({"key": f"k{n}"} if n % 2 else {})) for n in range(40)]

    answers = [
        await coordinator.runs.StartMany(runs_pb2.StartManyRequest(items=items))
        for coordinator in (world.first, other, world.first)
    ]

    assert answers[0] == answers[1] == answers[2]
    assert await world.one("SELECT count(*) FROM runs") == 40
    assert {result.started.existed for result in answers[0].results} == {False}


async def test_start_and_an_item_of_a_list_are_one_and_the_same(world: World) -> None:
    await world.first.deploy(ONE)
    single, listed = item(key="a"), item()

    first = await world.first.runs.Start(single)
    (again, other) = await start_many(world, single, listed)

    assert again.started == first
    assert await world.first.runs.Start(listed) == other.started
    assert await world.one("SELECT count(*) FROM runs") == 2


async def test_what_stands_twice_in_a_list_is_started_once(world: World) -> None:
    await world.first.deploy(ONE)
    one, keyed = item(), item(key="k")

    results = await start_many(
        world, one, one, keyed, keyed, item(key="k"), item(request_id=one.request_id, input=b"1")
    )

    ids = [result.started.run_id for result in results[:5]]
    assert ids == [ids[0], ids[0], ids[2], ids[2], ids[2]]
    assert [result.started.existed for result in results[:5]] == [False, False, False, False, True]
    assert results[5].refusal.reason == "KEY_REUSED"
    assert await world.one("SELECT count(*) FROM runs") == 2


async def test_the_runs_of_a_list_share_transactions(world: World) -> None:
    await world.first.deploy(ONE)

    results = await start_many(world, *(item() for _ in range(256)))

    assert all(result.started.run_id for result in results)
    assert await world.one("SELECT count(*) FROM runs") == 256
    assert await world.one("SELECT count(DISTINCT xmin::text) FROM runs") <= 4  # two buckets, and room for a first few


async def test_an_empty_list_is_answered_with_one(world: World) -> None:
    assert await start_many(world) == []


async def test_a_client_starts_more_than_a_call_takes(world: World) -> None:
    await world.first.deploy(ONE)
    runs = [NewRun("one", {"n": n}, key=f"k{n % 299}") for n in range(300)]

    async with Client(world.first.address) as client:
        first = await client.start_many(runs)
        second = await client.start_many(runs)

    assert first[:299] == second[:299]
    assert isinstance(first[299], KeyReused)
    ids = {run.run_id for run in first[:299] if isinstance(run, Started)}
    assert len(ids) == 299
    assert await world.one("SELECT count(*) FROM runs") == 299


# --- versions


@asynccontextmanager
async def slow_answers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """Look-ups of deployed versions that have read are answered only when the block ends; how many were asked each."""
    gate, asked = asyncio.Event(), list[int]()

    async def slow(connection: Any, keys: Any) -> Any:
        answer = await starting.find_deployed(connection, keys)
        asked.append(len(keys))
        await gate.wait()
        return answer

    monkeypatch.setattr(definitions, "find_deployed", slow)
    yield asked
    gate.set()


async def test_a_look_up_that_began_before_a_deploy_answers_no_start_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    await world.first.deploy(ONE)

    async with slow_answers(monkeypatch) as asked:
        before = asyncio.ensure_future(world.first.runs.Start(item()))
        await until(lambda: asked == [1], "the version was read")
        await other.deploy(ONE + "  more: {type: call, handler: h}\n")
        after = [asyncio.ensure_future(world.first.runs.Start(item())) for _ in range(5)]
        await until(lambda: world.first.engine.backlog == 5, "they wait for the next look-up")

    assert (await before).version == 1
    assert [(await start).version for start in after] == [2] * 5


async def test_starts_that_come_together_share_a_look_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.first.deploy(ONE, TWO)

    async with slow_answers(monkeypatch) as asked:
        starts = [asyncio.ensure_future(world.first.runs.Start(item()))]
        await until(lambda: asked == [1], "the first has asked")
        starts += [asyncio.ensure_future(world.first.runs.Start(item(("one", "two")[n % 2]))) for n in range(20)]
        await until(lambda: world.first.engine.backlog == 20, "the others wait for the next")

    await asyncio.gather(*starts)
    assert asked == [1, 2]


# --- repeats after a stricter version


@pytest.mark.parametrize("key", [{}, {"key": "k"}], ids=["by request id", "by key"])
async def test_a_repeat_that_a_newer_schema_would_refuse_is_answered_as_the_first_time(
    key: dict[str, str], world: World
) -> None:
    await world.first.deploy(ONE)
    request = item(input=b'{"n": 1}', **key)
    first = await world.first.runs.Start(request)
    await world.first.deploy(STRICT)

    assert await world.first.runs.Start(request) == first
    (listed,) = await start_many(world, request)
    assert listed.started == first
    if key:
        renewed = item(input=b'{"n": 1}', **key)
        assert (await world.first.runs.Start(renewed)).run_id == first.run_id
        other = await refusal_of(world.first.runs.Start(item(input=b'{"n": 2}', **key)))
        assert (other.code, other.reason) == (grpc.StatusCode.ALREADY_EXISTS, "KEY_REUSED")
    fresh = await refusal_of(world.first.runs.Start(item(input=b'{"n": 1}')))
    assert fresh.reason == "INVALID_INPUT"
    assert fresh.message == "The input does not fit the workflow's input_schema: $.order: is required."
    assert await world.one("SELECT count(*) FROM runs") == 1


async def test_a_start_that_is_refused_claims_no_key(world: World) -> None:
    await world.first.deploy(STRICT)

    reasons = [
        (await refusal_of(world.first.runs.Start(item(workflow, key="k")))).reason for workflow in ("one", "nope")
    ]

    assert reasons == ["INVALID_INPUT", "WORKFLOW_NOT_FOUND"]
    assert await world.one("SELECT count(*) FROM start_keys") == 0
    assert await world.first.start("one", {"order": 1}, key="k")


async def test_a_half_start_that_a_newer_schema_refuses_stays_one(world: World) -> None:
    claimed = UUID(int=uuid4().int & ~0xFFFF)
    digest = hashlib.sha256(orjson.dumps(["one", 0, {}])).hexdigest()
    await world.database.execute(
        "INSERT INTO start_keys VALUES ($1, 'default', 'k', $2, $3, now())", key_bucket("default", "k"), claimed, digest
    )
    await world.first.deploy(STRICT)

    assert (await refusal_of(world.first.runs.Start(item(key="k")))).reason == "INVALID_INPUT"
    assert await world.one("SELECT count(*) FROM runs") == 0
    await world.first.deploy(ONE)
    assert (await world.first.runs.Start(item(key="k"))).run_id == claimed.hex


@pytest.mark.parametrize(("first", "second"), [(b'{"a": 1}', b'{"a": true}'), (b'{"a": false}', b'{"a": 0}')])
async def test_a_request_id_with_another_input_is_refused_also_where_python_takes_the_two_for_equal(
    world: World, first: bytes, second: bytes
) -> None:
    await world.first.deploy(ONE)
    request = item(input=first)
    started = await world.first.runs.Start(request)

    assert (await world.first.runs.Start(request)).run_id == started.run_id
    request.input = second
    assert (await refusal_of(world.first.runs.Start(request))).reason == "KEY_REUSED"


# --- keys


async def test_keys_of_one_bucket_are_claimed_together_and_those_of_two_apart(world: World) -> None:
    await world.first.deploy(ONE)
    together = keys_of_one_bucket(3)
    apart = next(key for key in ("a", "b", "c") if key_bucket("default", key) != key_bucket("default", together[0]))

    results = await start_many(world, *(item(key=key) for key in (*together, apart)))

    assert len({result.started.run_id for result in results}) == 4
    transactions = await world.database.fetch("SELECT key, xmin::text AS number FROM start_keys")
    numbers = {record["key"]: record["number"] for record in transactions}
    assert len({numbers[key] for key in together}) == 1
    assert numbers[apart] != numbers[together[0]]
