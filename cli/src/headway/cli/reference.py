"""docs/cli.md, made from the grammar itself: `python -m headway.cli.reference` prints it.

Written from the parser's actions and not from its help text, which differs between versions of Python and with the
width of the terminal.
"""

import argparse
import inspect
from collections.abc import Iterator

from headway.cli.command import Command, add_common_arguments
from headway.cli.commands import COMMANDS
from headway.cli.parser import DESCRIPTION, EPILOG

HEAD = f"""\
# The command line

{DESCRIPTION}

This page is generated from the code: `make docs`.

```text
{EPILOG}
```

Every command takes `--json`: standard output then carries exactly one JSON document and nothing else. A command that is
refused prints `{{"error": {{"reason": …, "message": …}}}}` and exits with 2. `@FILE` as a value means
the content of that file, and `@-` standard input.

Common options stand before the command or behind it: `headway --patience 10s list` is `headway list --patience 10s`.

| common option | meaning |
| --- | --- |
"""


def page() -> str:
    """The whole page."""
    common = argparse.ArgumentParser(add_help=False)
    add_common_arguments(common, talks_to_coordinator=True)
    parts = [HEAD + "".join(_rows(common)), *(_section(command) for command in COMMANDS)]
    return "\n".join(parts)


def _section(command: type[Command]) -> str:
    parser = argparse.ArgumentParser(add_help=False)
    command.add_arguments(parser)
    name = " ".join(command.name)
    usage = " ".join(["headway", name, *(_usage(action) for action in _actions(parser))])
    rows = "".join(_rows(parser))
    table = f"\n| argument | meaning |\n| --- | --- |\n{rows}" if rows else ""
    return f"## headway {name}\n\n```text\n{usage}\n```\n\n{inspect.cleandoc(command.__doc__ or command.help)}\n{table}"


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    actions = parser._actions  # noqa: SLF001 - argparse has no public way to its arguments
    return sorted(actions, key=lambda action: bool(action.option_strings))


def _rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in _actions(parser):
        others = [f"`{flag}`" for flag in action.option_strings[1:]]
        words = ", ".join([f"`{_words(action)}`", *others]).replace("|", "\\|")
        meaning = (action.help or "").replace("|", "\\|")
        yield f"| {words} | {meaning} |\n"


def _usage(action: argparse.Action) -> str:
    words = _words(action)
    if not action.option_strings:
        return {"+": f"{words}…", "*": f"[{words}…]", "?": f"[{words}]"}.get(str(action.nargs), words)
    repeated = "…" if isinstance(action.default, list) else ""
    return f"[{words}]{repeated}"


def _words(action: argparse.Action) -> str:
    value = str(action.metavar or action.dest.upper())
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return value
    flag = action.option_strings[0]
    return flag if action.nargs == 0 else f"{flag} {value}"


if __name__ == "__main__":
    print(page(), end="")
