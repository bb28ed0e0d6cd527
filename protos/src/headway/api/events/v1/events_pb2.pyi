from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliverAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVER_ANSWER_UNSPECIFIED: _ClassVar[DeliverAnswer]
    DELIVER_ANSWER_APPLIED: _ClassVar[DeliverAnswer]
    DELIVER_ANSWER_RUN_CLOSED: _ClassVar[DeliverAnswer]
    DELIVER_ANSWER_FAILED: _ClassVar[DeliverAnswer]
    DELIVER_ANSWER_LATER: _ClassVar[DeliverAnswer]
DELIVER_ANSWER_UNSPECIFIED: DeliverAnswer
DELIVER_ANSWER_APPLIED: DeliverAnswer
DELIVER_ANSWER_RUN_CLOSED: DeliverAnswer
DELIVER_ANSWER_FAILED: DeliverAnswer
DELIVER_ANSWER_LATER: DeliverAnswer

class DeliverRequest(_message.Message):
    __slots__ = ("handovers",)
    HANDOVERS_FIELD_NUMBER: _ClassVar[int]
    handovers: _containers.RepeatedCompositeFieldContainer[Handover]
    def __init__(self, handovers: _Optional[_Iterable[_Union[Handover, _Mapping]]] = ...) -> None: ...

class Handover(_message.Message):
    __slots__ = ("request_id", "run_id", "type", "event", "traceparent")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    type: str
    event: bytes
    traceparent: str
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., type: _Optional[str] = ..., event: _Optional[bytes] = ..., traceparent: _Optional[str] = ...) -> None: ...

class DeliverResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedScalarFieldContainer[DeliverAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[DeliverAnswer, str]]] = ...) -> None: ...
