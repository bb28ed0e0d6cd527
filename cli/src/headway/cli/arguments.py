"""What people type, as values: JSON texts, durations, files. Each refuses what it cannot read in one sentence."""

import argparse
import json
import math
import re
import sys
from datetime import timedelta
from pathlib import Path

from headway.client import Json

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST = timedelta(days=3_650_000)  # below what a message can carry
_GREATEST = (1 << 31) - 1  # what a message can carry
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def json_value(text: str) -> Json:
    """The value of a JSON text, of the file after an `@`, or of standard input for `@-`.

    Raises:
        argparse.ArgumentTypeError: It cannot be read, or is no JSON.
    """
    where = "the text"
    if text.startswith("@"):
        where = "standard input" if text == "@-" else text[1:]
        text = _contents(text[1:])
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{where} is empty; write null, {{}} or another JSON value")
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{where} holds what is no text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{where} is no JSON: {error}") from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{where} holds a number of too many digits; write it as text") from None
    except RecursionError:
        raise argparse.ArgumentTypeError(f"{where} is nested too deeply") from None
    return value


def duration(text: str) -> timedelta:
    """A duration such as `500ms`, `10s`, `1h30m`.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write it like 500ms, 10s or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST.total_seconds():
        raise argparse.ArgumentTypeError(f"{text!r} is too long; {_LONGEST.days}d are the most")
    return timedelta(seconds=seconds)


def at_least_one(text: str) -> int:
    """A whole number from 1 that a message can carry.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    return _whole_number(text, 1)


def at_least_zero(text: str) -> int:
    """A whole number from 0 that a message can carry.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or not least <= float(text) <= _GREATEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from {least} to {_GREATEST}")
    return int(text)


def port(text: str) -> int:
    """A TCP port; 0: any free one.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not text.isdecimal() or float(text) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def folder(text: str) -> str:
    """A folder, which need not be there.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no folder")
    return text


def _contents(path: str) -> str:
    if not path:
        raise argparse.ArgumentTypeError("a lone @ names no file; write @FILE, or @- for standard input")
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        where = "standard input" if path == "-" else path
        raise argparse.ArgumentTypeError(f"cannot read {where}: {reason(error)}") from None


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file could not be read, in few words."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is no text in UTF-8"


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise argparse.ArgumentTypeError(f"{text[:40]} is no number that can be counted with; write it as text")
    return number


def _refuse_constant(name: str) -> Json:
    raise argparse.ArgumentTypeError(f"{name} is no JSON")
