"""How the shop misbehaves: slow, out of order, or losing its answer; decided by a seed, so that a demo can be repeated.

The n-th request for one order at one endpoint always meets the same weather, whatever else goes on.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

FAIR_FROM = 3  # from the third request on an endpoint serves an order without faults: every order has an end


class Fault(StrEnum):
    """What goes wrong with a request."""

    NONE = "none"
    REFUSED = "refused"  # 503, and nothing happened
    ANSWER_LOST = "answer_lost"  # it happened, but the caller sees a 503: why idempotency keys are needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What a request meets: seconds of delay, then perhaps a fault."""

    delay: float
    fault: Fault


def weather(*, seed: int, endpoint: str, order: str, nth: int) -> Weather:
    """Return the weather for the n-th request, from 1, for an order at an endpoint."""
    digest = blake2b(f"{seed}/{endpoint}/{order}/{nth}".encode(), digest_size=12).digest()
    speed, length, luck = (int.from_bytes(digest[at : at + 4], "big") / 2**32 for at in (0, 4, 8))
    delay = 0.8 + length if speed < 0.15 else 0.02 + 0.15 * length
    if nth >= FAIR_FROM:
        return Weather(delay=delay, fault=Fault.NONE)
    if speed > 0.98:
        return Weather(delay=6.0, fault=Fault.NONE)  # longer than any attempt's time-out in the workflow
    if luck < 0.10:
        return Weather(delay=delay, fault=Fault.REFUSED)
    if luck < 0.16:
        return Weather(delay=delay, fault=Fault.ANSWER_LOST)
    return Weather(delay=delay, fault=Fault.NONE)
