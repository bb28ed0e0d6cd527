import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headway.api.tasks.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_PENDING: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_SUCCEEDED: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]
    RUN_STATE_CANCELLED: _ClassVar[RunState]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_PENDING: _ClassVar[TaskState]
    TASK_STATE_READY: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_WAITING: _ClassVar[TaskState]
    TASK_STATE_RETRYING: _ClassVar[TaskState]
    TASK_STATE_SUCCEEDED: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
    TASK_STATE_CANCELLED: _ClassVar[TaskState]

class ReasonKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_KIND_UNSPECIFIED: _ClassVar[ReasonKind]
    REASON_KIND_QUEUED: _ClassVar[ReasonKind]
    REASON_KIND_NO_WORKER: _ClassVar[ReasonKind]
    REASON_KIND_LEASED: _ClassVar[ReasonKind]
    REASON_KIND_LEASE_EXPIRED: _ClassVar[ReasonKind]
    REASON_KIND_TIMER: _ClassVar[ReasonKind]
    REASON_KIND_SIGNAL: _ClassVar[ReasonKind]
    REASON_KIND_BRANCHES: _ClassVar[ReasonKind]
    REASON_KIND_RETRY: _ClassVar[ReasonKind]
    REASON_KIND_STOPPING: _ClassVar[ReasonKind]
    REASON_KIND_FAILED: _ClassVar[ReasonKind]
    REASON_KIND_PAUSED: _ClassVar[ReasonKind]
    REASON_KIND_CLOSED: _ClassVar[ReasonKind]
    REASON_KIND_ITEMS: _ClassVar[ReasonKind]
    REASON_KIND_CHILD: _ClassVar[ReasonKind]
    REASON_KIND_UNPUBLISHED: _ClassVar[ReasonKind]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_PENDING: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_SUCCEEDED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_CANCELLED: RunState
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_PENDING: TaskState
TASK_STATE_READY: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_WAITING: TaskState
TASK_STATE_RETRYING: TaskState
TASK_STATE_SUCCEEDED: TaskState
TASK_STATE_FAILED: TaskState
TASK_STATE_CANCELLED: TaskState
REASON_KIND_UNSPECIFIED: ReasonKind
REASON_KIND_QUEUED: ReasonKind
REASON_KIND_NO_WORKER: ReasonKind
REASON_KIND_LEASED: ReasonKind
REASON_KIND_LEASE_EXPIRED: ReasonKind
REASON_KIND_TIMER: ReasonKind
REASON_KIND_SIGNAL: ReasonKind
REASON_KIND_BRANCHES: ReasonKind
REASON_KIND_RETRY: ReasonKind
REASON_KIND_STOPPING: ReasonKind
REASON_KIND_FAILED: ReasonKind
REASON_KIND_PAUSED: ReasonKind
REASON_KIND_CLOSED: ReasonKind
REASON_KIND_ITEMS: ReasonKind
REASON_KIND_CHILD: ReasonKind
REASON_KIND_UNPUBLISHED: ReasonKind

class Run(_message.Message):
    __slots__ = ("run_id", "namespace", "workflow", "version", "state", "epoch", "cancelling", "created_at", "finished_at", "error", "output", "last_seq", "key", "input", "paused_at", "pause_reason", "clock_paused", "cancel_reason", "compensating", "labels", "parent", "concluded", "trace_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CANCELLING_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PAUSED_AT_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    CLOCK_PAUSED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    COMPENSATING_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CONCLUDED_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    namespace: str
    workflow: str
    version: int
    state: RunState
    epoch: int
    cancelling: bool
    created_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    error: RunError
    output: bytes
    last_seq: int
    key: str
    input: bytes
    paused_at: _timestamp_pb2.Timestamp
    pause_reason: str
    clock_paused: bool
    cancel_reason: str
    compensating: bool
    labels: _containers.ScalarMap[str, str]
    parent: Parent
    concluded: RunState
    trace_id: str
    def __init__(self, run_id: _Optional[str] = ..., namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ..., state: _Optional[_Union[RunState, str]] = ..., epoch: _Optional[int] = ..., cancelling: _Optional[bool] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[RunError, _Mapping]] = ..., output: _Optional[bytes] = ..., last_seq: _Optional[int] = ..., key: _Optional[str] = ..., input: _Optional[bytes] = ..., paused_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pause_reason: _Optional[str] = ..., clock_paused: _Optional[bool] = ..., cancel_reason: _Optional[str] = ..., compensating: _Optional[bool] = ..., labels: _Optional[_Mapping[str, str]] = ..., parent: _Optional[_Union[Parent, _Mapping]] = ..., concluded: _Optional[_Union[RunState, str]] = ..., trace_id: _Optional[str] = ...) -> None: ...

