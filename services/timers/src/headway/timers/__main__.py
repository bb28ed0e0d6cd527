"""The timers service as a process: `python -m headway.timers`. The one place where its parts meet the real world."""

import asyncio
import random
import sys
import time
from contextlib import AsyncExitStack

from headway.runtime.channels import open_channel
from headway.runtime.process import run_service
from headway.runtime.serving import serve
from headway.timers.coordinator import Coordinator
from headway.timers.service import Surroundings, Timers
from headway.timers.settings import TimersSettings
from headway.timers.store import close_pool, connect_pool


async def timers(settings: TimersSettings, drain: asyncio.Event) -> None:
    """Look and tell until told to drain.

    Args:
        settings: From the environment.
        drain: Set when it is time to end.
    """
    async with AsyncExitStack() as stack:
        pool = await connect_pool(settings.database_url)
        stack.push_async_callback(close_pool, pool)
        channel = open_channel(settings.coordinator)
        stack.push_async_callback(channel.close)
        if settings.listen:
            await stack.enter_async_context(serve(settings.listen))
        around = Surroundings(
            pool=pool,
            coordinator=Coordinator(channel),
            chance=random.Random(),  # noqa: S311 - spreads tries; guards nothing
            clock=time.monotonic,
        )
        await Timers(settings, around).run(drain)


def main() -> int:
    """Run the process; answers its exit code."""
    return run_service("timers", TimersSettings, timers)


if __name__ == "__main__":
    sys.exit(main())
