import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaseAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_ANSWER_UNSPECIFIED: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_GRANTED: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_HELD: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_STALE_ATTEMPT: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_RUN_CLOSED: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_RUN_PAUSED: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_BUSY: _ClassVar[LeaseAnswer]
    LEASE_ANSWER_REFUSED: _ClassVar[LeaseAnswer]

class RenewAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RENEW_ANSWER_UNSPECIFIED: _ClassVar[RenewAnswer]
    RENEW_ANSWER_RENEWED: _ClassVar[RenewAnswer]
    RENEW_ANSWER_LEASE_LOST: _ClassVar[RenewAnswer]
    RENEW_ANSWER_RUN_CLOSED: _ClassVar[RenewAnswer]
    RENEW_ANSWER_BUSY: _ClassVar[RenewAnswer]
    RENEW_ANSWER_REFUSED: _ClassVar[RenewAnswer]

class FailureClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_CLASS_UNSPECIFIED: _ClassVar[FailureClass]
    FAILURE_CLASS_TIMEOUT: _ClassVar[FailureClass]
    FAILURE_CLASS_EXEC_FAILED: _ClassVar[FailureClass]
    FAILURE_CLASS_VERDICT_FAIL: _ClassVar[FailureClass]

class ReportAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPORT_ANSWER_UNSPECIFIED: _ClassVar[ReportAnswer]
    REPORT_ANSWER_DUPLICATE: _ClassVar[ReportAnswer]
    REPORT_ANSWER_RUN_CLOSED: _ClassVar[ReportAnswer]
    REPORT_ANSWER_STALE_ATTEMPT: _ClassVar[ReportAnswer]
    REPORT_ANSWER_LEASE_LOST: _ClassVar[ReportAnswer]
    REPORT_ANSWER_ACCEPTED: _ClassVar[ReportAnswer]
    REPORT_ANSWER_REFUSED: _ClassVar[ReportAnswer]
LEASE_ANSWER_UNSPECIFIED: LeaseAnswer
LEASE_ANSWER_GRANTED: LeaseAnswer
LEASE_ANSWER_HELD: LeaseAnswer
LEASE_ANSWER_STALE_ATTEMPT: LeaseAnswer
LEASE_ANSWER_RUN_CLOSED: LeaseAnswer
LEASE_ANSWER_RUN_PAUSED: LeaseAnswer
LEASE_ANSWER_BUSY: LeaseAnswer
LEASE_ANSWER_REFUSED: LeaseAnswer
RENEW_ANSWER_UNSPECIFIED: RenewAnswer
RENEW_ANSWER_RENEWED: RenewAnswer
RENEW_ANSWER_LEASE_LOST: RenewAnswer
RENEW_ANSWER_RUN_CLOSED: RenewAnswer
RENEW_ANSWER_BUSY: RenewAnswer
RENEW_ANSWER_REFUSED: RenewAnswer
FAILURE_CLASS_UNSPECIFIED: FailureClass
FAILURE_CLASS_TIMEOUT: FailureClass
FAILURE_CLASS_EXEC_FAILED: FailureClass
FAILURE_CLASS_VERDICT_FAIL: FailureClass
REPORT_ANSWER_UNSPECIFIED: ReportAnswer
REPORT_ANSWER_DUPLICATE: ReportAnswer
REPORT_ANSWER_RUN_CLOSED: ReportAnswer
REPORT_ANSWER_STALE_ATTEMPT: ReportAnswer
REPORT_ANSWER_LEASE_LOST: ReportAnswer
REPORT_ANSWER_ACCEPTED: ReportAnswer
REPORT_ANSWER_REFUSED: ReportAnswer

