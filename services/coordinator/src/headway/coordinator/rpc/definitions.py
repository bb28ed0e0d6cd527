"""DefinitionsService: check and deploy workflows."""

from typing import Any

from headway.api.definitions.v1 import definitions_pb2 as pb
from headway.api.definitions.v1 import definitions_pb2_grpc
from headway.coordinator.core.refusals import InvalidArgument
from headway.coordinator.engine.definitions import Definitions
from headway.coordinator.engine.versions import Versions
from headway.coordinator.rpc import definition_messages as messages
from headway.coordinator.rpc.refusing import refusing
from headway.coordinator.rpc.requests import namespace_of, optional_text, short_text


class DefinitionsService(definitions_pb2_grpc.DefinitionsServiceServicer):
    """What those who write workflows call."""

    def __init__(self, definitions: Definitions, versions: Versions) -> None:
        """Ask the engine's room for it."""
        self._definitions = definitions
        self._versions = versions

    @refusing
    async def Check(self, request: pb.CheckRequest, context: Any) -> pb.CheckResponse:
        """Compile, and say what is wrong."""
        checked = await self._definitions.check(namespace_of(request.namespace), request.source, request.beside)
        return pb.CheckResponse(
            workflow=checked.workflow,
            faults=[messages.fault(fault) for fault in checked.faults],
            runs=checked.runs,
        )

    @refusing
    async def Deploy(self, request: pb.DeployRequest, context: Any) -> pb.DeployResponse:
        """Store and deploy."""
        namespace = namespace_of(request.namespace)
        deployed = await self._definitions.deploy(namespace, request.source, request.beside, dry_run=request.dry_run)
        return pb.DeployResponse(
            workflow=deployed.workflow,
            version=deployed.version,
            changed=deployed.changed,
            warnings=[messages.fault(fault) for fault in deployed.warnings],
            effect=messages.effect(deployed.effect),
        )

    @refusing
    async def Get(self, request: pb.GetRequest, context: Any) -> pb.GetResponse:
        """One version."""
        workflow = short_text(request.workflow, "workflow")
        record = await self._versions.get(namespace_of(request.namespace), workflow, request.version)
        return pb.GetResponse(definition=messages.definition(record))

    @refusing
    async def List(self, request: pb.ListRequest, context: Any) -> pb.ListResponse:
        """All versions."""
        workflow = optional_text(request.workflow, "workflow")
        records, open_runs = await self._versions.list(namespace_of(request.namespace), workflow)
        return pb.ListResponse(
            definitions=[messages.definition(record) for record in records],
            open_runs=None if open_runs is None else messages.open_runs(open_runs),
        )

    @refusing
    async def SetDeployedVersion(
        self, request: pb.SetDeployedVersionRequest, context: Any
    ) -> pb.SetDeployedVersionResponse:
        """Roll back, or forward."""
        named = _named_version(request)
        record, effect = await self._versions.set_deployed(*named, dry_run=request.dry_run)
        return pb.SetDeployedVersionResponse(definition=messages.definition(record), effect=messages.effect(effect))

    @refusing
    async def DeleteVersion(self, request: pb.DeleteVersionRequest, context: Any) -> pb.DeleteVersionResponse:
        """Remove a version that no run needs."""
        await self._versions.delete(*_named_version(request))
        return pb.DeleteVersionResponse()


def _named_version(request: pb.SetDeployedVersionRequest | pb.DeleteVersionRequest) -> tuple[str, str, int]:
    if request.version < 1:
        raise InvalidArgument(field="version", problem="it must be a stored version, from 1")
    return namespace_of(request.namespace), short_text(request.workflow, "workflow"), request.version
