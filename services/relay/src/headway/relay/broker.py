"""Redis Streams: publishing dispatches, and what the broker knows about itself.

The only room that knows Redis. It publishes what it is given and measures; it never reads the database, and trusts
nothing it remembers once the broker may have been replaced (`forget`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from hiredis import pack_command
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from headway.relay.messages import DISPATCH_FIELDS
from headway.runtime.queues import GROUP, stream_of

if TYPE_CHECKING:
    from redis.asyncio.client import Pipeline
    from redis.asyncio.connection import AbstractConnection

__all__ = ["BROKER_DOWN", "BROKER_FAULTS", "Broker", "BrokerReadOnlyError", "Identity", "connect_broker"]

BROKER_FAULTS = (RedisError, OSError)
"""What a call that did not get through raises; a time-out is an OSError too."""

BROKER_DOWN = (RedisConnectionError, RedisTimeoutError, BusyLoadingError)
"""Those of them that say that the broker is not there, or not yet."""

CALL_DEADLINE = 5.0  # seconds for a whole exchange, connecting included
AT_ONCE = 500  # messages that are appended in one step: nobody else is served meanwhile

# All keys with these braces live in one slot of a Redis Cluster.
EPOCH_KEY = "headway:{broker}:epoch"
SWEEPER_KEY = "headway:{broker}:sweeper"
SWEEP_TURN_KEY = "headway:{broker}:sweep_turn"
QUEUES_KEY = "headway:{broker}:queues"

# Only the process's id of all that INFO tells. It may be forbidden.
_IDENTITY = """
local info = redis.pcall('INFO', 'server')
return {redis.call('GET', KEYS[1]), type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''}
"""

# Sets the marker only while the sweeper's claim, made before the sweep, is still there: a broker that lost everything
# a second time meanwhile has lost the claim too, and is swept again. The claim is left to lapse: another relay that saw
# no marker a moment before cannot claim the sweep anew.
_SET_EPOCH = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return 1
"""

# Appends entries; a script for many costs the client one answer instead of one each.
_ENTRY = ", ".join(f"'{name}', ARGV[first + {place}]" for place, name in enumerate(DISPATCH_FIELDS))
_PUBLISH = f"""
for first = 1, #ARGV, {len(DISPATCH_FIELDS)} do redis.call('XADD', KEYS[1], '*', {_ENTRY}) end
"""

# Looks and deletes in one step, so that a consumer is never deleted together with a message it has just been given.
_PRUNE = """
local pruned = 0
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
  if consumer['pending'] == 0 and consumer['idle'] >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
    pruned = pruned + 1
  end
end
return pruned
"""

Answer = TypeVar("Answer")
Command: TypeAlias = tuple[str | int, ...]


class BrokerReadOnlyError(RedisError):
    """The server has become a replica: its connections were dropped, so that the next ones find the new primary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells one life of the broker from the next.

    Attributes:
        epoch: The marker; None: the broker is new, or has lost everything.
        process: The server process's own id, new at each of its starts; empty where it is hidden.
    """

    epoch: str | None
    process: str


