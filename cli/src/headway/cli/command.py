"""What a command is: a frozen dataclass whose fields are its arguments, and which can be run."""

import argparse
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import IntEnum
from typing import ClassVar, Self, TypeAlias

from headway.cli.arguments import duration
from headway.cli.output import Output
from headway.client import Client, Patience

DEFAULT_ADDRESS = "127.0.0.1:7710"
DEFAULT_NAMESPACE = "default"

# A person waits for the answer: what is not there is said soon, though a coordinator that died may be back meanwhile.
# A watch has been answered once, and may take its time.
DEFAULT_PATIENCE = timedelta(seconds=1)
SHORT_PATIENCE = Patience(give_up_after=timedelta(seconds=5), longest_pause=timedelta(milliseconds=500))
LONG_PATIENCE = Patience(give_up_after=timedelta(minutes=2))


class Exit(IntEnum):
    """How a command ends."""

    SUCCESS = 0
    FAILED = 1  # the run failed or was cancelled; the file has faults
    REFUSED = 2  # usage, refused, or nobody there


Afterwards: TypeAlias = Callable[[], int]
"""What a command does after its event loop has ended, because it runs one of its own; gives the exit code."""


class Mistake(Exception):
    """What was asked cannot be done; its text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What every command is run with."""

    output: Output
    address: str
    namespace: str
    patience: timedelta

    def client(self, *, patience: Patience | None = None) -> Client:
        """A client for the coordinator that the person means.

        Raises:
            Mistake: The address is not one.
        """
        patience = patience or replace(SHORT_PATIENCE, give_up_unreached_after=self.patience)
        try:
            return Client(self.address, namespace=self.namespace, patience=patience)
        except ValueError as error:
            raise Mistake(str(error)) from None


class Command:
    """One command. Subclasses are frozen dataclasses; their fields are named like the arguments they add."""

    name: ClassVar[tuple[str, ...]]
    """The words that call it, such as ("db", "upgrade")."""

    help: ClassVar[str]
    """One line; the class docstring tells the rest."""

    talks_to_coordinator: ClassVar[bool] = True
    """True: it takes --address and --namespace."""

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments."""

    @classmethod
    def parsed(cls, values: Mapping[str, object]) -> Self:
        """The command with its arguments as parsed."""
        names = [each.name for each in fields(cls)]  # pyright: ignore[reportArgumentType] - all subclasses are dataclasses
        return cls(**{name: values[name] for name in names})

    @abstractmethod
    async def run(self, session: Session) -> "Exit | Afterwards":
        """Do it; or say what to do once the event loop has ended."""
        raise NotImplementedError


def add_common_arguments(
    parser: argparse.ArgumentParser, *, talks_to_coordinator: bool, has_defaults: bool = True
) -> None:
    """Add what all commands take.

    Args:
        parser: of a command, or of all.
        talks_to_coordinator: False: it takes no address and what goes with one.
        has_defaults: False: what is not given stays as it was said before the command.
    """
    group = parser.add_argument_group("common options, before the command or behind it")

    def default(value: object) -> object:
        return value if has_defaults else argparse.SUPPRESS

    group.add_argument(
        "--json",
        dest="as_json",
        action="store_true",
        default=default(value=False),
        help="print one JSON document on standard output, nothing else",
    )
    if talks_to_coordinator:
        group.add_argument(
            "--address",
            metavar="HOST:PORT[,…]",
            default=default(os.environ.get("HEADWAY_COORDINATOR") or DEFAULT_ADDRESS),
            help=f"the coordinator (HEADWAY_COORDINATOR; else {DEFAULT_ADDRESS})",
        )
        group.add_argument(
            "--patience",
            type=duration,
            default=default(DEFAULT_PATIENCE),
            metavar="DURATION",
            help="how long to go on trying while no coordinator answers (1s)",
        )
        group.add_argument(
            "--namespace",
            default=default(os.environ.get("HEADWAY_NAMESPACE") or DEFAULT_NAMESPACE),
            help=f"the tenant (HEADWAY_NAMESPACE; else {DEFAULT_NAMESPACE})",
        )
