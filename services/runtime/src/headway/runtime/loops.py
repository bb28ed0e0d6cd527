"""Keeping a service's loops going: whatever fails is logged, waited out, and tried again.

The one place, the coordinator's lanes aside, where every exception is caught. Knows nothing of what the steps do.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from headway.runtime.backoff import Backoff
from headway.runtime.outages import Outage, Peer

__all__ = ["Loops", "Step"]

_log = logging.getLogger(__name__)

Step = Callable[[], Awaitable[None]]


class Loops:
    """Runs steps over and over until stopped.

    Args:
        backoff: How long to wait after failures in a row.
        chance: Spreads the tries.
        peers: What the steps need: that one of these does not serve is told once for all loops. The first one fits
            whose faults have the error's type.
    """

    def __init__(self, *, backoff: Backoff, chance: random.Random, peers: Sequence[Peer] = ()) -> None:
        self._backoff = backoff
        self._chance = chance
        self._outages = [Outage(peer, _log) for peer in peers]
        self._stopping = asyncio.Event()

    def outage(self, peer: Peer) -> Outage:
        """Of one of the peers: for what else needs it, so that all is told in the same two lines."""
        return next(outage for outage in self._outages if outage.peer is peer)

    def answered(self, peer: Peer) -> Callable[[], object]:
        """Make what a peer that proves itself calls with each answer."""
        return self.outage(peer).succeeded

    def stop(self) -> None:
        """Let each loop end after its current step."""
        self._stopping.set()

    async def keep(self, name: str, step: Step, *, every: float = 0.0) -> None:
        """Run a step again and again; after a failure wait longer each time, after a success not at all.

        Args:
            name: For the log.
            step: Returns now and then, so that the loop can end.
            every: Seconds between two steps.
        """
        failures = 0
        outage: Outage | None = None
        while not self._stopping.is_set():
            try:
                await step()
            except Exception as error:  # noqa: BLE001 - the one place where nothing may end the loop
                failures += 1
                delay = self._backoff.delay(failures, self._chance)
                outage = self._outage_of(error)
                if outage is not None:
                    outage.failed(str(error) or type(error).__name__)
                # One line for each failure, with the trace only at first.
                _log.log(
                    logging.WARNING if outage is None else logging.DEBUG,
                    "%s failed; trying again",
                    name,
                    exc_info=error if failures == 1 else None,
                    extra={"cause": repr(error), "failures": failures, "retry_in_seconds": round(delay, 3)},
                )
                await self._wait(delay)
            else:
                failures = 0
                if outage is not None and not outage.peer.proves_itself:
                    outage.succeeded()
                outage = None
                if every:
                    await self._wait(every)

    def _outage_of(self, error: Exception) -> Outage | None:
        return next((outage for outage in self._outages if isinstance(error, outage.peer.faults)), None)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