class Broker:
    """The dispatch streams of one Redis.

    Args:
        redis: A client that answers text and does not retry by itself.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.answered: Callable[[], object] = lambda: None
        """Called with each answer."""
        self._grouped: set[str] = set()
        self._published_to: set[str] = set()
        self._publish_sha = redis.register_script(_PUBLISH).sha

    def forget(self) -> None:
        """Distrust what was set up before: streams and groups are made anew when next needed."""
        self._grouped.clear()

    async def publish(self, messages: Mapping[str, Sequence[tuple[str, ...]]]) -> dict[str, Exception]:
        """Append messages to their queues' streams in one exchange.

        Args:
            messages: By `namespace/queue`, the values of entries, in the order of DISPATCH_FIELDS.

        Returns:
            The queues that the broker refused, and why; some of their messages may have been published.

        Raises:
            RedisError, OSError, TimeoutError: The exchange failed; any of the messages may have been published.
        """
        self._published_to.update(messages)
        new = [name for name in messages if name not in self._grouped]
        commands: list[Command] = []
        for name in new:
            commands.append(("XGROUP", "CREATE", stream_of(name), GROUP, "0", "MKSTREAM"))
            commands.append(("SADD", QUEUES_KEY, name))
        appending = [
            (name, (1, stream_of(name), *chain.from_iterable(entries[start : start + AT_ONCE])))
            for name, entries in messages.items()
            for start in range(0, len(entries), AT_ONCE)
        ]
        commands += [("EVALSHA", self._publish_sha, *arguments) for _, arguments in appending]
        answers = await self._exchange(commands)
        created, appended = answers[: 2 * len(new)], answers[2 * len(new) :]
        if any(isinstance(answer, NoScriptError) for answer in appended):
            appended = await self._exchange([("EVAL", _PUBLISH, *arguments) for _, arguments in appending])
        self._grouped.update(
            name for place, name in enumerate(new) if not _failed(created[2 * place], besides="BUSYGROUP")
        )
        return {
            name: answer for (name, _), answer in zip(appending, appended, strict=True) if isinstance(answer, Exception)
        }

    async def ensure_groups(self) -> None:
        """Make the groups of all known queues: after a loss, workers may find streams without one."""
        names = sorted(self._published_to | await self.queues())
        pipeline = self._redis.pipeline(transaction=False)
        for name in names:
            pipeline.xgroup_create(stream_of(name), GROUP, id="0", mkstream=True)
            pipeline.sadd(QUEUES_KEY, name)
        if names:
            await self._execute(pipeline)

    async def queues(self) -> set[str]:
        """List the queues, as `namespace/queue`, that any relay has published to since the broker was last empty."""
        return cast("set[str]", await self._call(self._redis.smembers(QUEUES_KEY)))

    async def identity(self) -> Identity:
        """Ask the broker who it is."""
        epoch, process = cast("tuple[str | None, str]", await self._call(self._redis.eval(_IDENTITY, 1, EPOCH_KEY)))
        return Identity(epoch=epoch, process=process)

    async def claim_sweep(self, sweeper: str, seconds: float) -> bool:
        """Claim the right to sweep after a loss; it lapses after `seconds`. False: another relay has it."""
        lasts = int(seconds * 1000)
        if await self._call(self._redis.set(SWEEPER_KEY, sweeper, nx=True, px=lasts)):
            return True
        return await self.keep_sweep(sweeper, seconds)

    async def keep_sweep(self, sweeper: str, seconds: float) -> bool:
        """Keep that right for `seconds` more. False: it is gone, and is not made anew: the broker may be another."""
        if await self._call(self._redis.get(SWEEPER_KEY)) != sweeper:
            return False
        return bool(await self._call(self._redis.pexpire(SWEEPER_KEY, int(seconds * 1000))))

    async def set_epoch(self, sweeper: str) -> bool:
        """Set the marker after a sweep; False: the claim to the sweep is gone, so nothing is proved."""
        return bool(await self._call(self._redis.eval(_SET_EPOCH, 2, EPOCH_KEY, SWEEPER_KEY, sweeper)))

    async def take_sweep_turn(self, seconds: float) -> bool:
        """Take this interval's turn at asking for lost dispatches, so that several relays do not all ask."""
        return bool(await self._call(self._redis.set(SWEEP_TURN_KEY, "", nx=True, px=max(1, int(seconds * 1000)))))

    async def undelivered_ages(self, names: Sequence[str]) -> dict[str, float]:
        """Measure how long ago each queue's oldest undelivered entry was published.

        Returns:
            Seconds by the broker's clock, 0 when all is delivered; a queue that cannot be measured is left out.
        """
        pipeline = self._redis.pipeline(transaction=False)
        for name in names:
            pipeline.xinfo_groups(stream_of(name))
        delivered = {
            name: _delivered(groups) for name, groups in zip(names, await self._execute(pipeline), strict=True)
        }
        pipeline = self._redis.pipeline(transaction=False)
        measured = [name for name in names if delivered[name] is not None]
        for name in measured:
            pipeline.xrange(stream_of(name), min=f"({delivered[name]}", count=1)
        pipeline.time()
        *heads, clock = await self._execute(pipeline)
        now_ms = _clock_ms(clock)
        ages = {name: _age(head, now_ms) for name, head in zip(measured, heads, strict=True)}
        return {name: age for name, age in ages.items() if age is not None}

    async def prune_consumers(self, names: Iterable[str], idle_seconds: float) -> int:
        """Delete consumers that are idle that long and hold no message; answers how many."""
        pruned = 0
        for name in names:
            try:
                script = self._redis.eval(_PRUNE, 1, stream_of(name), GROUP, str(int(idle_seconds * 1000)))
                pruned += int(cast("int", await self._call(script)))
            except ResponseError:
                continue  # no such stream or group, or the key is something else: nothing to prune
        return pruned

    async def close(self) -> None:
        """Close the connections."""
        async with asyncio.timeout(CALL_DEADLINE):
            await self._redis.aclose()

    async def _call(self, call: "Awaitable[Answer] | Answer") -> Answer:
        async with _deadline():
            answer = await cast("Awaitable[Answer]", call)
        self.answered()
        return answer

    async def _execute(self, pipeline: "Pipeline") -> list[object]:
        """Run a pipeline; a command that was refused is answered by its error, and harms no other."""
        async with _deadline():
            answers = cast("list[object]", await pipeline.execute(raise_on_error=False))
        return await self._checked(answers)

    async def _exchange(self, commands: Sequence[Command]) -> list[object]:
        """As `_execute`, for many long commands: packed by the C library, and read without a time-out for each."""
        packed = b"".join(pack_command(cast("tuple[str]", command)) for command in commands)
        pool = self._redis.connection_pool
        async with _deadline():
            connection = await pool.get_connection()
            try:
                await connection.send_packed_command(packed, check_health=False)
                answers = [await _answer(connection) for _ in commands]
            except BaseException:
                await connection.disconnect(nowait=True)  # what it still answers is nobody's
                raise
            finally:
                await pool.release(connection)
        return await self._checked(answers)

    async def _checked(self, answers: list[object]) -> list[object]:
        self.answered()
        if any(isinstance(answer, ResponseError) and "READONLY" in str(answer) for answer in answers):
            await self._redis.connection_pool.disconnect()
            raise BrokerReadOnlyError("the broker is a replica now")
        return answers


