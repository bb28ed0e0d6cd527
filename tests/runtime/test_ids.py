"""The two identities on the wire."""

from __future__ import annotations

from uuid import UUID

import pytest

from headway.runtime.ids import MalformedId, parse_run_id, parse_task_id, run_id_text, task_id

RUN_ID = UUID("0190c5a8-0000-7000-8000-0000000000ab")
TEXT = "0190c5a8000070008000" + "0000000000ab"


def test_a_run_id_is_32_small_hex_digits() -> None:
    assert run_id_text(RUN_ID) == TEXT
    assert parse_run_id(TEXT) == RUN_ID


def test_a_task_id_is_its_run_s_id_a_colon_and_its_path() -> None:
    assert task_id(RUN_ID, "resize[1].a:b") == f"{TEXT}:resize[1].a:b"
    assert parse_task_id(f"{TEXT}:resize[1].a:b") == (RUN_ID, "resize[1].a:b")


@pytest.mark.parametrize(
    "text", ["", TEXT[1:], TEXT + "0", TEXT.upper(), str(RUN_ID), TEXT[:8] + "_" + TEXT[9:], TEXT + "\n"]
)
def test_what_is_no_run_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedId):
        parse_run_id(text)
    with pytest.raises(MalformedId):
        parse_task_id(f"{text}:work")


@pytest.mark.parametrize("text", ["", TEXT, f"{TEXT}:", f"{TEXT}:a\x00b", ":work"])
def test_what_is_no_task_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedId):
        parse_task_id(text)
