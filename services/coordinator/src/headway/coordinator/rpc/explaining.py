"""Explain: why a run stands where it stands, as messages."""

from collections.abc import Mapping

from headway.api.runs.v1 import runs_pb2 as pb
from headway.coordinator.core.explaining import Reason, ReasonKind, explain, summary
from headway.coordinator.core.refusals import RunNotFound
from headway.coordinator.engine.engine import Engine
from headway.coordinator.rpc import messages
from headway.coordinator.rpc.requests import namespace_of, run_id_of
from headway.coordinator.store.explaining import read_scene

_KINDS: Mapping[ReasonKind, pb.ReasonKind] = {
    ReasonKind.QUEUED: pb.REASON_KIND_QUEUED,
    ReasonKind.NO_WORKER: pb.REASON_KIND_NO_WORKER,
    ReasonKind.UNPUBLISHED: pb.REASON_KIND_UNPUBLISHED,
    ReasonKind.LEASED: pb.REASON_KIND_LEASED,
    ReasonKind.LEASE_EXPIRED: pb.REASON_KIND_LEASE_EXPIRED,
    ReasonKind.TIMER: pb.REASON_KIND_TIMER,
    ReasonKind.SIGNAL: pb.REASON_KIND_SIGNAL,
    ReasonKind.BRANCHES: pb.REASON_KIND_BRANCHES,
    ReasonKind.RETRY: pb.REASON_KIND_RETRY,
    ReasonKind.STOPPING: pb.REASON_KIND_STOPPING,
    ReasonKind.ITEMS: pb.REASON_KIND_ITEMS,
    ReasonKind.CHILD: pb.REASON_KIND_CHILD,
    ReasonKind.FAILED: pb.REASON_KIND_FAILED,
    ReasonKind.PAUSED: pb.REASON_KIND_PAUSED,
    ReasonKind.CLOSED: pb.REASON_KIND_CLOSED,
}


async def explain_run(request: pb.ExplainRequest, engine: Engine, message_limit: int) -> pb.ExplainResponse:
    """Read a run and say why. Raises RunNotFound."""
    namespace = namespace_of(request.namespace)
    run_id = run_id_of(request.run_id, namespace)
    scene = await read_scene(engine.reads, run_id, namespace, engine.plans.get)
    if scene is None:
        raise RunNotFound(run_id=request.run_id, namespace=namespace)
    room = messages.Room(messages.page_bytes(message_limit))
    return pb.ExplainResponse(
        run=messages.run_of(run_id, scene.run),
        message=summary(scene),
        reasons=[_reason(reason, room) for reason in explain(scene)],
        left_out=scene.left_out,
    )


def _reason(reason: Reason, room: messages.Room) -> pb.Reason:
    return pb.Reason(
        path=reason.path,
        kind=_KINDS[reason.kind],
        message=reason.message,
        since=reason.since,
        until=reason.until,
        queue=reason.queue,
        handler=reason.handler,
        owner=reason.owner,
        attempt=reason.attempt,
        signal=reason.signal,
        branches=[pb.OpenEdge(from_node=edge.source, on=edge.on) for edge in reason.branches],
        workers=reason.readers.workers,
        worker_seen_at=reason.readers.seen_at,
        error=_error(reason, room),
        child_run_id=reason.child,
    )


def _error(reason: Reason, room: messages.Room) -> pb.TaskError | None:
    if reason.error is None or reason.failure_class is None:
        return None
    return messages.task_error(reason.failure_class, reason.error, room)
