"""An outage of the database for lanes that have no engine around them."""

from __future__ import annotations

import logging

from headway.coordinator.engine.engine import DATABASE
from headway.runtime.outages import Outage


def outage() -> Outage:
    return Outage(DATABASE, logging.getLogger("headway.test"))
