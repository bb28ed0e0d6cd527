"""The document that is printed: medians and spreads."""

import statistics

from bench.pace import Samples


def figures_of(samples: Samples) -> dict[str, object]:
    """The medians and the spreads by figure; figures with a dot in their names in objects of their own."""
    plain = {name: values for name, values in samples.items() if "." not in name}
    whole: dict[str, object] = {
        "figures": _medians(plain),
        "spread": {name: [_rounded(min(values)), _rounded(max(values))] for name, values in plain.items()},
    }
    for group in sorted({name.partition(".")[0] for name in samples.keys() - plain.keys()}):
        parts = {name.partition(".")[2]: values for name, values in samples.items() if name.startswith(f"{group}.")}
        whole[group] = _medians(parts)
    return whole


def _medians(samples: Samples) -> dict[str, float]:
    return {name: _rounded(statistics.median(values)) for name, values in samples.items()}


def _rounded(value: float) -> float:
    return round(value, 3)