@asynccontextmanager
async def _deadline() -> AsyncGenerator[None]:
    """Bounds an exchange; raises redis's own time-out, which nobody takes for the database's."""
    try:
        async with asyncio.timeout(CALL_DEADLINE):
            yield
    except TimeoutError:
        raise RedisTimeoutError(f"no answer within {CALL_DEADLINE:g} seconds") from None


async def _answer(connection: "AbstractConnection") -> object:
    try:
        return cast("object", await connection.read_response())
    except ResponseError as error:
        return error


def connect_broker(redis_url: str) -> Redis:
    """Make a client; it connects when first used. Retrying is the caller's: what is retried here, nobody sees.

    Args:
        redis_url: `redis://…`.
    """
    return Redis.from_url(
        redis_url,
        decode_responses=True,
        socket_timeout=None,  # the whole exchange has a deadline
        socket_connect_timeout=CALL_DEADLINE,
        retry=Retry(NoBackoff(), 0),
        client_name="headway-relay",
    )


def _failed(answer: object, *, besides: str) -> bool:
    return isinstance(answer, Exception) and besides not in str(answer)


def _delivered(groups: object) -> str | None:
    """Find the last entry that was delivered to the workers; None: cannot be known."""
    if isinstance(groups, Exception):
        return "0-0" if "no such key" in str(groups) else None
    for group in cast("list[dict[str, object]]", groups):
        if group["name"] == GROUP:
            return str(group["last-delivered-id"])
    return "0-0"


def _age(head: object, now_ms: int) -> float | None:
    if isinstance(head, Exception):
        return None
    entries = cast("list[tuple[str, object]]", head)
    if not entries:
        return 0.0
    published_ms = int(entries[0][0].split("-")[0])
    return max(0.001, (now_ms - published_ms) / 1000)


def _clock_ms(clock: object) -> int:
    if isinstance(clock, Exception):
        raise clock
    seconds, microseconds = cast("tuple[int, int]", clock)
    return seconds * 1000 + microseconds // 1000
