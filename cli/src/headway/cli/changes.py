"""What differs between two versions of a workflow, in sentences. Pure."""

from collections.abc import Iterator

from headway.client import Changes, Effect, OpenRuns

MAX_LINES = 40


def effect_lines(effect: Effect, version: int) -> list[str]:
    """What making a version the deployed one means: a line each, without the version's own name.

    The first deploy of a workflow, and one that changes nothing, mean nothing that is worth a line.
    """
    if effect.previous_version in (None, version):
        return []
    lines = list(_change_lines(effect.changes)) or ["nothing differs but spelling"]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more changes (--json has all)"]
    return [
        f"against version {effect.previous_version}:",
        *(f"  {line}" for line in lines),
        _affected(effect.open_runs),
    ]


def open_on(open_runs: OpenRuns, version: int) -> str:
    """How many open runs a version has, as a cell."""
    count = open_runs.by_version.get(version, 0)
    return str(count) if open_runs.counted_all else f"{count} or more"


def _change_lines(changes: Changes) -> Iterator[str]:
    yield from (f"+ node {node}" for node in changes.nodes_added)
    yield from (f"- node {node}" for node in changes.nodes_removed)
    yield from (f"~ node {node}: {', '.join(keys)}" for node, keys in changes.nodes_altered.items())
    yield from (f"+ edge {edge}" for edge in changes.edges_added)
    yield from (f"- edge {edge}" for edge in changes.edges_removed)
    if changes.input_schema:
        yield f"~ input_schema: {', '.join(changes.input_schema)}"
    yield from (f"~ {setting}" for setting in changes.settings)


def _affected(open_runs: OpenRuns) -> str:
    counts = [f"{count} on version {version}" for version, count in sorted(open_runs.by_version.items())]
    at_least = "" if open_runs.counted_all else " or more of each"
    if not counts:
        return "no run is open"
    return f"open runs stay on their versions: {', '.join(counts)}{at_least}"
