"""From messages to values and back. Pure; knows protobuf, not gRPC."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headway.api.runs.v1 import runs_pb2
from headway.client import _definition_values as definitions
from headway.client import _values as values

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from headway.api.definitions.v1 import definitions_pb2

_RUN_STATES = {
    runs_pb2.RUN_STATE_PENDING: values.RunState.PENDING,
    runs_pb2.RUN_STATE_RUNNING: values.RunState.RUNNING,
    runs_pb2.RUN_STATE_SUCCEEDED: values.RunState.SUCCEEDED,
    runs_pb2.RUN_STATE_FAILED: values.RunState.FAILED,
    runs_pb2.RUN_STATE_CANCELLED: values.RunState.CANCELLED,
}

_TASK_STATES = {
    runs_pb2.TASK_STATE_PENDING: values.TaskState.PENDING,
    runs_pb2.TASK_STATE_READY: values.TaskState.READY,
    runs_pb2.TASK_STATE_RUNNING: values.TaskState.RUNNING,
    runs_pb2.TASK_STATE_WAITING: values.TaskState.WAITING,
    runs_pb2.TASK_STATE_RETRYING: values.TaskState.RETRYING,
    runs_pb2.TASK_STATE_SUCCEEDED: values.TaskState.SUCCEEDED,
    runs_pb2.TASK_STATE_FAILED: values.TaskState.FAILED,
    runs_pb2.TASK_STATE_CANCELLED: values.TaskState.CANCELLED,
}

_RUN_STATE_MESSAGES = {state: message for message, state in _RUN_STATES.items()}


def to_json(value: values.JsonInput) -> bytes:
    """The JSON text of a value.

    Raises:
        TypeError: The value holds what JSON cannot.
        ValueError: The value holds NaN, an infinity, a circle or half of a surrogate pair.
    """
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(text: bytes) -> values.Json:
    """The value of a JSON text; None for an empty one."""
    if not text:
        return None
    value: values.Json = json.loads(text)
    return value


def instant(message: Timestamp) -> datetime:
    """The instant, in UTC."""
    return message.ToDatetime(tzinfo=UTC)


def run_state(state: runs_pb2.RunState) -> values.RunState:
    """The run's state; one that a newer server has added is UNSPECIFIED."""
    return _RUN_STATES.get(state, values.RunState.UNSPECIFIED)


def task_state(state: runs_pb2.TaskState) -> values.TaskState:
    """The task's state; one that a newer server has added is UNSPECIFIED."""
    return _TASK_STATES.get(state, values.TaskState.UNSPECIFIED)


def run_state_message(state: values.RunState | None) -> runs_pb2.RunState:
    """The state as it goes over the wire; None: unspecified."""
    if state is None:
        return runs_pb2.RUN_STATE_UNSPECIFIED
    return _RUN_STATE_MESSAGES.get(state, runs_pb2.RUN_STATE_UNSPECIFIED)


def started(message: runs_pb2.StartResponse) -> values.Started:
    """The run that a start names."""
    return values.Started(run_id=message.run_id, existed=message.existed, version=message.version)


def run_error(message: runs_pb2.RunError) -> values.RunError:
    """Why the run did not succeed."""
    return values.RunError(failure_class=message.failure_class, message=message.message, paths=tuple(message.paths))


def run(message: runs_pb2.Run) -> values.Run:
    """A run."""
    return values.Run(
        run_id=message.run_id,
        namespace=message.namespace,
        workflow=message.workflow,
        version=message.version,
        state=run_state(message.state),
        epoch=message.epoch,
        cancelling=message.cancelling,
        parent_run_id=message.parent.run_id,
        parent_path=message.parent.path,
        compensating=message.compensating,
        created_at=instant(message.created_at) if message.HasField("created_at") else None,
        finished_at=instant(message.finished_at) if message.HasField("finished_at") else None,
        error=run_error(message.error) if message.HasField("error") else None,
        output=from_json(message.output),
        last_seq=message.last_seq,
        key=message.key or None,
        input=from_json(message.input),
        paused_at=instant(message.paused_at) if message.HasField("paused_at") else None,
        pause_reason=message.pause_reason,
        clock_paused=message.clock_paused,
        cancel_reason=message.cancel_reason,
        labels=dict(sorted(message.labels.items())),
        concluded=run_state(message.concluded) if message.concluded else None,
        trace_id=message.trace_id,
    )


