"""The client: one connection, and the calls of both services over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from headway.client._address import DEFAULT_ADDRESS
from headway.client._bulk_calls import BulkCalls
from headway.client._connection import DEFAULT_MESSAGE_LIMIT, Connection, Patience
from headway.client._definition_calls import DefinitionCalls
from headway.client._run_calls import RunCalls

if TYPE_CHECKING:
    from types import TracebackType

    import grpc


class Client(DefinitionCalls, RunCalls, BulkCalls):
    """Talks to the coordinators of one Headway, for one namespace.

    Make it inside the event loop that uses it, and share it between tasks::

        async with Client("127.0.0.1:7710") as client:
            started = await client.start("order_fulfilment", {"order_id": 7, "amount": 1500})
            outcome = await client.wait(started.run_id)

    Every call raises `Refused` (or a subclass that names the reason) when the server refuses, `Unreachable` when no
    server answers for as long as `patience` says, and `DeadlinePassed` when a try gets no answer.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        namespace: str = "default",
        patience: Patience | None = None,
        message_limit: int = DEFAULT_MESSAGE_LIMIT,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Make a client; it connects at its first call.

        Args:
            address: `host:port`, or a list of IP addresses with ports, with commas between.
            namespace: The tenant.
            patience: How long calls are tried; None: the default `Patience`. With it, a call to an address where
                nobody listens is tried for 30 seconds before it raises `Unreachable`, as suits a service that
                outlives a restart of the coordinator. Where somebody waits for the answer, ask for less:
                `Patience(give_up_after=timedelta(seconds=2))`.
            message_limit: Largest message in either direction, in bytes.
            credentials: For TLS; None: plain text.

        Raises:
            ValueError: The address is not one.
        """
        connection = Connection(
            address, patience=patience or Patience(), message_limit=message_limit, credentials=credentials
        )
        DefinitionCalls.__init__(self, connection, namespace)
        RunCalls.__init__(self, connection, namespace)
        BulkCalls.__init__(self, connection, namespace)

    async def __aenter__(self) -> Self:
        """Use the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        await self._connection.close()
