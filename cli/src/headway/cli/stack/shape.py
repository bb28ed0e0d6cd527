"""What a stack consists of: how many of each service, on which ports, in which environment."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headway.cli.ports import HOST, bound
from headway.cli.stack.process import Recipe

# Starting order; stopping goes the other way: workers first, so that their reports find a coordinator.
KINDS = ("coordinator", "relay", "timers", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many of each service, and what the workers serve.

    Attributes:
        port: Where the first coordinator listens; the others take the ports behind it. 0: any free ones.
        modules: Modules with handlers; each worker serves all of them and the built-in `http` and `python` nodes.
        queues: Queues that the workers read; empty: the worker's default.
        concurrency: Handlers at a time in each worker; None: the worker's default.
        environment: For every process, over the environment of this one.
        extra: For some: by kind ("worker") or by name ("worker-2").
    """

    port: int = 7710
    coordinators: int = 1
    relays: int = 1
    timers: int = 1
    workers: int = 1
    modules: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def names(self) -> list[str]:
        """The processes, in starting order."""
        counts = dict(zip(KINDS, (self.coordinators, self.relays, self.timers, self.workers), strict=True))
        return [f"{kind}-{number}" for kind in KINDS for number in range(1, counts[kind] + 1)]


class PortTaken(Exception):
    """A port that was asked for is in use."""

    def __init__(self, port: int) -> None:
        """Name it."""
        super().__init__(f"port {port} on {HOST} is in use; choose another with --port")
        self.port = port


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where each process listens, chosen once: a process that is started again is found where it was."""

    shape: Shape
    listens: Mapping[str, str]
    logs: Path

    @classmethod
    def choose(cls, shape: Shape, logs: Path) -> "Layout":
        """Choose the ports.

        Raises:
            PortTaken: One that was asked for is in use.
        """
        listens: dict[str, str] = {}
        with ExitStack() as held:  # all at once, so that no port is given twice
            for name in shape.names():
                kind, number = name.split("-")
                wanted = shape.port + int(number) - 1 if shape.port and kind == "coordinator" else 0
                listens[name] = f"{HOST}:{_take(wanted, held)}"
        return cls(shape=shape, listens=listens, logs=logs)

    @property
    def coordinators(self) -> str:
        """The coordinators' addresses, with commas between."""
        return ",".join(listen for name, listen in self.listens.items() if kind_of(name) == "coordinator")

    def environment(self, database_url: str, redis_url: str) -> dict[str, str]:
        """What every process of the stack, and every client of it, gets."""
        return {
            **os.environ,
            "HEADWAY_DATABASE_URL": database_url,
            "HEADWAY_REDIS_URL": redis_url,
            "HEADWAY_COORDINATOR": self.coordinators,
            **self.shape.environment,
        }

    def recipe(self, name: str, environment: Mapping[str, str]) -> Recipe:
        """How a process is started."""
        kind, listen = kind_of(name), self.listens[name]
        own = {f"HEADWAY_{kind.upper()}_LISTEN": listen}
        extra = self.shape.extra
        return Recipe(
            name=name,
            argv=("-u", *self._argv(kind)),
            environment={**environment, **own, **extra.get(kind, {}), **extra.get(name, {})},
            health=listen,
            log=self.logs / f"{name}.log",
        )

    def _argv(self, kind: str) -> tuple[str, ...]:
        if kind == "coordinator":
            return ("-m", "headway.coordinator", "serve")
        if kind != "worker":
            return ("-m", f"headway.{kind}")
        queues = [word for queue in self.shape.queues for word in ("--queue", queue)]
        limit = ["--concurrency", str(self.shape.concurrency)] if self.shape.concurrency else []
        builtins = ["--builtin", "http", "--builtin", "python", "--allow-python"]
        return ("-m", "headway.cli", "worker", *builtins, *queues, *limit, "--", *self.shape.modules)


def kind_of(name: str) -> str:
    """The kind of a process: "coordinator" of "coordinator-2"."""
    return name.rpartition("-")[0]


def _take(port: int, held: ExitStack) -> int:
    try:
        listener = held.enter_context(bound(port))
    except OSError:
        raise PortTaken(port) from None
    taken: int = listener.getsockname()[1]
    return taken
