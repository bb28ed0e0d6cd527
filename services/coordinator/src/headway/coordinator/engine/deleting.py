"""Deleting finished runs: on request, and those that their definitions keep no longer, in the background.

A child stays until its parent has taken its end: only then has the order to start it nothing left to start.
Any number of coordinators may do so at the same time: whoever holds a run's lock deletes it, the others pass it by.
"""

import asyncio
import logging
from collections.abc import Sequence
from uuid import UUID

from headway.coordinator import clock
from headway.coordinator.core.refusals import EndNotTold, Refusal, RunNotFinished
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.unserved import level_of
from headway.coordinator.store.deleting import clear_tombstones, delete_ended, find_expired, find_untold, get_ends
from headway.coordinator.store.errors import STORE_ERRORS, StoreUnavailable

LOOK_SECONDS = 30.0  # between two looks for what has expired
BATCH = 50  # runs of one transaction
TRIES = 3  # at a run that others hold or reopen; from the second on, it is waited for
_log = logging.getLogger(__name__)


class Deletions:
    """Deletes runs."""

    def __init__(self, engine: Engine) -> None:
        """Use an engine's pool, and look for what has expired for as long as it runs."""
        self._pool = engine.pool
        self._outage = engine.outage
        engine.keep(self._keep_looking, "retention")

    async def delete(self, run_ids: Sequence[UUID], namespace: str, *, dry_run: bool = False) -> list[bool | Refusal]:
        """Delete runs, each named once; for each, in order, whether there was one, or why it stays.

        A dry run only says so.

        Raises:
            StoreUnavailable: the database does not answer, or somebody held a run all the while.
        """
        answers: dict[UUID, bool | Refusal] = {}
        for tries in range(TRIES):
            left = [run_id for run_id in run_ids if run_id not in answers]
            ends = {
                run_id: end
                for run_id, end in (await get_ends(self._pool, left)).items()
                if end["namespace"] == namespace
            }
            answers |= dict.fromkeys([run_id for run_id in left if run_id not in ends], False)
            answers |= {
                run_id: RunNotFinished(run_id=run_id.hex, state=end["state"])
                for run_id, end in ends.items()
                if end["state"] in ("pending", "running")
            }
            final = {run_id: end for run_id, end in ends.items() if run_id not in answers}
            untold = await find_untold(self._pool, final)
            answers |= {run_id: EndNotTold(run_id=run_id.hex, parent=parent) for run_id, parent in untold.items()}
            final = {run_id: end for run_id, end in final.items() if run_id not in untold}
            gone = final if dry_run else await delete_ended(self._pool, final, wait=tries > 0)
            answers |= dict.fromkeys(gone, True)
            if len(answers) == len(run_ids):
                return [answers[run_id] for run_id in run_ids]
        raise StoreUnavailable("a run that was to be deleted was locked by others")

    async def sweep(self) -> int:
        """Delete what has expired, batch by batch, resting as long as each took; how many there were."""
        count = 0
        staying: dict[UUID, str] = {}  # for now: their parents have yet to be told
        while True:
            began = clock.monotonic()
            expired = await find_expired(self._pool, BATCH, staying)
            ends = await get_ends(self._pool, expired)
            untold = await find_untold(self._pool, ends)
            staying |= untold
            ends = {run_id: end for run_id, end in ends.items() if run_id not in untold}
            deleted = await delete_ended(self._pool, ends)
            count += len(deleted)
            if len(expired) < BATCH or not (deleted or untold):
                return count
            await asyncio.sleep(clock.monotonic() - began)

    async def clear(self) -> None:
        """Clear away what is left of deleted runs, batch by batch, resting as long as each took."""
        began = clock.monotonic()
        while await clear_tombstones(self._pool, BATCH) == BATCH:
            await asyncio.sleep(clock.monotonic() - began)
            began = clock.monotonic()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                count = await self.sweep()
                await self.clear()
            except STORE_ERRORS as error:
                _log.log(level_of(error, self._outage), "expired runs were not deleted: %s", error)
            else:
                if count:
                    _log.info("expired runs were deleted", extra={"runs": count})
