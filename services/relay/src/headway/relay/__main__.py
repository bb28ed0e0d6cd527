"""The relay as a process: `python -m headway.relay`. The one place where its parts meet the real world."""

import asyncio
import random
import sys
import time
from contextlib import AsyncExitStack

from headway.relay.broker import Broker, connect_broker
from headway.relay.coordinator import Coordinator
from headway.relay.service import SPARE_CONNECTIONS, Relay, Surroundings
from headway.relay.settings import RelaySettings
from headway.relay.store import close_pool, connect_pool
from headway.runtime.channels import open_channel
from headway.runtime.process import run_service
from headway.runtime.serving import serve


async def relay(settings: RelaySettings, drain: asyncio.Event) -> None:
    """Relay until told to drain.

    Args:
        settings: From the environment.
        drain: Set when it is time to end.
    """
    async with AsyncExitStack() as stack:
        pool = await connect_pool(settings.database_url, settings.lanes + SPARE_CONNECTIONS)
        stack.push_async_callback(close_pool, pool)
        broker = Broker(connect_broker(settings.redis_url))
        stack.push_async_callback(broker.close)
        channel = open_channel(settings.coordinator)
        stack.push_async_callback(channel.close)
        if settings.listen:
            await stack.enter_async_context(serve(settings.listen))
        chance = random.Random()  # noqa: S311 - spreads tries and names sweeps; guards nothing
        around = Surroundings(
            pool=pool,
            broker=broker,
            coordinator=Coordinator(channel),
            chance=chance,
            clock=time.monotonic,
            make_sweeper=lambda: f"{chance.getrandbits(128):032x}",
        )
        await Relay(settings, around).run(drain)


def main() -> int:
    """Run the process; answers its exit code."""
    return run_service("relay", RelaySettings, relay)


if __name__ == "__main__":
    sys.exit(main())
