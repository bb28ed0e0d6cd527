"""The grammar of the command line, made from the commands."""

import argparse
import inspect
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from headway.cli.command import Command, Mistake, Session, add_common_arguments
from headway.cli.commands import COMMANDS
from headway.cli.output import Output

DESCRIPTION = "Headway, a durable workflow engine: whatever dies, every run makes headway."

EPILOG = """\
exit codes:
  0    done; with `start --wait` and `watch`: the run succeeded
  1    `start --wait` and `watch`: the run failed or was cancelled; `check` and `deploy`: a file has faults,
       or with --strict warnings; `test`: a case failed; `delete`: there is no such run; what is done to many runs, or
       would be: some were refused
  2    wrong usage, refused by the coordinator, no coordinator there, or a file that cannot be read or written
  130  broken off with Ctrl-C"""


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong with an exception, so that `--json` can say it in JSON."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take what begins with a minus and a digit as a value: `--grace -1s` is no duration, rather than missing."""
        super().__init__(*args, **options)
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._is_mixing = False

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        """A command's arguments and options in any order: of optional arguments, argparse would take those apart."""
        if self._is_mixing or self._subparsers is not None:
            return super().parse_known_args(*args, **options)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(*args, **options)
        finally:
            self._is_mixing = False

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise Mistake(f"{message}\n{self.format_usage().rstrip()}\n(`{self.prog} --help` tells more)")


def build_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="headway",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"headway {_version()}")
    add_common_arguments(parser, talks_to_coordinator=True)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    groups: dict[str, argparse._SubParsersAction[Parser]] = {}
    for command in COMMANDS:
        *group, word = command.name
        if group and group[0] not in groups:
            outer = commands.add_parser(group[0], help="the database", description="The database.", allow_abbrev=False)
            groups[group[0]] = outer.add_subparsers(title="commands", metavar="COMMAND", required=True)
        add_command(groups[group[0]] if group else commands, word, command)
    return parser


def add_command(commands: "argparse._SubParsersAction[Parser]", word: str, command: type[Command]) -> None:
    """Add one command's parser."""
    parser = commands.add_parser(
        word,
        help=command.help,
        description=inspect.cleandoc(command.__doc__ or command.help),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    add_common_arguments(parser, talks_to_coordinator=command.talks_to_coordinator, has_defaults=False)
    parser.set_defaults(command=command)


def parse(arguments: Sequence[str]) -> tuple[Command, Session]:
    """The command that was typed, and what to run it with.

    Raises:
        Mistake: It is not a command, or its arguments are wrong.
        SystemExit: Help or the version was asked for, and printed.
    """
    values = vars(build_parser().parse_args(arguments))
    command: type[Command] = values["command"]
    as_lines = bool(values.get("as_lines", False))
    if as_lines and values["as_json"]:
        raise Mistake("--json and --json-lines exclude each other")
    for text in (*arguments, values["address"], values["namespace"]):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Mistake(f"{text} is no text in UTF-8") from None
    session = Session(
        output=Output(as_json=values["as_json"], as_lines=as_lines),
        address=values["address"],
        namespace=values["namespace"],
        patience=values["patience"],
    )
    return command.parsed(values), session


def _version() -> str:
    try:
        return version("headway")
    except PackageNotFoundError:
        return "(not installed)"
