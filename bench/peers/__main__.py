"""`make bench-peers`, or `python -m bench.peers`: the same ten steps here and on others, in turn; prints ratios."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench import machine
from bench.checking import WrongResult, innermost
from bench.document import figures_of
from bench.measure import latency, throughput
from bench.pace import INTERRUPTED, PEAK_IN_FLIGHT, Pace, Samples, amount
from bench.peers import installing
from bench.peers.installing import Missing
from bench.peers.on_postgres import dbos, pgbench
from bench.peers.on_restate import restate
from bench.peers.programs import Measured
from bench.rig import ONE, TWO, open_rig
from headway.cli.arguments import at_least_one

SECONDS, ROUNDS = 10.0, 2


class Trial(Protocol):
    """A peer that is up."""

    async def measure(self, in_flight: int, seconds: float) -> Measured:
        """Keep so many runs in flight for so long."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Somebody to compare with.

    Attributes:
        version: What is installed.
        find: Installs it where it is not yet; answers where. Raises Missing.
        open: Starts it afresh.
        loads: Runs in flight, or clients; it counts at its best.
    """

    version: str
    find: Callable[[], Path]
    open: Callable[[Path], AbstractAsyncContextManager[Trial]]
    loads: tuple[int, ...]


PEERS: Mapping[str, Peer] = {
    "restate": Peer(
        version=", ".join(installing.RESTATE),
        find=installing.restate_folder,
        open=restate,
        loads=(1, 20, PEAK_IN_FLIGHT, 2000),
    ),
    "pgbench": Peer(version="of the embedded PostgreSQL", find=installing.pgbench, open=pgbench, loads=(10, 32, 100)),
    "dbos": Peer(version=installing.DBOS, find=installing.dbos_python, open=dbos, loads=(20, PEAK_IN_FLIGHT)),
}


async def compare(places: Mapping[str, Path], pace: Pace) -> Samples:
    """Ours and theirs in turn, each started afresh; answers ratios by round, and what they come from."""
    samples: Samples = {}
    for _ in range(pace.repeats):
        ours = await _ours(pace)
        _add(samples, "ours", ours)
        best = max(ours["tasks_per_s"], ours["tasks_per_s_two"])
        for name, place in places.items():
            theirs = await _theirs(PEERS[name], place, pace)
            _add(samples, name, theirs)
            peak = max(value for key, value in theirs.items() if key.startswith("tasks_per_s"))
            samples.setdefault(f"ratio_{name}", []).append(best / peak)
            if "hop_ms_p50" in theirs:
                samples.setdefault(f"ratio_{name}_hop", []).append(ours["hop_ms_p50"] / theirs["hop_ms_p50"])
    return samples


async def _ours(pace: Pace) -> dict[str, float]:
    async with open_rig(ONE) as rig:
        one = await throughput.one_coordinator(rig, pace)
        hop = await latency.hop(rig, pace)
    async with open_rig(TWO) as rig:
        two = await throughput.two_coordinators(rig, pace)
    return {name: (one | hop | two)[name][0] for name in ("tasks_per_s", "tasks_per_s_two", "hop_ms_p50")}


async def _theirs(peer: Peer, place: Path, pace: Pace) -> dict[str, float]:
    found: dict[str, float] = {}
    async with peer.open(place) as trial:
        for load in peer.loads:
            measured = await trial.measure(load, pace.seconds)
            found[f"tasks_per_s_at_{load}"] = measured.tasks_per_s
            if measured.hop_ms_p50 is not None:
                found["hop_ms_p50"] = measured.hop_ms_p50
    return found


def _add(samples: Samples, group: str, values: Mapping[str, float]) -> None:
    for name, value in values.items():
        samples.setdefault(f"{group}.{name}", []).append(value)
    print(f"{group}: {', '.join(f'{name} {value:.5g}' for name, value in values.items())}", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Compare and print. Answers the exit code: 1 when a run was lost or wrong, ours or theirs."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", default=",".join(PEERS), metavar="NAME,…", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--seconds", type=amount, default=SECONDS, help=f"length of each stretch (default {SECONDS:g})")
    parser.add_argument(
        "--rounds", type=at_least_one, default=ROUNDS, help=f"how often all take their turn (default {ROUNDS})"
    )
    parser.add_argument(
        "--in-flight", type=at_least_one, default=PEAK_IN_FLIGHT, help="runs in flight for our throughput"
    )
    arguments = parser.parse_args(words)
    machine.require_proc()
    places: dict[str, Path] = {}
    missing: dict[str, str] = {}
    names = arguments.only.split(",")
    if unknown := set(names) - set(PEERS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for name in names:
        try:
            places[name] = PEERS[name].find()
        except Missing as reason:
            missing[name] = str(reason)
    pace = Pace(seconds=arguments.seconds, repeats=arguments.rounds, in_flight=arguments.in_flight)
    try:
        samples = asyncio.run(compare(places, pace))
    except (WrongResult, BaseExceptionGroup) as error:
        fault = innermost(error)
        if not isinstance(fault, WrongResult):
            raise
        print(f"bench: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    facts = {
        "missing": missing,
        "machine": machine.facts(),
        "versions": machine.versions() | {name: PEERS[name].version for name in places},
        "settings": {"rounds": pace.repeats, "seconds": pace.seconds, "in_flight": pace.in_flight},
    }
    print(json.dumps(figures_of(samples) | facts, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
