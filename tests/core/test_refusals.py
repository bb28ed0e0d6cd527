"""Refusals: the docstring is the message, and every refusal that the core makes can fill it."""

from __future__ import annotations

import re

import pytest

from headway.coordinator.core import refusals
from headway.coordinator.core.refusals import KeyReused, Refusal, RequestIdReused

ALL = [cls for cls in vars(refusals).values() if isinstance(cls, type) and issubclass(cls, Refusal)]
ALL.remove(Refusal)


@pytest.mark.parametrize("refusal", ALL, ids=lambda cls: cls.__name__)
def test_a_refusal_says_its_docstring_filled_with_its_facts(refusal: type[Refusal]) -> None:
    facts = dict.fromkeys(re.findall(r"{(\w+)", refusal.__doc__ or ""), "x")

    said = str(refusal(**facts))

    assert "{" not in said
    assert refusal(**facts).metadata == facts


def test_each_has_a_reason_of_its_own_but_for_ids_of_either_kind() -> None:
    reasons = [refusal.reason for refusal in ALL if refusal is not RequestIdReused]

    assert all(re.fullmatch(r"[A-Z_]+", reason) for reason in reasons)
    assert len(set(reasons)) == len(reasons)
    assert RequestIdReused.reason == KeyReused.reason
