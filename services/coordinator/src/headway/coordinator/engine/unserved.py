"""How a failure at the database is told: an outage once for all that need the database, what else fails by itself."""

import logging

from headway.coordinator.store.errors import StoreEnded, StoreUnavailable
from headway.runtime.outages import Outage


def level_of(error: Exception, outage: Outage) -> int:
    """The level of the line about a failed transaction; take note of it where the database does not serve.

    A transaction that the database ended says nothing of the database, unless there is an outage already.
    """
    if isinstance(error, StoreEnded):
        return logging.DEBUG if outage.is_on else logging.WARNING
    if isinstance(error, StoreUnavailable):
        outage.failed(str(error))
        return logging.DEBUG
    return logging.WARNING
