"""Many more random runs than the test suite makes, small workflows first: `python -m tests.core.fuzz 10000`."""

from __future__ import annotations

import argparse
import re
import sys
import traceback

from tests.core import scenarios as runs
from tests.core.generated import MOST_NODES, Seeded, show, workflow
from tests.core.simulator import World


def main() -> int:
    """Play runs by seed; on a failure, show the workflow and what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--play", choices=list(runs.SCENARIOS), action="append")
    parser.add_argument("--nodes", type=int, default=0, help="at most so many; 0: small ones first, then larger")
    parser.add_argument("--loops", type=int, default=0, help="maps and repeats at least")
    parser.add_argument("--go-on", action="store_true", help="count failures by their message instead of stopping")
    given = parser.parse_args()
    kinds: dict[str, int] = {}
    for seed in range(given.first, given.first + given.count):
        most = given.nodes or 1 + (seed - given.first) * MOST_NODES // given.count
        for name in given.play or runs.SCENARIOS:
            choices = Seeded(seed)
            graph = workflow(choices, simple=name in runs.SIMPLE, most_nodes=most, loops=given.loops)
            world = World(graph)
            try:
                runs.begin(world)
                runs.SCENARIOS[name](world, choices)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
                if not given.go_on:
                    print(f"seed {seed}, {name}, at most {most} nodes\n{show(graph)}\n")
                    for entry in world.history:
                        print(f"{entry.seq} {entry.event}")
                        for action in entry.given:
                            print(f"      {action}")
                    traceback.print_exc()
                    return 1
                message = re.sub(r"\b[a-h]_[a-z_]+|\d+", "…", f"{error}\n".splitlines()[0])
                kind = f"{name}: {type(error).__name__}: {message[:100]}"
                if kind not in kinds:
                    print(f"--first {seed} --nodes {most} {kind}", flush=True)
                kinds[kind] = kinds.get(kind, 0) + 1
    for kind, count in sorted(kinds.items()):
        print(count, kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
