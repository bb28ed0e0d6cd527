"""The client's calls to DefinitionsService."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headway.api.definitions.v1 import definitions_pb2, definitions_pb2_grpc
from headway.client import _translate
from headway.client._definition_values import Checked, Definition, Deployed, Fault, Redeployed, Versions
from headway.client._refusals import DefinitionFaulty, HeadwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.client._connection import Connection


class DefinitionCalls:
    """Check, deploy and look at definitions; a part of `Client`."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        """Call over a connection, for a namespace."""
        self._connection = connection
        self._namespace = namespace
        self._definitions = definitions_pb2_grpc.DefinitionsServiceStub(connection.channel)

    async def check(self, source: str, *, beside: Sequence[str] = ()) -> Checked:
        """Compile YAML text and name every fault; nothing is stored.

        Args:
            source: YAML.
            beside: YAML texts of workflows that will be deployed together with it: it is held against them where its
                subflow nodes run them, and not warned that they are not there.
        """
        request = definitions_pb2.CheckRequest(namespace=self._namespace, source=source, beside=beside)
        response = await self._connection.call(self._definitions.Check, request)
        return Checked(
            workflow=response.workflow,
            faults=tuple(_translate.fault(each) for each in response.faults),
            runs=tuple(response.runs),
        )

    async def deploy(self, source: str, *, beside: Sequence[str] = (), dry_run: bool = False) -> Deployed:
        """Compile YAML text, store it as a new version and let new runs take it. Safe to repeat: content decides.

        Args:
            source: YAML.
            beside: YAML texts of workflows that are deployed together with it, as in `check`.
            dry_run: Only say what it would come to.

        Raises:
            DefinitionFaulty: It has faults, and carries all of them; nothing was stored.
        """
        request = definitions_pb2.DeployRequest(
            namespace=self._namespace, source=source, dry_run=dry_run, beside=beside
        )
        try:
            response = await self._connection.call(self._definitions.Deploy, request)
        except DefinitionFaulty as error:
            error.faults = await self._all_faults(source) or error.faults
            raise
        return Deployed(
            workflow=response.workflow,
            version=response.version,
            changed=response.changed,
            warnings=tuple(_translate.fault(each) for each in response.warnings),
            effect=_translate.effect(response.effect),
        )

    async def _all_faults(self, source: str) -> tuple[Fault, ...]:
        """The faults that a refusal has no room for; empty: they cannot be had."""
        with contextlib.suppress(HeadwayError):  # the refusal is what counts, and it names the first faults
            checked = await self.check(source)
            return () if checked.deployable else checked.faults
        return ()

    async def get_definition(self, workflow: str, version: int | None = None) -> Definition:
        """A version with its source and plan; None: the deployed one.

        Raises:
            WorkflowNotFound: No such workflow or version.
        """
        request = definitions_pb2.GetRequest(namespace=self._namespace, workflow=workflow, version=version or 0)
        response = await self._connection.call(self._definitions.Get, request)
        return _translate.definition(response.definition)

    async def list_definitions(self, workflow: str | None = None) -> tuple[Definition, ...]:
        """The versions of one workflow or of all, by workflow, then newest first."""
        request = definitions_pb2.ListRequest(namespace=self._namespace, workflow=workflow or "")
        response = await self._connection.call(self._definitions.List, request)
        return tuple(_translate.definition(each) for each in response.definitions)

    async def list_versions(self, workflow: str) -> Versions:
        """The stored versions of one workflow, newest first, and its open runs by version."""
        request = definitions_pb2.ListRequest(namespace=self._namespace, workflow=workflow)
        response = await self._connection.call(self._definitions.List, request)
        return Versions(
            definitions=tuple(_translate.definition(each) for each in response.definitions),
            open_runs=_translate.open_runs(response.open_runs),
        )

    async def set_deployed_version(self, workflow: str, version: int, *, dry_run: bool = False) -> Redeployed:
        """Let new runs take an older version (roll back); running runs keep theirs. Safe to repeat.

        Args:
            workflow: Its name.
            version: A stored one.
            dry_run: Only say what it would come to.

        Raises:
            WorkflowNotFound: No such workflow or version.
        """
        request = definitions_pb2.SetDeployedVersionRequest(
            namespace=self._namespace, workflow=workflow, version=version, dry_run=dry_run
        )
        response = await self._connection.call(self._definitions.SetDeployedVersion, request)
        return Redeployed(
            definition=_translate.definition(response.definition), effect=_translate.effect(response.effect)
        )

    async def delete_version(self, workflow: str, version: int) -> None:
        """Remove a version that no run needs; its number is never given again. Safe to repeat.

        Raises:
            WorkflowNotFound: No such workflow or version.
            VersionDeployed: New runs take it.
            VersionNeeded: Runs were started on it, finished ones included.
        """
        request = definitions_pb2.DeleteVersionRequest(namespace=self._namespace, workflow=workflow, version=version)
        await self._connection.call(self._definitions.DeleteVersion, request)
