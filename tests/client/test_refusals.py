"""Every refusal that the protocol names becomes an exception of its own."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

import headway.client
from headway.api.definitions.v1 import definitions_pb2
from headway.client import Client, DefinitionFaulty, Fault, Overloaded, Patience, Refused, StoreUnavailable
from headway.client._refusals import REFUSALS
from tests.client.scripted_coordinator import Plain, Refusal, ScriptedCoordinator

PROTOS = Path(__file__).parents[2] / "protos/src/headway/api"

FAULT = definitions_pb2.Fault(line=3, column=7, code="unknown_node", message="no node `c`", remedy="add it")


@pytest.mark.parametrize("reason", sorted(REFUSALS))
async def test_each_reason_raises_its_exception_with_all_that_the_server_said(
    reason: str, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(
        "runs.Get",
        Refusal(reason=reason, code=grpc.StatusCode.NOT_FOUND, message="as told", metadata={"run_id": "r1"}),
    )

    with pytest.raises(REFUSALS[reason]) as raised:
        await client.get("r1")

    assert type(raised.value) is REFUSALS[reason]
    assert raised.value.reason == reason
    assert raised.value.message == "as told"
    assert raised.value.metadata == {"run_id": "r1"}
    assert raised.value.code is grpc.StatusCode.NOT_FOUND
    assert str(raised.value) == f"as told ({reason})"


def test_no_reason_in_the_protocol_files_lacks_an_exception() -> None:
    protos = [PROTOS / noun / "v1" / f"{noun}.proto" for noun in ("runs", "definitions")]

    named = {
        reason
        for proto in protos
        for reason in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", "\n".join(_rpc_comments(proto.read_text("utf-8"))))
    }

    status_codes = {code.name for code in grpc.StatusCode}
    assert (named - status_codes) | {"OVERLOADED", "STORE_UNAVAILABLE"} == set(REFUSALS)


def _rpc_comments(proto: str) -> list[str]:
    service = proto[proto.index("service ") : proto.index("\n}\n")]
    return [line for line in service.splitlines() if line.strip().startswith("//")]


def test_every_exception_for_a_reason_is_public() -> None:
    assert {refusal.__name__ for refusal in REFUSALS.values()} <= set(headway.client.__all__)


async def test_an_unknown_reason_raises_a_plain_refusal(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", Refusal(reason="NOT_YET_INVENTED"))

    with pytest.raises(Refused) as raised:
        await client.get("r1")

    assert type(raised.value) is Refused
    assert raised.value.reason == "NOT_YET_INVENTED"


async def test_a_reason_of_another_domain_is_not_taken_for_ours(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Get", Refusal(reason="RUN_NOT_FOUND", domain="proxy.example.com"))

    with pytest.raises(Refused) as raised:
        await client.get("r1")

    assert type(raised.value) is Refused
    assert raised.value.reason == "FAILED_PRECONDITION"


async def test_a_status_without_details_raises_a_refusal_named_after_its_code(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Get", Plain(code=grpc.StatusCode.UNIMPLEMENTED, message="what?"))

    with pytest.raises(Refused, match=r"what\? \(UNIMPLEMENTED\)"):
        await client.get("r1")


FAULTY = Refusal(
    reason="DEFINITION_FAULTY",
    code=grpc.StatusCode.INVALID_ARGUMENT,
    details=(
        error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(
                    field="3:7", reason="unknown_node", description="no node `c` — add it"
                )
            ]
        ),
    ),
)


async def test_a_faulty_definition_carries_all_its_faults_and_warnings(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    warning = definitions_pb2.Fault(line=9, column=1, code="unused", message="never used", warning=True)
    coordinator.script("definitions.Deploy", FAULTY)
    coordinator.script("definitions.Check", definitions_pb2.CheckResponse(faults=[FAULT, FAULT, warning]))

    with pytest.raises(DefinitionFaulty) as raised:
        await client.deploy("nodes: {}")

    fault = Fault(line=3, column=7, code="unknown_node", message="no node `c`", remedy="add it", warning=False)
    assert raised.value.faults == (
        fault,
        fault,
        Fault(line=9, column=1, code="unused", message="never used", remedy="", warning=True),
    )
    assert coordinator.requests["definitions.Check"][0].source == "nodes: {}"


@pytest.mark.parametrize("check", [definitions_pb2.CheckResponse(workflow="w"), Refusal(reason="NOT_TODAY")])
async def test_a_faulty_definition_names_its_first_faults_where_a_check_does_not(
    check: definitions_pb2.CheckResponse | Refusal, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("definitions.Deploy", FAULTY)
    coordinator.script("definitions.Check", check)

    with pytest.raises(DefinitionFaulty) as raised:
        await client.deploy("nodes: {}")

    assert raised.value.faults == (
        Fault(line=3, column=7, code="unknown_node", message="no node `c`", remedy="add it", warning=False),
    )


async def test_an_overload_beyond_patience_is_a_refusal(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script(
        "runs.Start", Refusal(reason="OVERLOADED", code=grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after=3600)
    )

    with pytest.raises(Overloaded):
        await client.start("w")

    assert len(coordinator.requests["runs.Start"]) == 1


async def test_a_coordinator_without_its_database_is_told_from_one_that_is_not_there(
    coordinator: ScriptedCoordinator,
) -> None:
    coordinator.script("runs.Get", Refusal(reason="STORE_UNAVAILABLE", code=grpc.StatusCode.UNAVAILABLE))

    async with Client(coordinator.address, patience=Patience(give_up_after=timedelta())) as client:
        with pytest.raises(StoreUnavailable):
            await client.get("r1")
