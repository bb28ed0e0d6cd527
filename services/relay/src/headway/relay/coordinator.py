"""The coordinator as the relay sees it: hand-overs delivered, lost dispatches swept.

The only room that knows gRPC and protobuf. It translates and bounds the calls in time; it does not retry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import grpc
from google.protobuf.duration_pb2 import Duration

from headway.api.events.v1 import events_pb2, events_pb2_grpc
from headway.api.outbox.v1 import outbox_pb2, outbox_pb2_grpc

__all__ = [
    "Coordinator",
    "CoordinatorBusyError",
    "CoordinatorRefusedError",
    "Delivery",
    "Fate",
    "Sweep",
]

DELIVER_DEADLINE = 10.0  # seconds
SWEEP_DEADLINE = 10.0  # seconds, for a page
_BUSY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


class CoordinatorBusyError(Exception):
    """The coordinator is down or overloaded: the rows stay, call again later."""


class CoordinatorRefusedError(Exception):
    """The call failed as a whole, for a reason that waiting may not cure: perhaps one item of it does that."""


class Fate(Enum):
    """What becomes of a hand-over's row."""

    DONE = auto()
    """Applied, or the run is over: delete it."""
    KEPT = auto()
    """Could not be decided: keep it, call again later."""
    LATER = auto()
    """There is no room for what it begins just now: keep it, call again later."""


_FATES = {
    events_pb2.DELIVER_ANSWER_APPLIED: Fate.DONE,
    events_pb2.DELIVER_ANSWER_RUN_CLOSED: Fate.DONE,
    events_pb2.DELIVER_ANSWER_LATER: Fate.LATER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event for another run, as `EventsService.Deliver` takes it."""

    request_id: str
    run_id: str
    type: str
    event: bytes
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one page of a sweep did.

    Attributes:
        dispatched: How many tasks were dispatched again.
        cursor: Where the next page begins; empty: there is none.
    """

    dispatched: int
    cursor: str


class Coordinator:
    """The coordinator's internal services, through a channel that is passed in."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._events = events_pb2_grpc.EventsServiceStub(channel)
        self.answered: Callable[[], object] = lambda: None
        """Called with each answer."""
        self._outbox = outbox_pb2_grpc.OutboxServiceStub(channel)

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[Fate]:
        """Hand events over.

        Returns:
            The fate of each, in order.

        Raises:
            CoordinatorBusyError: Nothing is known about any; call again later.
            CoordinatorRefusedError: Nothing is known about any; try fewer.
        """
        request = events_pb2.DeliverRequest(
            handovers=[
                events_pb2.Handover(
                    request_id=item.request_id,
                    run_id=item.run_id,
                    type=item.type,
                    event=item.event,
                    traceparent=item.trace,
                )
                for item in deliveries
            ]
        )
        try:
            response = await self._events.Deliver(request, timeout=DELIVER_DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from error
        self.answered()
        if len(response.answers) != len(deliveries):
            raise CoordinatorRefusedError(f"{len(response.answers)} answers to {len(deliveries)} hand-overs")
        return [_FATES.get(answer, Fate.KEPT) for answer in response.answers]

    async def sweep_everything(self, cursor: str = "") -> Sweep:
        """Say that the broker has provably lost everything; one page.

        Args:
            cursor: The answer's before; empty: from the beginning.

        Raises:
            CoordinatorBusyError, CoordinatorRefusedError: Nothing is known about this page.
        """
        return await self._sweep(outbox_pb2.SweepRequest(broker_lost=True, cursor=cursor))

    async def sweep_delivered(self, ages: Mapping[tuple[str, str], float], cursor: str = "") -> Sweep:
        """Say beyond which age, in seconds, the dispatches of (namespace, queue) were read; otherwise as above."""
        progress: list[outbox_pb2.QueueProgress] = []
        for (namespace, queue), seconds in ages.items():
            age = Duration()
            age.FromMilliseconds(round(seconds * 1000))
            progress.append(outbox_pb2.QueueProgress(namespace=namespace, queue=queue, delivered_age=age))
        return await self._sweep(outbox_pb2.SweepRequest(queues=progress, cursor=cursor))

    async def _sweep(self, request: outbox_pb2.SweepRequest) -> Sweep:
        try:
            response = await self._outbox.Sweep(request, timeout=SWEEP_DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from error
        self.answered()
        return Sweep(dispatched=response.dispatched, cursor=response.cursor)


def _translated(error: grpc.aio.AioRpcError) -> Exception:
    text = f"{error.code().name}: {error.details()}"
    return CoordinatorBusyError(text) if error.code() in _BUSY else CoordinatorRefusedError(text)
