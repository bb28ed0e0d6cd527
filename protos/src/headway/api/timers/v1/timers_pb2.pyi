from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FireAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FIRE_ANSWER_UNSPECIFIED: _ClassVar[FireAnswer]
    FIRE_ANSWER_FIRED: _ClassVar[FireAnswer]
    FIRE_ANSWER_STALE: _ClassVar[FireAnswer]
    FIRE_ANSWER_FAILED: _ClassVar[FireAnswer]
FIRE_ANSWER_UNSPECIFIED: FireAnswer
FIRE_ANSWER_FIRED: FireAnswer
FIRE_ANSWER_STALE: FireAnswer
FIRE_ANSWER_FAILED: FireAnswer

class FireRequest(_message.Message):
    __slots__ = ("timers", "leases")
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    timers: _containers.RepeatedCompositeFieldContainer[Timer]
    leases: _containers.RepeatedCompositeFieldContainer[ExpiredLease]
    def __init__(self, timers: _Optional[_Iterable[_Union[Timer, _Mapping]]] = ..., leases: _Optional[_Iterable[_Union[ExpiredLease, _Mapping]]] = ...) -> None: ...

class Timer(_message.Message):
    __slots__ = ("run_id", "path", "kind", "attempt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    path: str
    kind: str
    attempt: int
    def __init__(self, run_id: _Optional[str] = ..., path: _Optional[str] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class ExpiredLease(_message.Message):
    __slots__ = ("run_id", "path", "attempt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    path: str
    attempt: int
    def __init__(self, run_id: _Optional[str] = ..., path: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class FireResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedScalarFieldContainer[FireAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[FireAnswer, str]]] = ...) -> None: ...
