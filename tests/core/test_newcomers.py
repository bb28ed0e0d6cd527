"""Workflows as people write them who come from elsewhere: each fault is said at its place, once, with what to write."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import Code, compile_workflow
from headway.coordinator.zones import zone_names
from tests.core import newcomers_expressions, newcomers_keys, newcomers_yaml

TABLE = [*newcomers_keys.TABLE, *newcomers_yaml.TABLE, *newcomers_expressions.TABLE]


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_newcomer_is_told_where_it_is_wrong_and_what_to_write(source: str, expected: list[str]) -> None:
    faults = compile_workflow(source, zone_names()).faults

    assert [str(fault) for fault in faults if fault.code is not Code.CHECKS_WAIT] == expected


def test_nobody_is_left_without_a_remedy() -> None:
    faults = [fault for _, source, _ in TABLE for fault in compile_workflow(source).faults]

    assert [str(fault) for fault in faults if not fault.remedy and fault.code is not Code.CHECKS_WAIT] == []
    assert len(TABLE) > 60
