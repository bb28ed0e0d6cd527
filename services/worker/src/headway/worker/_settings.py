"""What a worker process reads from its environment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headway.runtime.queues import NAMESPACE_PATTERN
from headway.runtime.settings import (
    CoordinatorAddress,
    ProcessSettings,
    RedisSettings,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(CoordinatorAddress, RedisSettings, ProcessSettings):
    """Settings of a worker."""

    namespace: str = setting(
        "HEADWAY_NAMESPACE",
        default="default",
        pattern=NAMESPACE_PATTERN,
        meaning="The namespace whose queues are served.",
    )
    concurrency: int = setting(
        "HEADWAY_WORKER_CONCURRENCY",
        default=100,
        minimum=1,
        unit="handlers",
        meaning="How many handlers a worker runs at a time.",
    )
    claim_idle: timedelta = setting(
        "HEADWAY_WORKER_CLAIM_IDLE",
        default=timedelta(seconds=30),
        minimum=0.1,
        meaning="After how long a message that nobody acknowledged is taken over; less than 30s only makes live "
        "workers take over from each other.",
    )
    acknowledge_after: timedelta = setting(
        "HEADWAY_WORKER_ACKNOWLEDGE_AFTER",
        default=timedelta(minutes=10),
        minimum=0,
        meaning="How long a handler runs before its message is acknowledged and the lease alone protects it.",
    )
    eager: bool = setting(
        "HEADWAY_WORKER_EAGER",
        default=True,
        meaning="Whether the answer to a success may hand the worker a next task of the same run, past the queue, and "
        "whether an idle worker offers slots, so that what is dispatched to its queues comes past them. Such "
        "a lease lasts 10s until its first Renew, whatever the node's `lease`: where no Renew gets through for that "
        "long, the attempt counts as lost.",
    )
    call_timeout: timedelta = setting(
        "HEADWAY_WORKER_CALL_TIMEOUT",
        default=timedelta(seconds=10),
        minimum=0.1,
        meaning="Deadline of each call of a worker to the coordinator.",
    )
    listen: str | None = setting(
        "HEADWAY_WORKER_LISTEN",
        default=None,
        meaning="Address (host:port) on which a worker answers gRPC health and reflection; unset: none.",
    )
