"""What the timers service tells about itself: how late it is, and what became of what it told."""

from headway.runtime import telemetry

__all__ = ["Telemetry"]

_LATENESS_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0]


class Telemetry:
    """The service's instruments."""

    def __init__(self) -> None:
        meter = telemetry.meter(__name__)
        self._lateness = meter.create_histogram(
            "headway.timers.lateness",
            unit="s",
            description="from a timer's due time to its decision",
            explicit_bucket_boundaries_advisory=_LATENESS_BOUNDS,
        )
        self._waiting = meter.create_gauge(
            "headway.timers.waiting", unit="{item}", description="what is due and not decided yet, by what it is"
        )
        self._answered = meter.create_counter(
            "headway.timers.answered", unit="{item}", description="timers and leases told, by outcome"
        )

    def fired(self, kind: str, late_seconds: float) -> None:
        """Note how late a timer or a lease was decided."""
        self._lateness.record(late_seconds, {"kind": kind})

    def waiting(self, what: str, items: int) -> None:
        """Tell how much is known to be due and not decided; `what` is `timers` or `leases`."""
        self._waiting.set(items, {"what": what})

    def answered(self, outcome: str, items: int) -> None:
        """Count items that were `fired`, `stale` or `failed`."""
        if items:
            self._answered.add(items, {"outcome": outcome})
