"""Driver errors end here: what the layers above can meet, in their words."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg


class StoreUnavailable(Exception):
    """The database does not answer, or ended the transaction for reasons of its own: try again later."""


class StoreEnded(StoreUnavailable):
    """The database ended the transaction that was under way, or lost it: it may have taken too long."""


class StoreConflict(Exception):
    """Somebody else changed the same rows at the same time: the transaction was rolled back and may be repeated."""


class StoreRejected(Exception):
    """The database refused to store something: a broken invariant, or a value that it cannot hold."""


STORE_ERRORS = (StoreUnavailable, StoreConflict, StoreRejected)
"""All that may come out of `translated`."""


class NotApplied(Exception):
    """A guarded change found its row not as it was read under the lock: a broken invariant."""


_CONFLICTS = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
    asyncpg.ForeignKeyViolationError,
    asyncpg.LockNotAvailableError,
)
_ENDED = (
    asyncpg.IdleInTransactionSessionTimeoutError,  # we were frozen: the database took its locks back
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection broke in the middle of an exchange
)
_UNAVAILABLE = (
    *_ENDED,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.CannotConnectNowError,
    OSError,
    TimeoutError,
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into this module's."""
    try:
        yield
    except _CONFLICTS as error:
        raise StoreConflict(str(error)) from error
    except _UNAVAILABLE as error:
        if isinstance(error, ValueError):  # the driver could not encode a value: asking again would not help
            raise StoreRejected(str(error)) from error
        met = StoreEnded if isinstance(error, _ENDED) else StoreUnavailable
        raise met(f"{type(error).__name__}: {error}") from error
    except asyncpg.PostgresError as error:
        raise StoreRejected(f"{type(error).__name__}: {error}") from error
