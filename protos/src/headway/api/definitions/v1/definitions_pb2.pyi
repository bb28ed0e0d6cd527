import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fault(_message.Message):
    __slots__ = ("line", "column", "code", "message", "remedy", "warning")
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    line: int
    column: int
    code: str
    message: str
    remedy: str
    warning: bool
    def __init__(self, line: _Optional[int] = ..., column: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., remedy: _Optional[str] = ..., warning: _Optional[bool] = ...) -> None: ...

class Definition(_message.Message):
    __slots__ = ("namespace", "workflow", "version", "deployed", "digest", "created_at", "source", "plan")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEPLOYED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    version: int
    deployed: bool
    digest: str
    created_at: _timestamp_pb2.Timestamp
    source: str
    plan: bytes
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ..., deployed: _Optional[bool] = ..., digest: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[str] = ..., plan: _Optional[bytes] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class CheckResponse(_message.Message):
    __slots__ = ("workflow", "faults")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    workflow: str
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, workflow: _Optional[str] = ..., faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

class DeployRequest(_message.Message):
    __slots__ = ("namespace", "source")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    source: str
    def __init__(self, namespace: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class DeployResponse(_message.Message):
    __slots__ = ("workflow", "version", "changed", "warnings")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    workflow: str
    version: int
    changed: bool
    warnings: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, workflow: _Optional[str] = ..., version: _Optional[int] = ..., changed: _Optional[bool] = ..., warnings: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("namespace", "workflow", "version")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    version: int
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("definition",)
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    definition: Definition
    def __init__(self, definition: _Optional[_Union[Definition, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("namespace", "workflow")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("definitions",)
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    definitions: _containers.RepeatedCompositeFieldContainer[Definition]
    def __init__(self, definitions: _Optional[_Iterable[_Union[Definition, _Mapping]]] = ...) -> None: ...

class SetDeployedVersionRequest(_message.Message):
    __slots__ = ("namespace", "workflow", "version")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    version: int
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class SetDeployedVersionResponse(_message.Message):
    __slots__ = ("definition",)
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    definition: Definition
    def __init__(self, definition: _Optional[_Union[Definition, _Mapping]] = ...) -> None: ...
