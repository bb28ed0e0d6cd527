"""`make bench`, or `python -m bench [--quick] [--only NAME,…]`: prints one JSON document, which README.md explains."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from bench import machine
from bench.checking import WrongResult, innermost
from bench.document import figures_of
from bench.figures import FIGURES, Figure, table
from bench.pace import INTERRUPTED, PEAK_IN_FLIGHT, Pace, amount
from bench.plan import measure, stages
from bench.workflow import PAD, STEPS
from headway.cli.arguments import at_least_one

SECONDS, QUICK_SECONDS = 10.0, 3.0
REPEATS = 3


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print. Answers the exit code: 1 when a run was lost or wrong."""
    parser = _parser()
    arguments = parser.parse_args(words)
    if arguments.list:
        print(table())
        return 0
    machine.require_proc()
    if not arguments.soak and "soak" in _names(arguments.only):
        parser.error("a soak needs its length: --soak MINUTES")
    chosen = _chosen("soak" if arguments.soak else arguments.only, quick=arguments.quick)
    pace = Pace(
        seconds=arguments.seconds or (QUICK_SECONDS if arguments.quick else SECONDS),
        repeats=arguments.repeats or (1 if arguments.quick else REPEATS),
        in_flight=arguments.in_flight,
        soak_minutes=arguments.soak,
    )
    try:
        samples, server = asyncio.run(measure(stages(chosen), pace))
    except (WrongResult, BaseExceptionGroup) as error:
        fault = innermost(error)
        if not isinstance(fault, WrongResult):
            raise
        print(f"bench: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    settings = {
        "repeats": pace.repeats,
        "seconds": pace.seconds,
        "in_flight": pace.in_flight,
        "steps": STEPS,
        "payload_bytes": len(json.dumps({"n": 0, "pad": PAD}, separators=(",", ":"))),
        "history": "on",
        "tracing": "off",
        "left_out": [figure.name for figure in FIGURES if figure not in chosen],
        "postgresql": server,
    }
    facts = {"machine": machine.facts(), "versions": machine.versions(), "settings": settings}
    print(json.dumps(figures_of(samples) | facts, indent=2))
    return 0


def _chosen(only: str, *, quick: bool) -> list[Figure]:
    """The figures that are wanted: those named, else all, or all that are quick."""
    names = _names(only)
    unknown = set(names) - {figure.name for figure in FIGURES}
    if unknown:
        raise SystemExit(f"bench: there is no {', '.join(sorted(unknown))}; --list shows all figures")
    if names:
        measures = {figure.measure for figure in FIGURES if figure.name in names}
        return [figure for figure in FIGURES if figure.measure in measures]
    return [figure for figure in FIGURES if figure.quick or (not quick and figure.name != "soak")]


def _names(only: str) -> list[str]:
    return [name.strip() for name in only.split(",") if name.strip()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short repeat of what is cheap, under two minutes")
    parser.add_argument("--only", default="", metavar="NAME,…", help="only these figures, and what comes with them")
    parser.add_argument("--seconds", type=amount, help=f"length of each stretch (default {SECONDS:g})")
    parser.add_argument("--repeats", type=at_least_one, help=f"how often everything is measured (default {REPEATS})")
    parser.add_argument(
        "--in-flight", type=at_least_one, default=PEAK_IN_FLIGHT, help="runs in flight for one coordinator's throughput"
    )
    parser.add_argument("--soak", type=amount, default=0.0, metavar="MINUTES", help="nothing but the soak, for so long")
    parser.add_argument("--list", action="store_true", help="list the figures, and measure nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
