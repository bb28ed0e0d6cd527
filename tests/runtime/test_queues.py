"""What queues may be called, and how the broker's key is built of it."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import nodes
from headway.runtime.queues import QUEUE_PATTERN, is_namespace, is_queue, queue_name_of, split_queue_name, stream_of


def test_a_stream_s_key_has_a_hash_tag_of_namespace_and_queue() -> None:
    assert stream_of(queue_name_of("default", "work")) == "headway:{default/work}:dispatch"
    assert split_queue_name("default/work") == ("default", "work")


@pytest.mark.parametrize("text", ["", "a/b", "{a", "a}", "a b", "a" * 64, "ä", "a\n", "a\x00"])
def test_what_would_garble_the_key_is_no_name(text: str) -> None:
    assert not is_namespace(text)
    assert not is_queue(text)


def test_a_namespace_may_have_capitals_and_a_queue_may_not() -> None:
    assert is_namespace("Shop_1.eu-west")
    assert is_queue("shop_1.eu-west")
    assert not is_queue("Shop")


def test_workers_and_the_compiler_agree_on_what_a_queue_may_be_called() -> None:
    assert nodes._QUEUE.pattern == QUEUE_PATTERN
