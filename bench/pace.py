"""How long and how hard is measured."""

import argparse
import math
from dataclasses import dataclass
from typing import TypeAlias

Samples: TypeAlias = dict[str, list[float]]
"""What a measurement answers: values by figure. A name with a dot belongs into an object of its own."""

INTERRUPTED = 130  # the exit code: 128 + SIGINT, as shells count

PEAK_IN_FLIGHT = 400
"""Runs in flight at which the throughput of one coordinator is highest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long and how hard.

    Attributes:
        seconds: Length of a stretch under load.
        repeats: How often a measurement that sets up for long measures, once it is set up.
        in_flight: Runs in flight where the throughput is measured.
        soak_minutes: Length of the soak; zero: none.
    """

    seconds: float
    repeats: int
    in_flight: int = PEAK_IN_FLIGHT
    soak_minutes: float = 0.0

    @property
    def warm_up(self) -> float:
        """Seconds under load before a stretch begins."""
        return min(2.0, self.seconds / 3)


def amount(text: str) -> float:
    """A length of time above zero, in whatever the option counts.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value