class AttendRequest(_message.Message):
    __slots__ = ("owner", "namespace", "queues", "offer")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    namespace: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    offer: Offer
    def __init__(self, owner: _Optional[str] = ..., namespace: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("number", "slots", "taken")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    number: int
    slots: int
    taken: int
    def __init__(self, number: _Optional[int] = ..., slots: _Optional[int] = ..., taken: _Optional[int] = ...) -> None: ...

class AttendResponse(_message.Message):
    __slots__ = ("task_id", "attempt", "granted", "offer")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    granted: _containers.RepeatedCompositeFieldContainer[NextTask]
    offer: int
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., granted: _Optional[_Iterable[_Union[NextTask, _Mapping]]] = ..., offer: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("owner", "items")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    items: _containers.RepeatedCompositeFieldContainer[LeaseItem]
    def __init__(self, owner: _Optional[str] = ..., items: _Optional[_Iterable[_Union[LeaseItem, _Mapping]]] = ...) -> None: ...

class LeaseItem(_message.Message):
    __slots__ = ("task_id", "attempt", "grant_key", "traceparent")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GRANT_KEY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    grant_key: str
    traceparent: str
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., grant_key: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class LeaseResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[LeaseResult]
    def __init__(self, results: _Optional[_Iterable[_Union[LeaseResult, _Mapping]]] = ...) -> None: ...

class LeaseResult(_message.Message):
    __slots__ = ("answer", "grant", "refusal")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    answer: LeaseAnswer
    grant: Grant
    refusal: Refusal
    def __init__(self, answer: _Optional[_Union[LeaseAnswer, str]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("lease", "handler", "input", "idempotency_key", "traceparent", "run_id", "path", "try_number", "workflow", "namespace", "checkpoint")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TRY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    handler: str
    input: bytes
    idempotency_key: str
    traceparent: str
    run_id: str
    path: str
    try_number: int
    workflow: str
    namespace: str
    checkpoint: bytes
    def __init__(self, lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., handler: _Optional[str] = ..., input: _Optional[bytes] = ..., idempotency_key: _Optional[str] = ..., traceparent: _Optional[str] = ..., run_id: _Optional[str] = ..., path: _Optional[str] = ..., try_number: _Optional[int] = ..., workflow: _Optional[str] = ..., namespace: _Optional[str] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("owner", "items")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    items: _containers.RepeatedCompositeFieldContainer[RenewItem]
    def __init__(self, owner: _Optional[str] = ..., items: _Optional[_Iterable[_Union[RenewItem, _Mapping]]] = ...) -> None: ...

class RenewItem(_message.Message):
    __slots__ = ("task_id", "attempt", "beat")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    beat: Beat
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("age", "progress_age", "percent", "message", "checkpoint")
    AGE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_AGE_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    age: _duration_pb2.Duration
    progress_age: _duration_pb2.Duration
    percent: float
    message: str
    checkpoint: bytes
    def __init__(self, age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., progress_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., percent: _Optional[float] = ..., message: _Optional[str] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RenewResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RenewResult, _Mapping]]] = ...) -> None: ...

class RenewResult(_message.Message):
    __slots__ = ("answer", "lease", "cancel", "refusal")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    answer: RenewAnswer
    lease: _duration_pb2.Duration
    cancel: bool
    refusal: Refusal
    def __init__(self, answer: _Optional[_Union[RenewAnswer, str]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., cancel: _Optional[bool] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("owner", "items", "queues", "namespace")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    items: _containers.RepeatedCompositeFieldContainer[ReportItem]
    queues: _containers.RepeatedScalarFieldContainer[str]
    namespace: str
    def __init__(self, owner: _Optional[str] = ..., items: _Optional[_Iterable[_Union[ReportItem, _Mapping]]] = ..., queues: _Optional[_Iterable[str]] = ..., namespace: _Optional[str] = ...) -> None: ...

class ReportItem(_message.Message):
    __slots__ = ("task_id", "attempt", "succeeded", "failed", "cancelled", "released", "traceparent", "next_grant_key", "checkpoint")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    NEXT_GRANT_KEY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    succeeded: Succeeded
    failed: Failed
    cancelled: Cancelled
    released: Released
    traceparent: str
    next_grant_key: str
    checkpoint: bytes
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., succeeded: _Optional[_Union[Succeeded, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ..., traceparent: _Optional[str] = ..., next_grant_key: _Optional[str] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class Succeeded(_message.Message):
    __slots__ = ("output",)
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    def __init__(self, output: _Optional[bytes] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("failure_class", "type", "message", "trace", "details", "final", "retry_after")
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    failure_class: FailureClass
    type: str
    message: str
    trace: str
    details: bytes
    final: bool
    retry_after: _duration_pb2.Duration
    def __init__(self, failure_class: _Optional[_Union[FailureClass, str]] = ..., type: _Optional[str] = ..., message: _Optional[str] = ..., trace: _Optional[str] = ..., details: _Optional[bytes] = ..., final: _Optional[bool] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Released(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReportResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReportResult, _Mapping]]] = ...) -> None: ...

class ReportResult(_message.Message):
    __slots__ = ("answer", "refusal", "next")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    answer: ReportAnswer
    refusal: Refusal
    next: NextTask
    def __init__(self, answer: _Optional[_Union[ReportAnswer, str]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., next: _Optional[_Union[NextTask, _Mapping]] = ...) -> None: ...

class NextTask(_message.Message):
    __slots__ = ("task_id", "attempt", "grant")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    grant: Grant
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...
