"""Handlers of the nested example workflows: each writes down when it ran; the first check of a sick service fails."""

import os
from pathlib import Path
from typing import Any

from headway.worker import Context, handler
from tests.e2e.stubborn import note


@handler("deploy.install")
async def install(_value: dict[str, Any], context: Context) -> None:
    """Install a version of a service."""
    _done(context)


@handler("deploy.roll_back")
async def roll_back(_value: dict[str, Any], context: Context) -> None:
    """Undo that."""
    _done(context)


@handler("health.ask")
async def ask(value: dict[str, Any], context: Context) -> str:
    """Say that a service is good."""
    _done(context)
    first_check = Path(os.environ["STUBBORN_NOTES"]).with_name(value["service"])
    if value["service"].startswith("sick") and not first_check.exists():
        first_check.touch()
        raise ValueError("not well yet")
    return "good"


@handler("chat.announce")
async def announce(value: dict[str, Any], context: Context) -> int:
    """Say how many services are out."""
    _done(context)
    return len(value["services"])


@handler("chat.alarm")
async def alarm(_value: dict[str, Any], context: Context) -> None:
    """Wake somebody."""
    _done(context)


def _done(context: Context) -> None:
    note(context, "begin")
    note(context, "end")
