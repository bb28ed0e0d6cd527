"""Which buckets want to be drained: wakes coalesce here while a batch is under way.

Plain asyncio state of one process; no I/O. A bucket is in one lane's hands at a time, and one that is woken meanwhile
comes round again behind the others.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Wakes"]


class Wakes:
    """A set of due buckets, in the order in which they were woken, shared by some lanes."""

    def __init__(self) -> None:
        self._due: dict[int, None] = {}
        self._busy: set[int] = set()
        self._something = asyncio.Event()
        self._closed = False

    def wake(self, bucket: int) -> None:
        """Mark a bucket as due; it stays due however often it is woken."""
        self._due[bucket] = None
        self._something.set()

    def close(self) -> None:
        """End the work: `take` answers None from now on."""
        self._closed = True
        self._something.set()

    async def take(self) -> int | None:
        """Wait for a due bucket and take it in hand, off other lanes; pass it to `in_hand`. None: closed."""
        while not self._closed:
            bucket = next((due for due in self._due if due not in self._busy), None)
            if bucket is not None:
                del self._due[bucket]
                self._busy.add(bucket)
                return bucket
            self._something.clear()
            await self._something.wait()
        return None

    @contextmanager
    def in_hand(self, bucket: int) -> Iterator[None]:
        """Let go of a bucket at the end of the work on it; when the work fails, it is due again."""
        try:
            yield
        except BaseException:
            self.wake(bucket)
            raise
        finally:
            self._busy.discard(bucket)
            self._something.set()
