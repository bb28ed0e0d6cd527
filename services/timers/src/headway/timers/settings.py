"""The settings of the timers service."""

from dataclasses import dataclass
from datetime import timedelta

from headway.runtime.settings import CoordinatorAddress, DatabaseSettings, ProcessSettings, setting

__all__ = ["TimersSettings"]


@dataclass(frozen=True, kw_only=True)
class TimersSettings(ProcessSettings, DatabaseSettings, CoordinatorAddress):
    """What the timers service reads from the environment."""

    listen: str | None = setting(
        "HEADWAY_TIMERS_LISTEN",
        default=None,
        meaning="Where the timers service answers gRPC health checks: host:port; unset: nowhere.",
    )
    poll_interval: timedelta = setting(
        "HEADWAY_TIMERS_POLL_INTERVAL",
        default=timedelta(seconds=1),
        minimum=0.005,
        maximum=2,
        meaning="How often the timers service looks for what is due although no notification came.",
    )
    batch: int = setting(
        "HEADWAY_TIMERS_BATCH",
        default=500,
        minimum=1,
        maximum=1_000,
        unit="items",
        meaning="The most timers that are told to the coordinator in one call.",
    )
    lease_batch: int = setting(
        "HEADWAY_TIMERS_LEASE_BATCH",
        default=50,
        minimum=1,
        maximum=1_000,
        unit="leases",
        meaning="The most expired leases that are told in one call; other decisions may have to wait for so many.",
    )
    limit: int = setting(
        "HEADWAY_TIMERS_LIMIT",
        default=1_000,
        minimum=1,
        maximum=100_000,
        unit="rows",
        meaning="The most timers, or expired leases, that are read of each bucket in one look.",
    )
    lanes: int = setting(
        "HEADWAY_TIMERS_LANES",
        default=4,
        minimum=1,
        maximum=64,
        meaning="How many calls with timers may be under way at the same time.",
    )
    retry_cap: timedelta = setting(
        "HEADWAY_TIMERS_RETRY_CAP",
        default=timedelta(seconds=1),
        minimum=0.1,
        meaning="The longest wait before trying again when the coordinator or the database is down.",
    )
