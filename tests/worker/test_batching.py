"""Natural batching."""

from __future__ import annotations

import asyncio

from headway.worker._batching import Batcher


async def test_a_batch_whose_sending_fails_is_given_up_and_the_next_one_is_sent() -> None:
    sent: list[int] = []
    given_up: list[int] = []

    async def send(batch: list[int]) -> None:
        if 1 in batch:
            raise ValueError("out of range")
        sent.extend(batch)

    batcher = Batcher(send, give_up=given_up.append, in_flight=1)
    carrying = asyncio.create_task(batcher.run())
    batcher.put(1)
    batcher.put(2)
    await asyncio.wait_for(batcher.join(), 5)
    batcher.put(3)
    await asyncio.wait_for(batcher.join(), 5)
    carrying.cancel()

    assert (given_up, sent) == ([1, 2], [3])


async def test_an_item_whose_step_fails_is_given_up_and_even_that_may_fail() -> None:
    async def send(batch: list[str]) -> None:
        del batch

    def refuse(item: str) -> None:
        raise KeyError(item)

    batcher = Batcher(send, give_up=refuse)

    assert batcher.step("7", int, "7") == 7
    assert batcher.step("seven", int, "seven") is None
