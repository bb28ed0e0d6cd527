"""Runs as a scripted coordinator gives them, and the noon at which commands are given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from headway.api.runs.v1 import runs_pb2

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
STATES = {
    "succeeded": (runs_pb2.RUN_STATE_SUCCEEDED, 0),
    "failed": (runs_pb2.RUN_STATE_FAILED, 1),
    "cancelled": (runs_pb2.RUN_STATE_CANCELLED, 1),
}


def stamp(instant: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(instant)
    return message


def run(state: runs_pb2.RunState, *, error: str = "") -> runs_pb2.Run:
    made = runs_pb2.Run(
        run_id="r1",
        namespace="default",
        workflow="orders",
        version=2,
        state=state,
        epoch=1,
        created_at=stamp(NOON - timedelta(minutes=3, seconds=12)),
        input=b'{"order_id":7}',
        last_seq=1,
    )
    if error:
        made.error.CopyFrom(runs_pb2.RunError(failure_class="exec_failed", message=error, paths=["charge"]))
    if state not in {runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_PENDING}:
        made.finished_at.CopyFrom(stamp(NOON))
    return made


def progress(seq: int, kind: str, state: runs_pb2.RunState, event: bytes = b"{}") -> runs_pb2.WatchResponse:
    return runs_pb2.WatchResponse(
        event=runs_pb2.Event(seq=seq, type=kind, path="charge", event=event, at=stamp(NOON)), state=state
    )
