"""Reading the queues by hand: what an answer that was lost had brought, and what was let go."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headway.runtime.queues import GROUP, stream_of
from headway.worker._streams import QueueUnreachable, Streams
from tests.worker.conftest import Bench

STREAM = stream_of("default/default")


@pytest.fixture
async def streams(bench: Bench) -> AsyncIterator[Streams]:
    """The queue, as a consumer that takes nothing over from others for now."""
    made = Streams(bench.redis_url, namespace="default", queues=["default"], owner="w1", claim_idle=3_600.0)
    await made.prepare()
    yield made
    await made.close()


async def broken() -> None:
    raise OSError("the connection is gone")


async def read(streams: Streams, most: int) -> list[str]:
    return [message.task_id for message in (await streams.read(most)).messages]


async def test_what_did_not_arrive_is_read_again_after_a_broken_connection_as_far_as_there_is_room(
    bench: Bench, streams: Streams
) -> None:
    for name in ("t1", "t2", "t3"):
        bench.publish(name)
    bench.redis.xreadgroup(GROUP, "w1", {STREAM: ">"}, count=3)  # its answer is lost
    with pytest.raises(QueueUnreachable):
        await streams._try(broken())
    bench.publish("t4")

    assert [await read(streams, 2) for _ in range(3)] == [["t1", "t2"], ["t3"], ["t4"]]


async def test_what_was_let_go_is_not_taken_for_what_did_not_arrive(bench: Bench, streams: Streams) -> None:
    bench.publish("t1")
    (message,) = (await streams.read(1)).messages
    streams.let_go(message.entry)
    bench.publish("t2")

    assert (await streams.cut_off(5)).messages == []
    assert await read(streams, 5) == ["t2"]


async def test_what_is_acknowledged_is_held_no_more(bench: Bench, streams: Streams) -> None:
    bench.publish("t1")
    (message,) = (await streams.read(1)).messages
    assert streams._held == {message.entry}

    await streams.acknowledge([message.entry])

    assert streams._held == set()
    assert (bench.left(), bench.pending()) == (0, 0)
