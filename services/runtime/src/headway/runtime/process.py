"""A service process from start to exit: settings, logs, telemetry, the event loop, signals, the drain.

    def main() -> int:
        return run_service("relay", RelaySettings, serve)

    async def serve(settings: RelaySettings, drain: asyncio.Event) -> None:
        ...  # work until drain is set; finish what was begun; return

SIGTERM and SIGINT set the drain event; a second one ends the process at once. Exit codes: 0 drained, 1 failed or not
drained in time (the reason is logged), 2 the settings are wrong (each fault is on stderr), 128 + signal for the second
signal.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from headway.runtime import logs, telemetry
from headway.runtime.settings import ProcessSettings, SettingsError, load

__all__ = ["run_service"]

SettingsT = TypeVar("SettingsT", bound=ProcessSettings)

_logger = logging.getLogger(__name__)


def run_service(
    service: str,
    settings_type: type[SettingsT],
    main: Callable[[SettingsT, asyncio.Event], Coroutine[Any, Any, None]],
    *,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Runs a service until it returns or is told to drain.

    Args:
        service: Its short name, for logs and traces.
        settings_type: What to load from the environment.
        main: Gets the settings and the drain event. When the event is set it has `drain_timeout` to return; then it is
            cancelled.
        environ: Read instead of the process's environment.

    Returns:
        The exit code, for sys.exit.
    """
    try:
        settings = load(settings_type, environ)
    except SettingsError as error:
        print(f"headway {service}: the settings are wrong\n{error}", file=sys.stderr)  # noqa: T201 - no logs yet
        return 2
    logs.configure(service, level=settings.log_level, log_format=settings.log_format)
    flush = telemetry.configure(service, otlp_endpoint=settings.otlp_endpoint, trace_file=settings.trace_file)
    _calm_garbage_collection()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_supervise(service, settings, main))
    finally:
        flush()


def _calm_garbage_collection() -> None:
    """Looks for cycles less often, and never among what was imported: else a tenth of the time goes into that."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415 - optional

    return uvloop.new_event_loop


async def _supervise(
    service: str, settings: SettingsT, main: Callable[[SettingsT, asyncio.Event], Coroutine[Any, Any, None]]
) -> int:
    drain = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, number, drain)
    _logger.info("%s started", service, extra={"pid": os.getpid()})
    work = asyncio.create_task(main(settings, drain), name=service)
    draining = asyncio.create_task(drain.wait(), name="drain")
    try:
        await asyncio.wait({work, draining}, return_when=asyncio.FIRST_COMPLETED)
        timeout = settings.drain_timeout.total_seconds()
        if drain.is_set():
            _logger.info("%s drains", service, extra={"timeout_seconds": timeout})
            await asyncio.wait({work}, timeout=timeout)
        if not work.done():
            _logger.error("%s did not drain within %g seconds and is stopped", service, timeout)
            work.cancel()
            # A main that swallows its cancellation may not hold the process either.
            await asyncio.wait({work}, timeout=5)
            return 1
        await work
    except Exception:
        _logger.critical("%s failed", service, exc_info=True)
        return 1
    else:
        _logger.info("%s stopped", service)
        return 0
    finally:
        draining.cancel()


def _on_signal(number: int, drain: asyncio.Event) -> None:
    if drain.is_set():
        # Whoever asks twice does not want to wait: not for finally blocks, not for exporters.
        os._exit(128 + number)
    drain.set()
