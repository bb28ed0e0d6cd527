"""Signals to the run of an idempotency key, which may be started for them."""

from dataclasses import dataclass, replace
from uuid import UUID

from headway.coordinator.core.refusals import InvalidKey, KeyNotFound
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.starting import StartAsk, Started, Starts
from headway.coordinator.store.listing import RunFilter, find_runs


@dataclass(frozen=True, slots=True)
class Keys:
    """Finds runs by their keys."""

    engine: Engine
    starts: Starts

    async def run_of(self, namespace: str, key: str, workflow: str) -> UUID:
        """The run of a key. Raises KeyNotFound when there is none, or it is not of the workflow (empty: any)."""
        wanted = RunFilter(namespace=namespace, key=key, workflow=workflow)
        found = (await find_runs(self.engine.pool, wanted, None, 1)).run_ids
        if not found:
            raise KeyNotFound(key=key, namespace=namespace)
        return found[0]

    async def run_or_start(self, ask: StartAsk) -> Started:
        """The run of a start's key, whatever it was started with, or the one that is started now.

        Raises:
            InvalidKey: the start has none.
            KeyReused: the key belongs to a run of another workflow.
        """
        if ask.key is None:
            raise InvalidKey
        (answer,) = await self.starts.start([replace(ask, adopts=True)])
        if isinstance(answer, Exception):
            raise answer
        return answer
