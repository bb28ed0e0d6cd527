"""Redis Streams: publishing dispatches, and what the broker knows about itself.

The only room that knows Redis. It publishes what it is given and measures; it never reads the database, and trusts
nothing it remembers once the broker may have been replaced (`forget`).
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from headway.runtime.queues import GROUP, stream_of

if TYPE_CHECKING:
    from redis.asyncio.client import Pipeline

__all__ = ["BROKER_FAULTS", "Broker", "BrokerReadOnlyError", "Identity", "connect_broker"]

BROKER_FAULTS = (RedisError, OSError)
"""What a call that did not get through raises; a time-out is an OSError too."""

CALL_DEADLINE = 10.0  # seconds for a whole exchange
_SOCKET_DEADLINE = 5.0  # seconds for a connect, or for one answer

# All keys with these braces live in one slot of a Redis Cluster.
EPOCH_KEY = "headway:{broker}:epoch"
SWEEPER_KEY = "headway:{broker}:sweeper"
SWEEP_TURN_KEY = "headway:{broker}:sweep_turn"
QUEUES_KEY = "headway:{broker}:queues"

# Sets the marker only while the sweeper's claim, made before the sweep, is still there: a broker that lost everything
# a second time meanwhile has lost the claim too, and is swept again. The claim is left to lapse: another relay that saw
# no marker a moment before cannot claim the sweep anew.
_SET_EPOCH = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return 1
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
        self._grouped: set[str] = set()
        self._published_to: set[str] = set()

    def forget(self) -> None:
        """Distrust what was set up before: streams and groups are made anew when next needed."""
        self._grouped.clear()

    async def publish(self, messages: Sequence[tuple[str, Mapping[str, str]]]) -> list[Exception | None]:
        """Append messages to their queues' streams in one exchange.

        Args:
            messages: `namespace/queue` and the entry's fields.

        Returns:
            Per message what the broker refused it with, or None.

        Raises:
            RedisError, OSError, TimeoutError: The exchange failed; any of the messages may have been published.
        """
        self._published_to.update(name for name, _ in messages)
        new = list(dict.fromkeys(name for name, _ in messages if name not in self._grouped))
        pipeline = self._redis.pipeline(transaction=False)
        for name in new:
            pipeline.xgroup_create(stream_of(name), GROUP, id="0", mkstream=True)
            pipeline.sadd(QUEUES_KEY, name)
        for name, fields in messages:
            pipeline.xadd(stream_of(name), cast("dict[Any, Any]", fields))
        answers = await self._execute(pipeline)
        created, published = answers[: 2 * len(new)], answers[2 * len(new) :]
        self._grouped.update(
            name for place, name in enumerate(new) if not _failed(created[2 * place], besides="BUSYGROUP")
        )
        return [answer if isinstance(answer, Exception) else None for answer in published]

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
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.get(EPOCH_KEY)
        pipeline.info("server")
        epoch, server = await self._execute(pipeline)
        if isinstance(epoch, Exception):
            raise epoch
        process = cast("dict[str, object]", server).get("run_id", "") if isinstance(server, dict) else ""
        return Identity(epoch=cast("str | None", epoch), process=str(process))

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
        async with asyncio.timeout(CALL_DEADLINE):
            return await cast("Awaitable[Answer]", call)

    async def _execute(self, pipeline: "Pipeline") -> list[object]:
        """Run a pipeline; a command that was refused is answered by its error, and harms no other."""
        async with asyncio.timeout(CALL_DEADLINE):
            answers = cast("list[object]", await pipeline.execute(raise_on_error=False))
        if any(isinstance(answer, ReadOnlyError) for answer in answers):
            await self._redis.connection_pool.disconnect()
            raise BrokerReadOnlyError("the broker is a replica now")
        return answers


def connect_broker(redis_url: str) -> Redis:
    """Make a client; it connects when first used. Retrying is the caller's: what is retried here, nobody sees.

    Args:
        redis_url: `redis://…`.
    """
    return Redis.from_url(
        redis_url,
        decode_responses=True,
        socket_timeout=_SOCKET_DEADLINE,
        socket_connect_timeout=_SOCKET_DEADLINE,
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
