"""The relay's settings."""

from dataclasses import dataclass
from datetime import timedelta

from headway.runtime.settings import CoordinatorAddress, DatabaseSettings, ProcessSettings, RedisSettings, setting

__all__ = ["RelaySettings"]


@dataclass(frozen=True, kw_only=True)
class RelaySettings(ProcessSettings, DatabaseSettings, RedisSettings, CoordinatorAddress):
    """What the relay reads from the environment."""

    listen: str | None = setting(
        "HEADWAY_RELAY_LISTEN",
        default=None,
        meaning="Where the relay answers gRPC health checks: host:port; unset: nowhere.",
    )
    lanes: int = setting(
        "HEADWAY_RELAY_LANES",
        default=2,
        minimum=1,
        maximum=64,
        meaning="How many buckets one relay publishes from at the same time.",
    )
    batch: int = setting(
        "HEADWAY_RELAY_BATCH",
        default=500,
        minimum=1,
        maximum=10_000,
        unit="rows",
        meaning="The most dispatches that are published in one transaction.",
    )
    poll_interval: timedelta = setting(
        "HEADWAY_RELAY_POLL_INTERVAL",
        default=timedelta(seconds=1),
        minimum=0.01,
        meaning="How often the relay looks at the outbox although no notification came.",
    )
    epoch_interval: timedelta = setting(
        "HEADWAY_RELAY_EPOCH_INTERVAL",
        default=timedelta(seconds=1),
        minimum=0.01,
        meaning="How often the relay checks whether the broker has lost everything.",
    )
    sweep_interval: timedelta = setting(
        "HEADWAY_RELAY_SWEEP_INTERVAL",
        default=timedelta(seconds=5),
        minimum=0.01,
        meaning="How often the coordinator is told how far the queues are, so that it finds single lost dispatches.",
    )
    prune_interval: timedelta = setting(
        "HEADWAY_RELAY_PRUNE_INTERVAL",
        default=timedelta(minutes=10),
        minimum=0.01,
        meaning="How often consumers that died without messages are removed from the broker.",
    )
    consumer_idle: timedelta = setting(
        "HEADWAY_RELAY_CONSUMER_IDLE",
        default=timedelta(hours=1),
        minimum=0.01,
        meaning="How long a consumer without messages must have been silent before it is removed.",
    )
    retry_cap: timedelta = setting(
        "HEADWAY_RELAY_RETRY_CAP",
        default=timedelta(seconds=30),
        minimum=0.1,
        meaning="The longest wait before trying again after failures in a row.",
    )
