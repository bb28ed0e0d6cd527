"""Which measurements are made, in which order, on which stacks."""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from bench.figures import FIGURES, Figure, Measure
from bench.pace import Pace, Samples
from bench.rig import Rig, Setting, open_rig


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stack, and what is measured on it, in this order."""

    on: Setting
    alone: bool
    measures: tuple[Measure, ...]


def stages(figures: Iterable[Figure]) -> list[Stage]:
    """The stacks that some figures need: as few as can be, each measurement once."""
    found: list[Stage] = []
    ordered = [figure for figure in FIGURES if figure in figures]
    for (on, alone), group in groupby(ordered, lambda figure: (figure.on, figure.alone)):
        measures = tuple(dict.fromkeys(figure.measure for figure in group))
        found.extend(
            [Stage(on=on, alone=alone, measures=(measure,)) for measure in measures]
            if alone
            else [Stage(on=on, alone=alone, measures=measures)]
        )
    return found


async def measure(chosen: Sequence[Stage], pace: Pace) -> tuple[Samples, dict[str, str]]:
    """Take all samples, the repeats of different measurements in turn; answers them and the database's settings."""
    samples: Samples = {}
    server: dict[str, str] = {}
    for repeat in range(pace.repeats):
        for stage in chosen:
            if stage.alone and repeat:
                continue
            async with open_rig(stage.on) as rig:
                server = await rig.server_settings()
                for each in stage.measures:
                    for name, values in (await _told(each, rig, pace, repeat)).items():
                        samples.setdefault(name, []).extend(values)
    return samples, server


async def _told(each: Measure, rig: Rig, pace: Pace, repeat: int) -> Samples:
    began = time.monotonic()
    found = await each(rig, pace)
    what = ", ".join(f"{name} {value:.5g}" for name, values in found.items() for value in values)
    print(f"[{repeat + 1}/{pace.repeats}] {time.monotonic() - began:.0f} s: {what}", file=sys.stderr, flush=True)
    return found