def retry_plan(message: runs_pb2.RetryResponse) -> values.RetryPlan:
    """What a retry redoes."""
    return values.RetryPlan(
        chosen=tuple(message.chosen),
        reset=tuple(message.reset),
        kept=tuple(message.kept),
        epoch=message.epoch,
        children=tuple(
            values.ReopenedChild(path=each.path, run_id=each.run_id, workflow=each.workflow, nodes=tuple(each.nodes))
            for each in message.children
        ),
        runs_finally=message.runs_finally,
        undone=tuple(
            values.UndoneNode(path=each.path, by=each.by, state=task_state(each.state)) for each in message.undone
        ),
        standing=tuple(values.StandingEffect(path=each.path, count=each.count) for each in message.standing),
        items=tuple(
            values.RetriedItems(
                path=each.path,
                anew=each.anew,
                total=each.total,
                failed=each.failed,
                stopped=each.stopped,
                undone=each.undone,
                chosen=each.chosen,
                unbegun=each.unbegun,
                kept=each.kept,
                paths=tuple(each.paths),
            )
            for each in message.items
        ),
        new_children=tuple(values.NewChild(path=each.path, workflow=each.workflow) for each in message.new_children),
    )


def task_error(message: runs_pb2.TaskError) -> values.TaskError:
    """A task's failure."""
    return values.TaskError(
        failure_class=message.failure_class,
        type=message.type,
        message=message.message,
        trace=message.trace,
        details=from_json(message.details),
        left_out=message.left_out,
    )


def attempt(message: runs_pb2.Attempt) -> values.Attempt:
    """An attempt left behind."""
    return values.Attempt(
        attempt=message.attempt,
        owner=message.owner,
        leased_at=instant(message.leased_at) if message.HasField("leased_at") else None,
        ended_at=instant(message.ended_at) if message.HasField("ended_at") else None,
        outcome=message.outcome,
        error=task_error(message.error) if message.HasField("error") else None,
    )


def task(message: runs_pb2.Task) -> values.Task:
    """A task."""
    return values.Task(
        task_id=message.task_id,
        path=message.path,
        type=message.type,
        state=task_state(message.state),
        attempt=message.attempt,
        tries=message.tries,
        losses=message.losses,
        generation=message.generation,
        queue=message.queue,
        handler=message.handler,
        owner=message.owner,
        lease_expires_at=instant(message.lease_expires_at) if message.HasField("lease_expires_at") else None,
        created_at=instant(message.created_at) if message.HasField("created_at") else None,
        started_at=instant(message.started_at) if message.HasField("started_at") else None,
        finished_at=instant(message.finished_at) if message.HasField("finished_at") else None,
        error=task_error(message.error) if message.HasField("error") else None,
        cause=message.cause,
        due_at=instant(message.due_at) if message.HasField("due_at") else None,
        attempts=tuple(attempt(each) for each in message.attempts),
        output=from_json(message.output),
        output_left_out=message.output_left_out,
        disposition=message.disposition,
        waits_for=message.waits_for,
        progress=progress(message.progress) if message.HasField("progress") else None,
        undoes=message.undoes,
        child_run_id=message.child_run_id,
        ready_at=instant(message.ready_at) if message.HasField("ready_at") else None,
        leased_at=instant(message.leased_at) if message.HasField("leased_at") else None,
        items=item_counts(message.items) if message.HasField("items") else None,
    )


