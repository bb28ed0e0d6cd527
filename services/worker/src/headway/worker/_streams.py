"""The queues, as Redis Streams: reading for free slots, taking over what dead consumers left, acknowledging in batches.

The only module that knows Redis. Nothing here retries: every method makes one try and raises `QueueUnreachable`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from headway.runtime.queues import GROUP, queue_name_of, stream_of
from headway.worker._delivery import Entry, Message

Answer = TypeVar("Answer")

_READ = ("XREADGROUP", "GROUP", GROUP)
_BLOCK = 2.0
_SHORT_BLOCK = 0.2
_MOST_SWEEPS = 100
_CONNECT_TIMEOUT = 5.0
_ANSWER_TIMEOUT = 10.0

_MOST_TEXT = 1000
"""Longest task id and trace, in bytes."""
_MOST_ATTEMPT = 2**63 - 1
_MOST_DIGITS = len(str(_MOST_ATTEMPT))

_Item = tuple[bytes, dict[bytes, bytes] | None]


class QueueUnreachable(Exception):
    """Redis did not answer, or refused."""


class MalformedMessage(Exception):
    """An entry that is no dispatch message. It is acknowledged and dropped: nobody could ever run it."""

    def __init__(self, entry: Entry, fault: str) -> None:
        """Name the entry and its fault."""
        stream, message_id = entry
        super().__init__(f"entry {message_id.decode()} of {stream}: {fault}")
        self.entry = entry


@dataclass(frozen=True, slots=True)
class Entries:
    """What a read brought.

    Attributes:
        messages: Dispatch messages.
        malformed: What is none.
    """

    messages: list[Message] = field(default_factory=list[Message])
    malformed: list[MalformedMessage] = field(default_factory=list[MalformedMessage])


class Streams:
    """This worker as a consumer of its queues."""

    def __init__(
        self,
        redis_url: str,
        *,
        namespace: str,
        queues: Sequence[str],
        owner: str,
        claim_idle: float,
    ) -> None:
        """Prepare without connecting.

        Args:
            redis_url: Where Redis is.
            namespace: Whose queues.
            queues: Their names; not empty.
            owner: Name of this consumer: unique per process start.
            claim_idle: After how many seconds a message that nobody acknowledged is taken over.
        """
        # A retry inside the client would hide an outage from the loops here, which pace themselves.
        self._redis = Redis.from_url(
            redis_url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=_CONNECT_TIMEOUT,
            socket_timeout=_ANSWER_TIMEOUT,
        )
        url = urlsplit(redis_url)
        self.address = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
        """Where Redis is, for people: without the password."""
        self._streams = [stream_of(queue_name_of(namespace, queue)) for queue in queues]
        self._owner = owner
        self._claim_idle = claim_idle
        self._prepared = False
        self._turn = 0
        self._claim_at = 0.0
        self._lost_answer = False
        self._held: set[Entry] = set()
        self._left: set[Entry] = set()

    async def prepare(self) -> None:
        """Make the streams and this consumer's group of each, unless they are there.

        Raises:
            QueueUnreachable: Redis did not answer, or refused.
        """
        await self._try(self._prepare())

    async def read(self, free: int) -> Entries:
        """Return up to `free` messages; waits for one for up to two seconds.

        After a broken connection the first read returns what was delivered without arriving; once per third of
        `claim_idle` it returns what consumers that died left behind.

        Raises:
            QueueUnreachable: Redis did not answer, or refused.
        """
        return await self._try(self._read(free))

    def let_go(self, entry: Entry) -> None:
        """Forget an entry without acknowledging it: it is taken over later, by this consumer or another."""
        self._held.discard(entry)
        self._left.add(entry)

    async def cut_off(self, most: int) -> Entries:
        """Return up to `most` messages that were delivered to this consumer but did not arrive (a read was cut off).

        Raises:
            QueueUnreachable: Redis did not answer, or refused.
        """
        return await self._try(self._cut_off(most))

    async def acknowledge(self, entries: Sequence[Entry]) -> None:
        """Acknowledge and delete entries, all in one pipeline.

        Raises:
            QueueUnreachable: Redis did not answer, or refused.
        """
        await self._try(self._acknowledge(entries))

    async def leave(self) -> None:
        """Remove this consumer from the groups where it has nothing pending.

        Raises:
            QueueUnreachable: Redis did not answer, or refused.
        """
        await self._try(self._leave())

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _try(self, call: Awaitable[Answer]) -> Answer:
        try:
            return await call
        except (RedisError, OSError, TimeoutError) as error:
            self._lost_answer = True
            if isinstance(error, ResponseError) and str(error).startswith("NOGROUP"):
                self._prepared = False
            raise QueueUnreachable(f"{type(error).__name__}: {error}") from error

    async def _command(self, *arguments: str | bytes | int) -> Any:
        return await cast("Awaitable[Any]", self._redis.execute_command(*arguments))

    async def _prepare(self) -> None:
        for stream in self._streams:
            try:
                await self._command("XGROUP", "CREATE", stream, GROUP, "0", "MKSTREAM")
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
        self._prepared = True

    async def _read(self, free: int) -> Entries:
        if not self._prepared:
            await self._prepare()
        if self._lost_answer:
            entries = await self._cut_off(free)
            # A full house may have left some behind.
            self._lost_answer = len(entries.messages) == free
            if entries.messages:
                return entries
        now = time.monotonic()
        if now >= self._claim_at:
            self._claim_at = now + self._claim_idle / 3
            entries = await self._claim(free)
            if entries.messages or entries.malformed:
                return entries
        streams, count, block = self._share(free)
        # BLOCK 0 would wait for ever.
        block_ms = max(1, int(min(block, self._claim_at - now) * 1000))
        keys = ("STREAMS", *streams, *(">" for _ in streams))
        # Two commands in one: a blocked read is handed the first of many messages that are written together, and Redis
        # goes on with the second command once all are there.
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.execute_command(*_READ, self._owner, "COUNT", 1, "BLOCK", block_ms, *keys)
            if count > 1:
                pipeline.execute_command(*_READ, self._owner, "COUNT", count - 1, *keys)
            answers = cast("list[object]", await pipeline.execute(raise_on_error=False))
        for answer in answers:
            if isinstance(answer, RedisError):  # what the other one brought is read again, as cut off
                raise answer
        entries = Entries()
        for answer in answers:
            self._take(answer, free, into=entries)
        return entries

    def _share(self, free: int) -> tuple[list[str], int, float]:
        """Say which streams to read, how many of each, and for how long to wait.

        COUNT holds for each stream by itself. With fewer free slots than streams, only so many are read, in turn.
        """
        every = self._streams
        if free >= len(every):
            return every, free // len(every), _BLOCK
        start = self._turn % len(every)
        self._turn += free
        return (every + every)[start : start + free], 1, _SHORT_BLOCK

    async def _cut_off(self, most: int) -> Entries:
        # Known as of before the question: what is acknowledged while it is under way may still be in its answer.
        # What was let go is not cut off: it waits for its idle time to pass.
        known = self._held | self._left
        answer = await self._command(
            *(*_READ, self._owner, "COUNT", most + len(known)),
            *("STREAMS", *self._streams, *("0" for _ in self._streams)),
        )
        return self._take(answer, most, known, into=Entries())

    def _take(self, answer: object, most: int, known: AbstractSet[Entry] = frozenset(), *, into: Entries) -> Entries:
        for stream, items in cast("list[tuple[bytes, list[_Item]]]", answer or []):
            self._take_items(stream.decode(), items, most, known, into=into)
        return into

    def _take_items(
        self, stream: str, items: list[_Item], most: int, known: AbstractSet[Entry], *, into: Entries
    ) -> None:
        """Parse; leave out what is known already, and what there is no slot for."""
        for message_id, fields in items:
            entry = (stream, message_id)
            if not fields or entry in known or entry in self._held:
                continue  # deleted meanwhile and still pending somewhere, or at work here
            if len(into.messages) >= most:
                return
            self._held.add(entry)
            self._left.discard(entry)
            try:
                into.messages.append(_parse(entry, fields))
            except MalformedMessage as fault:
                into.malformed.append(fault)

    async def _claim(self, free: int) -> Entries:
        entries = Entries()
        for stream in self._streams:
            cursor = b"0-0"
            for _ in range(_MOST_SWEEPS):
                room = free - len(entries.messages)
                if room <= 0:
                    return entries
                known = self._held.copy()
                answer = await self._command(
                    *("XAUTOCLAIM", stream, GROUP, self._owner, int(self._claim_idle * 1000), cursor, "COUNT", room)
                )
                self._take_items(stream, cast("list[_Item]", answer[1]), free, known, into=entries)
                cursor = cast("bytes", answer[0])
                if cursor == b"0-0":
                    break
        # Rotated, so that no stream is always the last one.
        self._streams = self._streams[1:] + self._streams[:1]
        return entries

    async def _acknowledge(self, entries: Sequence[Entry]) -> None:
        by_stream: defaultdict[str, list[bytes]] = defaultdict(list)
        for stream, message_id in entries:
            by_stream[stream].append(message_id)
        async with self._redis.pipeline(transaction=False) as pipeline:
            for stream, message_ids in by_stream.items():
                pipeline.execute_command("XACK", stream, GROUP, *message_ids)
                pipeline.execute_command("XDEL", stream, *message_ids)
            await pipeline.execute()
        self._held.difference_update(entries)

    async def _leave(self) -> None:
        for stream in self._streams:
            pending = await self._redis.xpending_range(stream, GROUP, "-", "+", 1, self._owner)
            # Deleting a consumer forgets what it has pending: only an empty one may go.
            if not pending:
                await self._command("XGROUP", "DELCONSUMER", stream, GROUP, self._owner)


def _parse(entry: Entry, fields: dict[bytes, bytes]) -> Message:
    """Check every field here: whatever does not fit the contract's types would break the whole call that carries it.

    Raises:
        MalformedMessage: It is no dispatch message.
    """
    try:
        return Message(
            entry=entry,
            task_id=_text(fields, b"task_id", least=1),
            attempt=_attempt(fields.get(b"attempt", b"")),
            trace=_text(fields, b"trace", least=0),
        )
    except ValueError as fault:
        raise MalformedMessage(entry, str(fault)) from None


def _text(fields: dict[bytes, bytes], name: bytes, *, least: int) -> str:
    value = fields.get(name, b"")
    if not least <= len(value) <= _MOST_TEXT:
        message = f"{name.decode()} has {len(value)} bytes; it must have {least} to {_MOST_TEXT}"
        raise ValueError(message)
    try:
        return value.decode()
    except UnicodeDecodeError as fault:
        message = f"{name.decode()} is not UTF-8: {fault.reason}"
        raise ValueError(message) from None


def _attempt(value: bytes) -> int:
    # isdigit: int() would take signs, spaces and underscores too.
    if value.isdigit() and len(value) <= _MOST_DIGITS and 1 <= (attempt := int(value)) <= _MOST_ATTEMPT:
        return attempt
    message = f"attempt is {value[: _MOST_DIGITS + 1]!r}; it must be a whole number from 1 to {_MOST_ATTEMPT}"
    raise ValueError(message)
