"""versions, rollback, delete-version and deploy --dry-run: what they ask for and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.api.definitions.v1 import definitions_pb2 as pb
from headway.cli.changes import MAX_LINES, effect_lines
from headway.client import Changes, Effect, OpenRuns
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import Refusal, ScriptedCoordinator

EFFECT = pb.Effect(
    previous_version=2,
    changes=pb.Changes(
        nodes_added=["pack"],
        nodes_removed=["wrap"],
        nodes_altered=[pb.AlteredNode(node="ship", keys=["queue", "retry.max_attempts"])],
        edges_added=["pack → ship"],
        edges_removed=["wrap → ship"],
        input_schema=["properties.amount.type"],
        settings=["deadline"],
    ),
    open_runs=pb.OpenRuns(
        versions=[pb.VersionRuns(version=1, open_runs=3), pb.VersionRuns(version=2, open_runs=12)], counted_all=True
    ),
)
TOLD = [
    "  against version 2:",
    "    + node pack",
    "    - node wrap",
    "    ~ node ship: queue, retry.max_attempts",
    "    + edge pack → ship",
    "    - edge wrap → ship",
    "    ~ input_schema: properties.amount.type",
    "    ~ deadline",
    "  open runs stay on their versions: 3 on version 1, 12 on version 2",
]
STORED = [pb.Definition(workflow="orders", version=number, deployed=number == 3, digest="d") for number in (5, 3, 2)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "orders.yaml"
    path.write_text("workflow: orders\n")
    return str(path)


@pytest.mark.parametrize(("options", "what"), [((), "deployed"), (("--dry-run",), "would be deployed")])
async def test_deploy_says_what_differs_and_whose_runs_stay(
    options: tuple[str, ...], what: str, headway: CommandLine, coordinator: ScriptedCoordinator, file: str
) -> None:
    coordinator.script("definitions.Check", pb.CheckResponse(workflow="orders"))
    answer = pb.DeployResponse(workflow="orders", version=3, changed=True, effect=EFFECT)
    coordinator.script("definitions.Deploy", answer)

    result = await headway("deploy", file, *options)

    assert result.out.splitlines() == [f"orders version 3 {what} ({file})", *TOLD]
    assert coordinator.requests["definitions.Deploy"][0].dry_run == bool(options)


async def test_deploy_as_json_carries_the_effect(
    headway: CommandLine, coordinator: ScriptedCoordinator, file: str
) -> None:
    coordinator.script("definitions.Check", pb.CheckResponse(workflow="orders"))
    answer = pb.DeployResponse(workflow="orders", version=3, changed=True, effect=EFFECT)
    coordinator.script("definitions.Deploy", answer)

    document = (await headway("deploy", file, "--dry-run", "--json")).document

    assert document["dry_run"] is True
    (entry,) = document["deployed"]
    assert entry["effect"]["previous_version"] == 2
    assert entry["effect"]["changes"]["nodes_altered"] == {"ship": ["queue", "retry.max_attempts"]}
    assert entry["effect"]["open_runs"] == {"by_version": {"1": 3, "2": 12}, "counted_all": True}


async def test_rollback_goes_to_the_next_older_stored_version(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("definitions.List", pb.ListResponse(definitions=STORED))
    effect = pb.Effect(previous_version=3)
    coordinator.script("definitions.SetDeployedVersion", pb.SetDeployedVersionResponse(effect=effect))

    result = await headway("rollback", "orders")

    (request,) = coordinator.requests["definitions.SetDeployedVersion"]
    assert (request.workflow, request.version, request.dry_run) == ("orders", 2, False)
    assert result.out.splitlines() == [
        "orders version 2 is deployed",
        "  against version 3:",
        "    nothing differs but spelling",
        "  no run is open",
    ]


async def test_rollback_to_a_version_asks_for_no_list_and_can_be_tried_first(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("definitions.SetDeployedVersion", pb.SetDeployedVersionResponse(effect=EFFECT))

    result = await headway("rollback", "orders", "--to", "5", "--dry-run")

    assert coordinator.requests["definitions.SetDeployedVersion"][0].dry_run
    assert coordinator.requests["definitions.List"] == []
    assert result.out.splitlines() == ["orders version 5 would be deployed", *TOLD]


async def test_rollback_to_what_is_deployed_says_so(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("definitions.SetDeployedVersion", pb.SetDeployedVersionResponse(effect=EFFECT))

    assert (await headway("rollback", "orders", "--to", "2")).out == "orders version 2 is deployed already\n"


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (STORED[:2], "version 3 of orders is the oldest that is stored: name another one with --to"),
        (STORED[:1], "no version of orders is deployed: name one with --to"),
    ],
)
async def test_rollback_without_an_older_version_says_what_to_do(
    stored: list[pb.Definition], message: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("definitions.List", pb.ListResponse(definitions=stored))

    result = await headway("rollback", "orders")

    assert (result.code, coordinator.requests["definitions.SetDeployedVersion"]) == (2, [])
    assert message in result.err


async def test_versions_are_listed_with_their_open_runs(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("definitions.List", pb.ListResponse(definitions=STORED, open_runs=EFFECT.open_runs))

    table = await headway("versions", "orders")
    document = (await headway("versions", "orders", "--json")).document

    assert [line.split("\t")[:3] for line in table.out.splitlines()] == [
        ["VERSION", "DEPLOYED", "OPEN RUNS"],
        ["5", "", "0"],
        ["3", "deployed", "0"],
        ["2", "", "12"],
    ]
    assert document["counted_all"] is True
    assert document["versions"][2] == {
        "version": 2,
        "deployed": False,
        "open_runs": 12,
        "created_at": None,
        "digest": "d",
    }


async def test_versions_of_an_unknown_workflow_are_refused(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("definitions.List", pb.ListResponse())

    result = await headway("versions", "nope")

    assert result.code == 2
    assert "there is no workflow nope in namespace default" in result.err


async def test_delete_version_removes_it_or_says_who_needs_it(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(
        "definitions.DeleteVersion",
        pb.DeleteVersionResponse(),
        Refusal(reason="VERSION_NEEDED", message="Version 2 of orders is needed by 1 run(s): r1."),
    )

    gone = await headway("delete-version", "orders", "2")
    kept = await headway("delete-version", "orders", "2")

    assert (gone.code, gone.out) == (0, "orders version 2 is gone\n")
    assert kept.code == 2
    assert "needed by 1 run(s): r1" in kept.err


def test_very_many_changes_are_told_in_short() -> None:
    nodes = tuple(f"n{number}" for number in range(100))
    changes = Changes(
        nodes_added=nodes, nodes_removed=(), nodes_altered={}, edges_added=(), edges_removed=(), input_schema=(),
        settings=(),
    )  # fmt: skip
    effect = Effect(previous_version=1, changes=changes, open_runs=OpenRuns(by_version={}, counted_all=True))

    lines = effect_lines(effect, 2)

    assert len(lines) == MAX_LINES + 3
    assert lines[-2:] == [f"  and {100 - MAX_LINES} more changes (--json has all)", "no run is open"]