def progress(message: runs_pb2.Progress) -> values.TaskProgress:
    """What a handler told of itself."""
    return values.TaskProgress(
        percent=message.percent if message.HasField("percent") else None,
        message=message.message,
        at=instant(message.at) if message.HasField("at") else None,
    )


def item_counts(message: runs_pb2.ItemCounts) -> values.ItemCounts:
    """How far a map or repeat is."""
    return values.ItemCounts(
        total=message.total,
        running=message.running,
        succeeded=message.succeeded,
        failed=message.failed,
        cancelled=message.cancelled,
        undone=message.undone,
        left_out=message.left_out,
    )


def item(message: runs_pb2.Item) -> values.Item:
    """An item of a map, or an iteration of a repeat."""
    return values.Item(
        path=message.path,
        index=message.index,
        place=message.place,
        state=run_state(message.state),
        error=run_error(message.error) if message.HasField("error") else None,
        created_at=instant(message.created_at) if message.HasField("created_at") else None,
        finished_at=instant(message.finished_at) if message.HasField("finished_at") else None,
        output=from_json(message.output),
        undone=message.undone,
        output_left_out=message.output_left_out,
    )


def signalled(message: runs_pb2.SignalResponse) -> values.Signalled:
    """Where a signal is, in a run that was there."""
    return values.Signalled(
        run_id=message.run_id, seq=message.seq, is_repeat=message.is_repeat, differs=message.differs
    )


def run_details(message: runs_pb2.GetResponse) -> values.RunDetails:
    """A run with its tasks."""
    return values.RunDetails(
        run=run(message.run),
        more_stale_reports=message.more_stale_reports,
        tasks=tuple(task(each) for each in message.tasks),
        stale_reports=tuple(
            values.StaleReport(
                path=each.path,
                attempt=each.attempt,
                owner=each.owner,
                answer=each.answer,
                at=instant(each.at) if each.HasField("at") else None,
            )
            for each in message.stale_reports
        ),
    )


def event(message: runs_pb2.Event) -> values.Event:
    """An entry of a history."""
    return values.Event(
        seq=message.seq,
        type=message.type,
        at=instant(message.at) if message.HasField("at") else None,
        path=message.path,
        attempt=message.attempt,
        event=from_json(message.event),
        actions=from_json(message.actions),
        format=message.format,
    )


def fault(message: definitions_pb2.Fault) -> definitions.Fault:
    """A fault of a definition."""
    return definitions.Fault(
        line=message.line,
        column=message.column,
        code=message.code,
        message=message.message,
        remedy=message.remedy,
        warning=message.warning,
    )


def definition(message: definitions_pb2.Definition) -> definitions.Definition:
    """A version of a workflow."""
    return definitions.Definition(
        namespace=message.namespace,
        workflow=message.workflow,
        version=message.version,
        deployed=message.deployed,
        digest=message.digest,
        created_at=instant(message.created_at) if message.HasField("created_at") else None,
        source=message.source,
        plan=from_json(message.plan),
    )


def effect(message: definitions_pb2.Effect) -> definitions.Effect:
    """What making a version the deployed one means."""
    found = message.changes
    return definitions.Effect(
        previous_version=message.previous_version or None,
        changes=definitions.Changes(
            nodes_added=tuple(found.nodes_added),
            nodes_removed=tuple(found.nodes_removed),
            nodes_altered={each.node: tuple(each.keys) for each in found.nodes_altered},
            edges_added=tuple(found.edges_added),
            edges_removed=tuple(found.edges_removed),
            input_schema=tuple(found.input_schema),
            settings=tuple(found.settings),
        ),
        open_runs=open_runs(message.open_runs),
    )


def open_runs(message: definitions_pb2.OpenRuns) -> definitions.OpenRuns:
    """Open runs by version."""
    counts = {each.version: each.open_runs for each in message.versions}
    return definitions.OpenRuns(by_version=counts, counted_all=message.counted_all)
