"""JSON from outside is checked before anything is stored."""

from __future__ import annotations

import pytest

from headway.coordinator.core.document import EMPTY, NULL, Document
from headway.coordinator.core.payloads import DEPTH, LIMIT, accept, accept_object, storable_text
from headway.coordinator.core.refusals import InvalidPayload, PayloadTooLarge


def test_what_is_accepted_is_kept_byte_for_byte() -> None:
    raw = b'{"b": 1.0, "a": [1, 2]}'

    assert accept(raw, "input").raw == raw


def test_nothing_at_all_is_null_or_what_the_caller_says() -> None:
    assert accept(b"", "input") is NULL
    assert accept(b"", "input", empty=EMPTY) is EMPTY
    assert accept_object(b"", "input") == {}


def test_the_limit_is_inclusive_and_the_refusal_names_the_field_and_both_sizes() -> None:
    assert accept(b"[" + b" " * (LIMIT - 2) + b"]", "output")

    with pytest.raises(PayloadTooLarge, match=f"output has {LIMIT + 1} bytes; the limit is {LIMIT}"):
        accept(b"[" + b" " * (LIMIT - 1) + b"]", "output")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"{", "input is not acceptable JSON"),
        (b"NaN", "input is not acceptable JSON"),
        (b'"\xff"', "input is not acceptable JSON"),
        (b'{"a": ["x\\u0000"]}', r"a NUL in the text at \$\.a\[0\]"),
        (b'{"a\\u0000": 1}', r"a NUL in a key at \$"),
        (b'{"n": 9223372036854775808}', r"an integer beyond 64 bits at \$\.n"),
        (b'{"n": -9223372036854775809}', r"an integer beyond 64 bits at \$\.n"),
        (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), "nested more than 100 deep"),
    ],
)
def test_what_the_rest_cannot_hold_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidPayload, match=problem):
        accept(raw, "input")


@pytest.mark.parametrize(
    "raw",
    [
        b"9223372036854775807",
        b"-9223372036854775808",
        b'"12345678901234567890"',
        b'"\\\\u0000"',
        b"[" * DEPTH + b"]" * DEPTH,
        b"[" + b"[]," * 5_000 + b"[]]",
    ],
)
def test_what_only_looks_like_it_is_accepted(raw: bytes) -> None:
    assert accept(raw, "input").raw == raw


def test_an_object_must_be_an_object() -> None:
    with pytest.raises(InvalidPayload, match="must be a JSON object"):
        accept_object(b"[]", "details")


def test_text_for_people_is_cut_and_cleaned() -> None:
    assert storable_text("a\x00bcd", 5) == "a\ufffdb"
    assert storable_text("aéé", 4) == "aé"  # never half a character


def test_documents_are_equal_when_their_text_is() -> None:
    assert Document(b"1") == Document.of(1)
    assert Document(b"1.0") != Document(b"1")
    assert len({Document(b"1"), Document.of(1)}) == 1
    assert Document(b"null").value is None
