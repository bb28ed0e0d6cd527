"""Commands that run servers: dev, worker, db upgrade."""

import argparse
import asyncio
import os
import shlex
import signal
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from rich.text import Text

from headway.cli.arguments import at_least_one, duration, folder, port
from headway.cli.command import Afterwards, Command, Exit, Mistake, Session
from headway.cli.output import visible
from headway.cli.stack import (
    FolderTaken,
    FolderUnusable,
    MigrationFailed,
    PortTaken,
    ServerMissing,
    Shape,
    Stack,
    StackFault,
    migrate,
)

SERVICES = ("headway.coordinator", "headway.relay", "headway.timers")
LINE_STYLES = {"coordinator": "cyan", "relay": "green", "timers": "blue", "worker": "magenta"}
DRAIN_TIMEOUT = timedelta(seconds=25)  # of the services, unless HEADWAY_DRAIN_TIMEOUT says otherwise
CLOSING = timedelta(seconds=5)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev(Command):
    """Start everything on this machine, each service its own process, and stop it all with Ctrl-C.

    PostgreSQL and Redis are embedded, with their data in the data folder, unless HEADWAY_DATABASE_URL or
    HEADWAY_REDIS_URL name real ones. A service that dies is started again. After Ctrl-C handlers that run have
    HEADWAY_DRAIN_TIMEOUT (25s) to end; a second Ctrl-C kills everything at once.
    """

    name: ClassVar = ("dev",)
    help: ClassVar = "start everything on this machine"
    talks_to_coordinator: ClassVar = False

    port: int
    data: str
    coordinators: int
    modules: list[str]
    fresh: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add what is started, and where."""
        parser.add_argument("--port", type=port, default=7710, help="of the first coordinator (7710); 0: any free one")
        parser.add_argument(
            "--data", type=folder, metavar="FOLDER", default=".headway", help="for data and logs (.headway)"
        )
        parser.add_argument(
            "--coordinators", type=at_least_one, default=1, metavar="N", help="how many, on successive ports (1)"
        )
        parser.add_argument(
            "--worker",
            dest="modules",
            action="append",
            default=[],
            metavar="MODULE",
            help="a module with handlers for the worker to serve (several: repeat it)",
        )
        parser.add_argument("--fresh", action="store_true", help="begin without the data of earlier starts")

    async def run(self, session: Session) -> Exit:
        """Start, tell, wait for a signal, stop."""
        missing = [each for each in SERVICES if find_spec(each) is None]
        if missing:
            raise Mistake(f"{', '.join(missing)} cannot be imported; install headway[dev]")
        asked_to_stop = _stop_signals()
        stack = self._stack(session)
        session.output.say("starting …", style="dim")
        try:
            starting = asyncio.create_task(stack.start())
            stopping = asyncio.create_task(asked_to_stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
                return Exit.SUCCESS
            await starting
            self._tell(session, stack)
            await stopping
        except (FolderTaken, FolderUnusable, PortTaken, ServerMissing, MigrationFailed, StackFault) as error:
            raise Mistake(str(error)) from None
        finally:
            await _stop(session, stack, asked_to_stop)
        return Exit.SUCCESS

    def _stack(self, session: Session) -> Stack:
        environment = {"HEADWAY_LOG_FORMAT": os.environ.get("HEADWAY_LOG_FORMAT", "text"), "PYTHONPATH": _python_path()}
        shape = Shape(
            port=self.port,
            coordinators=self.coordinators,
            modules=tuple(self.modules),
            environment=environment,
        )

        def on_line(name: str, line: str) -> None:
            text = Text(f"{name:<13} ", style=LINE_STYLES.get(name.rpartition("-")[0], ""))
            text.append(visible(line), style="default")
            session.output.say(text)

        return Stack(
            Path(self.data),
            shape,
            fresh=self.fresh,
            restart=True,
            on_line=on_line,
            say=lambda text: session.output.say(text, style="yellow"),
        )

    def _tell(self, session: Session, stack: Stack) -> None:
        output = session.output
        if not output.for_people:
            output.document(
                {
                    "address": stack.address,
                    "addresses": stack.addresses,
                    "pids": stack.pids,
                    "database_url": stack.database_url,
                    "redis_url": stack.redis_url,
                    "data": str(Path(self.data).resolve()),
                }
            )
            return
        output.say()
        output.say("Headway is up", style="bold green")
        output.say(f"  coordinator  {stack.address}   (gRPC; HEADWAY_COORDINATOR)")
        output.say(f"  database     {stack.database_url}")
        output.say(f"  broker       {stack.redis_url}")
        output.say(f"  worker       built-in http and python{''.join(f', module {each}' for each in self.modules)}")
        output.say(f"  data, logs   {Path(self.data).resolve()}")
        elsewhere = f" --address {stack.address.split(',')[0]}" if self.port != 7710 else ""  # noqa: PLR2004 - the default
        output.say("try next, in another terminal", style="bold")
        output.say(f"  headway deploy FILE.yaml{elsewhere}")
        output.say(f"  headway start WORKFLOW --input '{{}}' --wait{elsewhere}")
        output.say(f"  headway list{elsewhere}")
        output.say("for a worker of your own", style="bold")
        output.say(f"  export HEADWAY_REDIS_URL={shlex.quote(stack.redis_url)}")
        output.say(f"  headway worker MODULE{elsewhere}")
        output.say("stop with Ctrl-C", style="dim")
        output.say()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Command):
    """Run a worker: import modules and serve the handlers that they register, until SIGTERM or Ctrl-C.

    Other settings come from the environment (HEADWAY_WORKER_…); docs/settings.md lists them.
    """

    name: ClassVar = ("worker",)
    help: ClassVar = "run a worker"

    modules: list[str]
    queues: list[str]
    concurrency: int | None
    builtins: list[str]
    allow_python: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add what is served."""
        parser.add_argument(
            "modules", metavar="MODULE", nargs="*", help="one with handlers: shop.handlers, or shop.handlers:registry"
        )
        parser.add_argument(
            "--queue",
            dest="queues",
            action="append",
            default=[],
            metavar="QUEUE",
            help="read this queue (several: repeat it)",
        )
        parser.add_argument("--concurrency", type=at_least_one, metavar="N", help="how many handlers run at a time")
        parser.add_argument(
            "--builtin",
            dest="builtins",
            action="append",
            default=[],
            choices=("http", "python"),
            help="serve this built-in node type too (both: repeat it)",
        )
        parser.add_argument(
            "--allow-python",
            action="store_true",
            help="let `python` nodes run: whoever may deploy workflows may then run code on this machine",
        )

    async def run(self, session: Session) -> Afterwards:
        """Leave the event loop to the worker, which serves until it is told to stop."""

        def work() -> int:
            from headway.worker import run_worker  # noqa: PLC0415 - no other command waits for its libraries

            os.environ["HEADWAY_COORDINATOR"] = session.address
            code = run_worker(
                self.modules,
                queues=self.queues,
                concurrency=self.concurrency,
                namespace=session.namespace,
                builtins=self.builtins,
                allow_python=self.allow_python,
            )
            if not session.output.for_people:
                session.output.document({"exit_code": code})
            return code

        return work


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade(Command):
    """Bring the schema of the database that HEADWAY_DATABASE_URL names up to date. Safe to repeat."""

    name: ClassVar = ("db", "upgrade")
    help: ClassVar = "bring the database's schema up to date"
    talks_to_coordinator: ClassVar = False

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Nothing: the environment says which database."""

    async def run(self, session: Session) -> Exit:
        """Let the coordinator migrate."""
        if find_spec("headway.coordinator") is None:
            raise Mistake("headway.coordinator cannot be imported; install headway[dev]")
        if not os.environ.get("HEADWAY_DATABASE_URL"):
            raise Mistake("HEADWAY_DATABASE_URL is not set; write it as postgresql://user:password@host:port/name")
        try:
            migrated = await migrate(os.environ)
        except MigrationFailed as error:
            raise Mistake(str(error)) from None
        if session.output.for_people:
            session.output.say(migrated.said or "the database is up to date")
        else:
            session.output.document({"upgraded": True, "said": migrated.said.splitlines()})
        return Exit.SUCCESS


def _stop_signals() -> asyncio.Event:
    """An event that the first signal sets; the next one kills this process and, with it, all that it started."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if event.is_set():
            os._exit(128 + number)
        event.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    return event


async def _stop(session: Session, stack: Stack, asked_to_stop: asyncio.Event) -> None:
    if asked_to_stop.is_set():
        session.output.say("stopping … (again to kill)", style="dim")
    await stack.stop(patience=_patience())
    if asked_to_stop.is_set():
        session.output.say("stopped; nothing is left running", style="dim")


def _patience() -> float:
    """Seconds from SIGTERM to SIGKILL: what a process has to drain by its settings, and to close besides."""
    try:
        drain = duration(os.environ["HEADWAY_DRAIN_TIMEOUT"])
    except (KeyError, argparse.ArgumentTypeError):  # one that is no duration ends the services at their start
        drain = DRAIN_TIMEOUT
    return (drain + CLOSING).total_seconds()


def _python_path() -> str:
    """The path of modules, with this folder first: `--worker MODULE` means one that lies here."""
    return os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))
