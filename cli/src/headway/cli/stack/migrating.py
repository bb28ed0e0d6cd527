"""Bringing the database's schema up to date: the coordinator owns it, and does it in a process of its own."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass


class MigrationFailed(Exception):
    """The database could not be brought up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What the coordinator said while it migrated."""

    said: str


async def migrate(environment: Mapping[str, str]) -> Migrated:
    """Run `python -m headway.coordinator migrate`.

    Raises:
        MigrationFailed: It ended with a fault; the message is a whole sentence.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headway.coordinator", "migrate",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environment),
    )  # fmt: skip
    out, _ = await process.communicate()
    said = out.decode(errors="replace").strip()
    if process.returncode != 0:
        if not said or said.startswith("Traceback"):
            why = said.splitlines()[-1] if said else f"the coordinator ended with exit code {process.returncode}"
            said = f"the database was not upgraded: {why}"
        raise MigrationFailed(said)
    return Migrated(said=said)
