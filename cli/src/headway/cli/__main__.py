"""The command line's one entry: parse, run, and turn what went wrong into one clear sentence and an exit code."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from headway.cli.command import DEFAULT_ADDRESS, Afterwards, Exit, Mistake
from headway.cli.filters import LISTED, with_whole_id
from headway.cli.output import Output, OutputLost, writing
from headway.cli.parser import parse
from headway.client import DeadlinePassed, Refused, Unreachable

HERE = "start one with `headway dev`, or name another with --address or HEADWAY_COORDINATOR"
THERE = "is it up? --address and HEADWAY_COORDINATOR take several, with commas between, and use those that answer"
REMEDIES: Mapping[str, str] = {
    "RUN_NOT_FOUND": f"{LISTED}.",
    "NODE_NOT_FOUND": "`headway show RUN` lists those that were reached.",
    "NODE_NOT_REACHED": "`headway show RUN` lists those that were.",
    "STORE_UNAVAILABLE": "The coordinator's log says what is wrong with its database.",
}
"""What to do, where a refusal's message leaves that to its caller."""
INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> int:
    """Run the process's own arguments; returns the exit code."""
    sys.stdout = sys.stdout or _nowhere()  # closed by whoever called us
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know fewer characters than we
    try:
        return _run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of(sys.stdout)  # whoever read it has left: `headway list | head`
        return Exit.SUCCESS
    except OutputLost as error:
        _let_go_of(sys.stdout)
        try:
            print(f"headway: what it prints cannot be written: {error}", file=sys.stderr, flush=True)
        except OSError:
            _let_go_of(sys.stderr)
        return Exit.REFUSED


def _run() -> int:
    try:
        result = asyncio.run(run(sys.argv[1:]))
        return result() if callable(result) else result
    finally:
        with writing():
            sys.stdout.flush()  # help is not written before


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _let_go_of(stream: TextIO) -> None:
    """Python must not find out again, when it flushes, that nobody takes what is printed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


async def run(arguments: Sequence[str]) -> int | Afterwards:
    """Run one command; returns its exit code, or what to do once the event loop has ended.

    Args:
        arguments: As typed, without the program's name.

    Raises:
        SystemExit: Help or the version was asked for, and printed.
    """
    output = Output(as_json="--json" in arguments, as_lines="--json-lines" in arguments)
    try:
        command, session = parse(arguments)
        command = await with_whole_id(command, session)
        return await command.run(session)
    except Mistake as error:
        return _fail(output, "USAGE", str(error))
    except Unreachable as error:
        text = f"no coordinator answers at {error.address} ({error.why.rpartition(': ')[2].rstrip(']')})"
        remedy = HERE if error.address == DEFAULT_ADDRESS else THERE
        return _fail(output, "UNREACHABLE", f"{text}; {remedy}", address=error.address)
    except DeadlinePassed as error:
        text = f"{error}; it may have done what was asked: look before you ask again"
        return _fail(output, "DEADLINE_PASSED", text, address=error.address)
    except Refused as error:
        facts = {"code": error.code.name, "metadata": error.metadata}
        return _fail(output, error.reason, error.message, REMEDIES.get(error.reason, ""), **facts)


def _fail(output: Output, reason: str, message: str, remedy: str = "", **facts: object) -> int:
    output.warn(f"headway: {message} {remedy}".rstrip(), style="red")
    if not output.for_people:
        write = output.document if output.as_json else output.line
        write({"error": {"reason": reason, "message": message, **facts}})
    return Exit.REFUSED


if __name__ == "__main__":
    sys.exit(main())
