"""What the handlers tell is taken whole, however it is cut, and looked into rightly."""

import asyncio
import time

import pytest

from bench.records import RECORD, Receiver, Records, Row, completed_between, first_lines, hops_ms, quantile

A, B = b"a" * 16, b"b" * 16


def told(*rows: Row) -> bytes:
    return b"".join(RECORD.pack(*row) for row in rows)


@pytest.mark.parametrize("cut", [1, 39, 40, 41, 100])
def test_records_are_whole_however_the_connection_cuts_them(cut: int) -> None:
    rows = [Row(A, step, step * 10, step * 10 + 5) for step in range(5)]
    records = Records()
    records.begin(4)
    receiver = Receiver(records)
    data = told(*rows)
    for place in range(0, len(data), cut):
        receiver.data_received(data[place : place + cut])

    assert records.rows() == rows
    assert (records.told, records.finished) == (5, 1)


def test_only_last_steps_count_as_runs() -> None:
    records = Records()
    records.begin(9)
    records.take(told(Row(A, 8, 9, 9), Row(A, 9, 9, 9), Row(B, 0, 9, 9), Row(B, 9, 0, 0)))
    assert records.finished == 2


def test_a_new_stretch_begins_with_nothing() -> None:
    records = Records()
    records.begin(0)
    records.take(told(Row(A, 0, 1, 2)))
    records.begin(0)
    assert (records.rows(), records.told, records.finished) == ([], 0, 0)


async def test_a_change_is_waited_for_and_no_longer() -> None:
    records = Records()
    asyncio.get_running_loop().call_later(0.01, records.take, told(Row(A, 0, 1, 2)))
    began = time.monotonic()
    await records.change(10.0)
    assert time.monotonic() - began < 5
    await records.change(0.01)
    assert records.told == 1


def test_handlers_count_when_they_end_in_the_stretch() -> None:
    rows = [Row(A, 0, 0, 9), Row(A, 1, 9, 10), Row(A, 2, 11, 19)]
    assert completed_between(rows, 10, 20) == 2
    assert completed_between(rows, 0, 19) == 2


def test_a_hop_goes_from_the_end_of_a_step_to_the_begin_of_the_next_of_its_run() -> None:
    rows = [
        Row(B, 1, 3_000_000, 4_000_000),
        Row(A, 0, 0, 1_000_000),
        Row(B, 0, 0, 2_000_000),
        Row(A, 1, 3_500_000, 5_000_000),
        Row(A, 3, 9_000_000, 9_000_000),
    ]
    assert hops_ms(rows, 0, 10_000_000) == [2.5, 1.0]
    assert hops_ms(rows, 1_500_000, 10_000_000) == [1.0]


def test_the_first_line_of_a_run_is_the_earliest() -> None:
    assert first_lines([Row(A, 1, 20, 21), Row(A, 0, 10, 11), Row(B, 0, 5, 6)]) == {A.hex(): 10, B.hex(): 5}


def test_quantiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (51.0, 100.0, 7.0)
