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
    __slots__ = ("namespace", "source", "beside")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    source: str
    beside: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., source: _Optional[str] = ..., beside: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckResponse(_message.Message):
    __slots__ = ("workflow", "faults", "runs")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    workflow: str
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    runs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, workflow: _Optional[str] = ..., faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ..., runs: _Optional[_Iterable[str]] = ...) -> None: ...

class DeployRequest(_message.Message):
    __slots__ = ("namespace", "source", "dry_run", "beside")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    source: str
    dry_run: bool
    beside: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., source: _Optional[str] = ..., dry_run: _Optional[bool] = ..., beside: _Optional[_Iterable[str]] = ...) -> None: ...

class DeployResponse(_message.Message):
    __slots__ = ("workflow", "version", "changed", "warnings", "effect")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    workflow: str
    version: int
    changed: bool
    warnings: _containers.RepeatedCompositeFieldContainer[Fault]
    effect: Effect
    def __init__(self, workflow: _Optional[str] = ..., version: _Optional[int] = ..., changed: _Optional[bool] = ..., warnings: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ..., effect: _Optional[_Union[Effect, _Mapping]] = ...) -> None: ...

class Effect(_message.Message):
    __slots__ = ("previous_version", "changes", "open_runs")
    PREVIOUS_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    previous_version: int
    changes: Changes
    open_runs: OpenRuns
    def __init__(self, previous_version: _Optional[int] = ..., changes: _Optional[_Union[Changes, _Mapping]] = ..., open_runs: _Optional[_Union[OpenRuns, _Mapping]] = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("nodes_added", "nodes_removed", "nodes_altered", "edges_added", "edges_removed", "input_schema", "settings")
    NODES_ADDED_FIELD_NUMBER: _ClassVar[int]
    NODES_REMOVED_FIELD_NUMBER: _ClassVar[int]
    NODES_ALTERED_FIELD_NUMBER: _ClassVar[int]
    EDGES_ADDED_FIELD_NUMBER: _ClassVar[int]
    EDGES_REMOVED_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    nodes_added: _containers.RepeatedScalarFieldContainer[str]
    nodes_removed: _containers.RepeatedScalarFieldContainer[str]
    nodes_altered: _containers.RepeatedCompositeFieldContainer[AlteredNode]
    edges_added: _containers.RepeatedScalarFieldContainer[str]
    edges_removed: _containers.RepeatedScalarFieldContainer[str]
    input_schema: _containers.RepeatedScalarFieldContainer[str]
    settings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes_added: _Optional[_Iterable[str]] = ..., nodes_removed: _Optional[_Iterable[str]] = ..., nodes_altered: _Optional[_Iterable[_Union[AlteredNode, _Mapping]]] = ..., edges_added: _Optional[_Iterable[str]] = ..., edges_removed: _Optional[_Iterable[str]] = ..., input_schema: _Optional[_Iterable[str]] = ..., settings: _Optional[_Iterable[str]] = ...) -> None: ...

class AlteredNode(_message.Message):
    __slots__ = ("node", "keys")
    NODE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    node: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenRuns(_message.Message):
    __slots__ = ("versions", "counted_all")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_ALL_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[VersionRuns]
    counted_all: bool
    def __init__(self, versions: _Optional[_Iterable[_Union[VersionRuns, _Mapping]]] = ..., counted_all: _Optional[bool] = ...) -> None: ...

class VersionRuns(_message.Message):
    __slots__ = ("version", "open_runs")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    version: int
    open_runs: int
    def __init__(self, version: _Optional[int] = ..., open_runs: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("definitions", "open_runs")
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    definitions: _containers.RepeatedCompositeFieldContainer[Definition]
    open_runs: OpenRuns
    def __init__(self, definitions: _Optional[_Iterable[_Union[Definition, _Mapping]]] = ..., open_runs: _Optional[_Union[OpenRuns, _Mapping]] = ...) -> None: ...

class SetDeployedVersionRequest(_message.Message):
    __slots__ = ("namespace", "workflow", "version", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    version: int
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SetDeployedVersionResponse(_message.Message):
    __slots__ = ("definition", "effect")
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    definition: Definition
    effect: Effect
    def __init__(self, definition: _Optional[_Union[Definition, _Mapping]] = ..., effect: _Optional[_Union[Effect, _Mapping]] = ...) -> None: ...

class DeleteVersionRequest(_message.Message):
    __slots__ = ("namespace", "workflow", "version")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow: str
    version: int
    def __init__(self, namespace: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class DeleteVersionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
