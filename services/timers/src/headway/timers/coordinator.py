"""The coordinator as the timers service sees it: `TimersService.Fire`.

The only room that knows gRPC and protobuf. It translates and bounds the call in time; it does not retry.
"""

from collections.abc import Sequence
from enum import Enum, auto

import grpc

from headway.api.timers.v1 import timers_pb2, timers_pb2_grpc
from headway.runtime.ids import run_id_text
from headway.timers.store import LEASE, DueKey

__all__ = [
    "Coordinator",
    "CoordinatorBusyError",
    "CoordinatorLateError",
    "CoordinatorRefusedError",
    "Outcome",
]

FIRE_DEADLINE = 5.0  # seconds
MOST_ITEMS = 1_000  # TimersService.Fire takes no more
_BUSY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


class CoordinatorBusyError(Exception):
    """The coordinator is down or overloaded: nothing is known, call again later."""


class CoordinatorLateError(Exception):
    """The coordinator did not answer in time: it may have decided some; try fewer."""


class CoordinatorRefusedError(Exception):
    """The call failed as a whole, for a reason that waiting may not cure: perhaps one item of it does that."""


class Outcome(Enum):
    """What became of a timer or a lease."""

    FIRED = auto()
    """Decided."""
    STALE = auto()
    """Gone, or not due: nothing changed."""
    FAILED = auto()
    """Could not be decided; it stays."""


_OUTCOMES = {
    timers_pb2.FIRE_ANSWER_FIRED: Outcome.FIRED,
    timers_pb2.FIRE_ANSWER_STALE: Outcome.STALE,
}


class Coordinator:
    """The coordinator's service for timers, through a channel that is passed in."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._timers = timers_pb2_grpc.TimersServiceStub(channel)

    async def fire(self, keys: Sequence[DueKey]) -> list[Outcome]:
        """Tell what is due.

        Args:
            keys: At most MOST_ITEMS, all timers or all leases.

        Returns:
            The outcome of each, in order.

        Raises:
            CoordinatorBusyError: Call again later.
            CoordinatorLateError: Call again with fewer.
            CoordinatorRefusedError: Find out which item it is.
        """
        # The answers come in the order timers, leases: that is the keys' order only while they are not mixed.
        if len({key.kind == LEASE for key in keys}) > 1:
            raise ValueError("timers and leases go in calls of their own")
        request = timers_pb2.FireRequest(
            timers=[
                timers_pb2.Timer(run_id=run_id_text(key.run_id), path=key.path, kind=key.kind, attempt=key.attempt)
                for key in keys
                if key.kind != LEASE
            ],
            leases=[
                timers_pb2.ExpiredLease(run_id=run_id_text(key.run_id), path=key.path, attempt=key.attempt)
                for key in keys
                if key.kind == LEASE
            ],
        )
        try:
            response = await self._timers.Fire(request, timeout=FIRE_DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from error
        if len(response.answers) != len(keys):
            raise CoordinatorRefusedError(f"{len(response.answers)} answers to {len(keys)} items")
        return [_OUTCOMES.get(answer, Outcome.FAILED) for answer in response.answers]


def _translated(error: grpc.aio.AioRpcError) -> Exception:
    text = f"{error.code().name}: {error.details()}"
    if error.code() in _BUSY:
        return CoordinatorBusyError(text)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return CoordinatorLateError(text)
    return CoordinatorRefusedError(text)