class RunError(_message.Message):
    __slots__ = ("failure_class", "message", "paths")
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    failure_class: str
    message: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, failure_class: _Optional[str] = ..., message: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "path", "type", "state", "attempt", "tries", "losses", "generation", "queue", "handler", "owner", "lease_expires_at", "created_at", "started_at", "finished_at", "error", "cause", "due_at", "attempts", "output", "disposition", "waits_for", "progress", "undoes", "items", "child_run_id", "ready_at", "leased_at", "output_left_out")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    UNDOES_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CHILD_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    LEASED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    path: str
    type: str
    state: TaskState
    attempt: int
    tries: int
    losses: int
    generation: int
    queue: str
    handler: str
    owner: str
    lease_expires_at: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    started_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    error: TaskError
    cause: str
    due_at: _timestamp_pb2.Timestamp
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    output: bytes
    disposition: str
    waits_for: str
    progress: Progress
    undoes: str
    items: ItemCounts
    child_run_id: str
    ready_at: _timestamp_pb2.Timestamp
    leased_at: _timestamp_pb2.Timestamp
    output_left_out: int
    def __init__(self, task_id: _Optional[str] = ..., path: _Optional[str] = ..., type: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempt: _Optional[int] = ..., tries: _Optional[int] = ..., losses: _Optional[int] = ..., generation: _Optional[int] = ..., queue: _Optional[str] = ..., handler: _Optional[str] = ..., owner: _Optional[str] = ..., lease_expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ..., cause: _Optional[str] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., output: _Optional[bytes] = ..., disposition: _Optional[str] = ..., waits_for: _Optional[str] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., undoes: _Optional[str] = ..., items: _Optional[_Union[ItemCounts, _Mapping]] = ..., child_run_id: _Optional[str] = ..., ready_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leased_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., output_left_out: _Optional[int] = ...) -> None: ...

