import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SweepRequest(_message.Message):
    __slots__ = ("broker_lost", "queues", "cursor")
    BROKER_LOST_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    broker_lost: bool
    queues: _containers.RepeatedCompositeFieldContainer[QueueProgress]
    cursor: str
    def __init__(self, broker_lost: _Optional[bool] = ..., queues: _Optional[_Iterable[_Union[QueueProgress, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class QueueProgress(_message.Message):
    __slots__ = ("namespace", "queue", "delivered_age")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_AGE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    delivered_age: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., delivered_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SweepResponse(_message.Message):
    __slots__ = ("dispatched", "cursor")
    DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    dispatched: int
    cursor: str
    def __init__(self, dispatched: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...
