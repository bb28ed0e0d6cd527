"""Faults, versions and what differs between them, as messages."""

from typing import Any

from headway.api.definitions.v1 import definitions_pb2 as pb
from headway.coordinator.core.compiler import Changes, Fault
from headway.coordinator.engine.versions import Effect, OpenRuns


def fault(given: Fault) -> pb.Fault:
    """One thing wrong with a definition."""
    return pb.Fault(
        line=given.line,
        column=given.column,
        code=given.code,
        message=given.message,
        remedy=given.remedy,
        warning=given.warning,
    )


def definition(record: Any) -> pb.Definition:
    """A version."""
    return pb.Definition(**dict(record))


def effect(given: Effect) -> pb.Effect:
    """What making a version the deployed one means."""
    return pb.Effect(
        previous_version=given.previous, changes=_changes(given.changes), open_runs=open_runs(given.open_runs)
    )


def open_runs(given: OpenRuns) -> pb.OpenRuns:
    """Who is running."""
    counts = [pb.VersionRuns(version=version, open_runs=runs) for version, runs in given.by_version.items()]
    return pb.OpenRuns(versions=counts, counted_all=given.counted_all)


def _changes(given: Changes) -> pb.Changes:
    return pb.Changes(
        nodes_added=given.nodes_added,
        nodes_removed=given.nodes_removed,
        nodes_altered=[pb.AlteredNode(node=node, keys=keys) for node, keys in given.nodes_altered.items()],
        edges_added=given.edges_added,
        edges_removed=given.edges_removed,
        input_schema=given.input_schema,
        settings=given.settings,
    )