class Parent(_message.Message):
    __slots__ = ("run_id", "path", "detached")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    path: str
    detached: bool
    def __init__(self, run_id: _Optional[str] = ..., path: _Optional[str] = ..., detached: _Optional[bool] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("percent", "message", "at")
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    percent: float
    message: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, percent: _Optional[float] = ..., message: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ItemCounts(_message.Message):
    __slots__ = ("total", "running", "succeeded", "failed", "cancelled", "undone", "left_out")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    total: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    undone: int
    left_out: int
    def __init__(self, total: _Optional[int] = ..., running: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., undone: _Optional[int] = ..., left_out: _Optional[int] = ...) -> None: ...

class TaskError(_message.Message):
    __slots__ = ("failure_class", "type", "message", "trace", "details", "left_out")
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    failure_class: str
    type: str
    message: str
    trace: str
    details: bytes
    left_out: bool
    def __init__(self, failure_class: _Optional[str] = ..., type: _Optional[str] = ..., message: _Optional[str] = ..., trace: _Optional[str] = ..., details: _Optional[bytes] = ..., left_out: _Optional[bool] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt", "owner", "leased_at", "ended_at", "outcome", "error")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    owner: str
    leased_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    outcome: str
    error: TaskError
    def __init__(self, attempt: _Optional[int] = ..., owner: _Optional[str] = ..., leased_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., outcome: _Optional[str] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ...) -> None: ...

class StaleReport(_message.Message):
    __slots__ = ("path", "attempt", "owner", "answer", "at")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    path: str
    attempt: int
    owner: str
    answer: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, path: _Optional[str] = ..., attempt: _Optional[int] = ..., owner: _Optional[str] = ..., answer: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "type", "at", "path", "attempt", "event", "actions", "format")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    type: str
    at: _timestamp_pb2.Timestamp
    path: str
    attempt: int
    event: bytes
    actions: bytes
    format: int
    def __init__(self, seq: _Optional[int] = ..., type: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., path: _Optional[str] = ..., attempt: _Optional[int] = ..., event: _Optional[bytes] = ..., actions: _Optional[bytes] = ..., format: _Optional[int] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("namespace", "workflow", "input", "key", "request_id", "version", "traceparent", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    input: bytes
    key: str
    request_id: str
    version: int
    traceparent: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., input: _Optional[bytes] = ..., key: _Optional[str] = ..., request_id: _Optional[str] = ..., version: _Optional[int] = ..., traceparent: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StartResponse(_message.Message):
    __slots__ = ("run_id", "existed", "version")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    existed: bool
    version: int
    def __init__(self, run_id: _Optional[str] = ..., existed: _Optional[bool] = ..., version: _Optional[int] = ...) -> None: ...

class StartManyRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[StartRequest]
    def __init__(self, items: _Optional[_Iterable[_Union[StartRequest, _Mapping]]] = ...) -> None: ...

class StartManyResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[StartResult]
    def __init__(self, results: _Optional[_Iterable[_Union[StartResult, _Mapping]]] = ...) -> None: ...

class StartResult(_message.Message):
    __slots__ = ("started", "refusal")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    started: StartResponse
    refusal: _tasks_pb2.Refusal
    def __init__(self, started: _Optional[_Union[StartResponse, _Mapping]] = ..., refusal: _Optional[_Union[_tasks_pb2.Refusal, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "scope", "path")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    scope: str
    path: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., scope: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("run", "tasks", "stale_reports", "more_stale_reports")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    STALE_REPORTS_FIELD_NUMBER: _ClassVar[int]
    MORE_STALE_REPORTS_FIELD_NUMBER: _ClassVar[int]
    run: Run
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    stale_reports: _containers.RepeatedCompositeFieldContainer[StaleReport]
    more_stale_reports: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., stale_reports: _Optional[_Iterable[_Union[StaleReport, _Mapping]]] = ..., more_stale_reports: _Optional[bool] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("namespace", "run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("run", "message", "reasons", "left_out")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    run: Run
    message: str
    reasons: _containers.RepeatedCompositeFieldContainer[Reason]
    left_out: int
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., message: _Optional[str] = ..., reasons: _Optional[_Iterable[_Union[Reason, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class Reason(_message.Message):
    __slots__ = ("path", "kind", "message", "since", "until", "queue", "handler", "owner", "attempt", "signal", "branches", "workers", "worker_seen_at", "error", "child_run_id")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    WORKER_SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHILD_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: ReasonKind
    message: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    queue: str
    handler: str
    owner: str
    attempt: int
    signal: str
    branches: _containers.RepeatedCompositeFieldContainer[OpenEdge]
    workers: int
    worker_seen_at: _timestamp_pb2.Timestamp
    error: TaskError
    child_run_id: str
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[_Union[ReasonKind, str]] = ..., message: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., queue: _Optional[str] = ..., handler: _Optional[str] = ..., owner: _Optional[str] = ..., attempt: _Optional[int] = ..., signal: _Optional[str] = ..., branches: _Optional[_Iterable[_Union[OpenEdge, _Mapping]]] = ..., workers: _Optional[int] = ..., worker_seen_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ..., child_run_id: _Optional[str] = ...) -> None: ...

class OpenEdge(_message.Message):
    __slots__ = ("from_node", "on")
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    from_node: str
    on: str
    def __init__(self, from_node: _Optional[str] = ..., on: _Optional[str] = ...) -> None: ...

class ListItemsRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "path", "state", "from_index", "page_size")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    path: str
    state: RunState
    from_index: int
    page_size: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., path: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., from_index: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class ListItemsResponse(_message.Message):
    __slots__ = ("items", "next_index")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Item]
    next_index: int
    def __init__(self, items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., next_index: _Optional[int] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("path", "index", "state", "error", "created_at", "finished_at", "output", "undone", "place", "output_left_out")
    PATH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    path: str
    index: int
    state: RunState
    error: RunError
    created_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    output: bytes
    undone: bool
    place: int
    output_left_out: int
    def __init__(self, path: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[_Union[RunState, str]] = ..., error: _Optional[_Union[RunError, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., output: _Optional[bytes] = ..., undone: _Optional[bool] = ..., place: _Optional[int] = ..., output_left_out: _Optional[int] = ...) -> None: ...

class RunFilter(_message.Message):
    __slots__ = ("workflow", "version", "states", "failure_class", "created_from", "created_until", "finished_from", "finished_until", "key", "key_prefix", "labels", "run_id_prefix", "parent_run_id", "paused")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FROM_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FROM_FIELD_NUMBER: _ClassVar[int]
    FINISHED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    workflow: str
    version: int
    states: _containers.RepeatedScalarFieldContainer[RunState]
    failure_class: str
    created_from: _timestamp_pb2.Timestamp
    created_until: _timestamp_pb2.Timestamp
    finished_from: _timestamp_pb2.Timestamp
    finished_until: _timestamp_pb2.Timestamp
    key: str
    key_prefix: str
    labels: _containers.ScalarMap[str, str]
    run_id_prefix: str
    parent_run_id: str
    paused: bool
    def __init__(self, workflow: _Optional[str] = ..., version: _Optional[int] = ..., states: _Optional[_Iterable[_Union[RunState, str]]] = ..., failure_class: _Optional[str] = ..., created_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., key: _Optional[str] = ..., key_prefix: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., run_id_prefix: _Optional[str] = ..., parent_run_id: _Optional[str] = ..., paused: _Optional[bool] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("namespace", "filter", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    filter: RunFilter
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., filter: _Optional[_Union[RunFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetHistoryRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "from_seq", "page_size")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    from_seq: int
    page_size: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class GetHistoryResponse(_message.Message):
    __slots__ = ("events", "next_seq")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    next_seq: int
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., next_seq: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "from_seq")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    from_seq: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., from_seq: _Optional[int] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("event", "state")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    event: Event
    state: RunState
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ..., state: _Optional[_Union[RunState, str]] = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "name", "payload", "request_id", "id", "ttl", "key", "workflow")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    name: str
    payload: bytes
    request_id: str
    id: str
    ttl: _duration_pb2.Duration
    key: str
    workflow: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., key: _Optional[str] = ..., workflow: _Optional[str] = ...) -> None: ...

class SignalResponse(_message.Message):
    __slots__ = ("seq", "run_id", "is_repeat", "differs")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    IS_REPEAT_FIELD_NUMBER: _ClassVar[int]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    run_id: str
    is_repeat: bool
    differs: bool
    def __init__(self, seq: _Optional[int] = ..., run_id: _Optional[str] = ..., is_repeat: _Optional[bool] = ..., differs: _Optional[bool] = ...) -> None: ...

class SignalWithStartRequest(_message.Message):
    __slots__ = ("start", "name", "payload", "id", "ttl")
    START_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    start: StartRequest
    name: str
    payload: bytes
    id: str
    ttl: _duration_pb2.Duration
    def __init__(self, start: _Optional[_Union[StartRequest, _Mapping]] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., id: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SignalWithStartResponse(_message.Message):
    __slots__ = ("run", "seq", "is_repeat", "differs")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    IS_REPEAT_FIELD_NUMBER: _ClassVar[int]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    run: StartResponse
    seq: int
    is_repeat: bool
    differs: bool
    def __init__(self, run: _Optional[_Union[StartResponse, _Mapping]] = ..., seq: _Optional[int] = ..., is_repeat: _Optional[bool] = ..., differs: _Optional[bool] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("namespace", "run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class BulkRequest(_message.Message):
    __slots__ = ("namespace", "filter", "cancel", "retry", "delete", "pause", "resume", "skip", "dry_run", "page_size", "page_token", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    filter: RunFilter
    cancel: BulkCancel
    retry: BulkRetry
    delete: BulkDelete
    pause: BulkPause
    resume: BulkResume
    skip: BulkSkip
    dry_run: bool
    page_size: int
    page_token: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., filter: _Optional[_Union[RunFilter, _Mapping]] = ..., cancel: _Optional[_Union[BulkCancel, _Mapping]] = ..., retry: _Optional[_Union[BulkRetry, _Mapping]] = ..., delete: _Optional[_Union[BulkDelete, _Mapping]] = ..., pause: _Optional[_Union[BulkPause, _Mapping]] = ..., resume: _Optional[_Union[BulkResume, _Mapping]] = ..., skip: _Optional[_Union[BulkSkip, _Mapping]] = ..., dry_run: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class BulkCancel(_message.Message):
    __slots__ = ("reason", "grace", "no_compensation")
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    NO_COMPENSATION_FIELD_NUMBER: _ClassVar[int]
    reason: str
    grace: _duration_pb2.Duration
    no_compensation: bool
    def __init__(self, reason: _Optional[str] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., no_compensation: _Optional[bool] = ...) -> None: ...

class BulkRetry(_message.Message):
    __slots__ = ("from_nodes", "render_inputs")
    FROM_NODES_FIELD_NUMBER: _ClassVar[int]
    RENDER_INPUTS_FIELD_NUMBER: _ClassVar[int]
    from_nodes: _containers.RepeatedScalarFieldContainer[str]
    render_inputs: bool
    def __init__(self, from_nodes: _Optional[_Iterable[str]] = ..., render_inputs: _Optional[bool] = ...) -> None: ...

class BulkDelete(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BulkPause(_message.Message):
    __slots__ = ("reason", "pause_clock")
    REASON_FIELD_NUMBER: _ClassVar[int]
    PAUSE_CLOCK_FIELD_NUMBER: _ClassVar[int]
    reason: str
    pause_clock: bool
    def __init__(self, reason: _Optional[str] = ..., pause_clock: _Optional[bool] = ...) -> None: ...

class BulkResume(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BulkSkip(_message.Message):
    __slots__ = ("node", "output", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    output: bytes
    reason: str
    def __init__(self, node: _Optional[str] = ..., output: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class BulkResponse(_message.Message):
    __slots__ = ("results", "next_page_token")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[BulkResult]
    next_page_token: str
    def __init__(self, results: _Optional[_Iterable[_Union[BulkResult, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class BulkResult(_message.Message):
    __slots__ = ("run_id", "refusal")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    refusal: _tasks_pb2.Refusal
    def __init__(self, run_id: _Optional[str] = ..., refusal: _Optional[_Union[_tasks_pb2.Refusal, _Mapping]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "reason", "grace", "request_id", "no_compensation")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NO_COMPENSATION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    reason: str
    grace: _duration_pb2.Duration
    request_id: str
    no_compensation: bool
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., no_compensation: _Optional[bool] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: RunState
    def __init__(self, state: _Optional[_Union[RunState, str]] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "reason", "pause_clock", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PAUSE_CLOCK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    reason: str
    pause_clock: bool
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., pause_clock: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseResponse(_message.Message):
    __slots__ = ("was_paused",)
    WAS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    was_paused: bool
    def __init__(self, was_paused: _Optional[bool] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ("was_resumed",)
    WAS_RESUMED_FIELD_NUMBER: _ClassVar[int]
    was_resumed: bool
    def __init__(self, was_resumed: _Optional[bool] = ...) -> None: ...

class SkipRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "node", "output", "reason", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    node: str
    output: bytes
    reason: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., node: _Optional[str] = ..., output: _Optional[bytes] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SkipResponse(_message.Message):
    __slots__ = ("reopened", "epoch")
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    reopened: bool
    epoch: int
    def __init__(self, reopened: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class RetryRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "from_nodes", "dry_run", "render_inputs", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_NODES_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    RENDER_INPUTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    from_nodes: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    render_inputs: bool
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., from_nodes: _Optional[_Iterable[str]] = ..., dry_run: _Optional[bool] = ..., render_inputs: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class RetryResponse(_message.Message):
    __slots__ = ("chosen", "reset", "kept", "epoch", "children", "runs_finally", "undone", "standing", "items", "new_children")
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    RUNS_FINALLY_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEW_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    chosen: _containers.RepeatedScalarFieldContainer[str]
    reset: _containers.RepeatedScalarFieldContainer[str]
    kept: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    children: _containers.RepeatedCompositeFieldContainer[ReopenedChild]
    runs_finally: bool
    undone: _containers.RepeatedCompositeFieldContainer[UndoneNode]
    standing: _containers.RepeatedCompositeFieldContainer[StandingEffect]
    items: _containers.RepeatedCompositeFieldContainer[RetriedItems]
    new_children: _containers.RepeatedCompositeFieldContainer[NewChild]
    def __init__(self, chosen: _Optional[_Iterable[str]] = ..., reset: _Optional[_Iterable[str]] = ..., kept: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ..., children: _Optional[_Iterable[_Union[ReopenedChild, _Mapping]]] = ..., runs_finally: _Optional[bool] = ..., undone: _Optional[_Iterable[_Union[UndoneNode, _Mapping]]] = ..., standing: _Optional[_Iterable[_Union[StandingEffect, _Mapping]]] = ..., items: _Optional[_Iterable[_Union[RetriedItems, _Mapping]]] = ..., new_children: _Optional[_Iterable[_Union[NewChild, _Mapping]]] = ...) -> None: ...

class UndoneNode(_message.Message):
    __slots__ = ("path", "by", "state")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    path: str
    by: str
    state: TaskState
    def __init__(self, path: _Optional[str] = ..., by: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ...) -> None: ...

class StandingEffect(_message.Message):
    __slots__ = ("path", "count")
    PATH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    path: str
    count: int
    def __init__(self, path: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class RetriedItems(_message.Message):
    __slots__ = ("path", "anew", "total", "failed", "stopped", "undone", "chosen", "unbegun", "kept", "paths")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ANEW_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    UNBEGUN_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    path: str
    anew: bool
    total: int
    failed: int
    stopped: int
    undone: int
    chosen: int
    unbegun: int
    kept: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., anew: _Optional[bool] = ..., total: _Optional[int] = ..., failed: _Optional[int] = ..., stopped: _Optional[int] = ..., undone: _Optional[int] = ..., chosen: _Optional[int] = ..., unbegun: _Optional[int] = ..., kept: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class NewChild(_message.Message):
    __slots__ = ("path", "workflow")
    PATH_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    path: str
    workflow: str
    def __init__(self, path: _Optional[str] = ..., workflow: _Optional[str] = ...) -> None: ...

class ReopenedChild(_message.Message):
    __slots__ = ("path", "run_id", "workflow", "nodes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    path: str
    run_id: str
    workflow: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., run_id: _Optional[str] = ..., workflow: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...
