"""check and deploy: faults where editors find them, all or nothing, exit 1 for faults."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from threading import Thread

import grpc
import pytest
from google.rpc import error_details_pb2

from headway.api.definitions.v1 import definitions_pb2
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import Refusal, ScriptedCoordinator

FAULT = definitions_pb2.Fault(
    line=3, column=7, code="unknown_node", message="no node `c`", remedy="add it, or mend the edge"
)
WARNING = definitions_pb2.Fault(line=1, column=1, code="unused", message="never used", warning=True)
CLEAN = definitions_pb2.CheckResponse(workflow="orders")
FAULTY = definitions_pb2.CheckResponse(workflow="orders", faults=[WARNING, FAULT])


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        path.write_text(f"workflow: {path.stem}\n")
    return [str(path) for path in paths]


async def test_check_prints_each_fault_with_its_place_and_remedy(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", CLEAN, FAULTY)

    result = await headway("check", *files)

    assert result.code == 1
    assert result.out.splitlines() == [
        f"{files[1]}:1:1: warning: never used",
        f"{files[1]}:3:7: error: no node `c` — add it, or mend the edge",
        "2 files, 1 error, 1 warning",
    ]
    sources = [request.source for request in coordinator.requests["definitions.Check"]]
    assert sources == ["workflow: a\n", "workflow: b\n"]


async def test_a_file_is_checked_again_beside_those_of_the_workflows_that_it_runs(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    missing = definitions_pb2.Fault(line=2, column=3, code="not_deployed", message="no workflow b", warning=True)
    a = definitions_pb2.CheckResponse(workflow="a", faults=[missing], runs=["a", "b", "elsewhere"])
    b, whole = (definitions_pb2.CheckResponse(workflow=name) for name in "ba")
    coordinator.script("definitions.Check", a, b, whole)

    result = await headway("check", "--strict", "--namespace", "shop", *files)

    assert result.code == 0
    requests = coordinator.requests["definitions.Check"]
    assert [(request.source, list(request.beside)) for request in requests] == [
        ("workflow: a\n", []),
        ("workflow: b\n", []),
        ("workflow: a\n", ["workflow: b\n"]),
    ]
    assert {request.namespace for request in requests} == {"shop"}


async def test_warnings_alone_are_no_failure(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", definitions_pb2.CheckResponse(workflow="orders", faults=[WARNING]))

    assert (await headway("check", files[0])).code == 0


async def test_strictly_a_warning_is_a_failure_and_keeps_a_file_from_being_deployed(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", definitions_pb2.CheckResponse(workflow="orders", faults=[WARNING]))

    checked = await headway("check", "--strict", files[0])
    deployed = await headway("deploy", "--strict", files[0])

    assert (checked.code, deployed.code) == (1, 1)
    assert "nothing was deployed" in deployed.err
    assert coordinator.requests["definitions.Deploy"] == []


async def test_check_as_json_lists_the_files_with_their_faults(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", FAULTY)

    result = await headway("check", files[0], "--json")

    assert result.code == 1
    (checked,) = result.document["files"]
    assert checked["file"] == files[0]
    assert checked["workflow"] == "orders"
    assert checked["faults"][1] == {
        "line": 3,
        "column": 7,
        "code": "unknown_node",
        "message": "no node `c`",
        "remedy": "add it, or mend the edge",
        "warning": False,
    }


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler on this machine that finds one fault in every file; it stands in for the coordinator's program."""
    (tmp_path / "stand_in_compiler.py").write_text(
        "import json, sys\n"
        "assert sys.argv[1:] == ['check'], sys.argv\n"
        "texts = json.load(sys.stdin)\n"
        "fault = dict(line=2, column=1, code='cycle', message='a cycle', remedy='cut it', warning=False)\n"
        "print(json.dumps({'files': [{'file': f, 'workflow': 'w', 'faults': [fault]} for f, _ in texts]}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("headway.cli.commands.definitions.COMPILER", "stand_in_compiler")


@pytest.mark.usefixtures("compiler")
async def test_check_uses_the_compiler_on_this_machine_when_no_coordinator_answers(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    await coordinator.stop()

    result = await headway("check", *files)

    assert result.code == 1
    assert result.out.splitlines()[0] == f"{files[0]}:2:1: error: a cycle — cut it"


@pytest.mark.usefixtures("compiler")
async def test_check_offline_asks_no_coordinator(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", CLEAN)

    assert (await headway("check", "--offline", files[0])).code == 1
    assert coordinator.requests["definitions.Check"] == []


async def test_the_compiler_on_this_machine_knows_the_time_zones(headway: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "zoned.yaml"
    file.write_text("workflow: w\nnodes:\n  a: {type: wait, until: '2030-01-31 09:00', zone: Europe/Viena}\n")

    result = await headway("check", "--offline", str(file))

    assert result.out.splitlines()[0] == (
        f"{file}:3:52: error: there is no time zone 'Europe/Viena' — did you mean Europe/Vienna?"
    )


async def test_offline_files_are_held_against_each_other(headway: CommandLine, tmp_path: Path) -> None:
    parent, child = tmp_path / "parent.yaml", tmp_path / "child.yaml"
    parent.write_text("workflow: parent\nnodes:\n  a: {type: subflow, workflow: child, input: {n: text}}\n")
    child.write_text(
        "workflow: child\ninput_schema: {properties: {n: {type: integer}}}\nnodes:\n  a: {type: call, handler: h}\n"
    )

    result = await headway("check", "--offline", "--strict", str(parent), str(child))

    assert result.code == 1
    assert result.out.splitlines()[0].startswith(
        f"{parent}:3:46: warning: the input breaks input_schema of child: $.n "
    )


async def test_offline_a_file_is_read_once_and_may_be_a_pipe(headway: CommandLine, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    writing = Thread(target=pipe.write_text, args=("workflow: w\nnodes: {a: {type: finish}}\n",), daemon=True)
    writing.start()

    result = await headway("check", "--offline", str(pipe))

    assert (result.code, result.out) == (0, "1 file, 0 errors, 0 warnings\n")


async def test_a_file_that_cannot_be_read_is_named(headway: CommandLine, tmp_path: Path) -> None:
    result = await headway("check", str(tmp_path / "none.yaml"))

    assert result.code == 2
    assert "none.yaml: No such file or directory" in result.err


async def test_deploy_deploys_every_file_and_names_the_versions(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", CLEAN)
    coordinator.script(
        "definitions.Deploy",
        definitions_pb2.DeployResponse(workflow="a", version=3, changed=True),
        definitions_pb2.DeployResponse(workflow="b", version=1),
    )

    result = await headway("deploy", *files, "--namespace", "shop")

    assert result.code == 0
    assert result.out.splitlines() == [
        f"a version 3 deployed ({files[0]})",
        f"b version 1 was deployed already ({files[1]})",
    ]
    assert {request.namespace for request in coordinator.requests["definitions.Deploy"]} == {"shop"}


async def test_deploy_deploys_nothing_when_one_file_has_a_fault(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", CLEAN, FAULTY)

    result = await headway("deploy", *files)

    assert result.code == 1
    assert "nothing was deployed" in result.err
    assert coordinator.requests["definitions.Deploy"] == []


async def test_a_fault_that_only_deploying_finds_is_printed_like_the_others(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    coordinator.script("definitions.Check", CLEAN)
    coordinator.script(
        "definitions.Deploy",
        Refusal(
            reason="DEFINITION_FAULTY",
            code=grpc.StatusCode.INVALID_ARGUMENT,
            details=(
                error_details_pb2.BadRequest(
                    field_violations=[
                        error_details_pb2.BadRequest.FieldViolation(
                            field="3:7",
                            reason="unknown_node",
                            description="no node `c` — add it, or mend the edge",
                        )
                    ]
                ),
            ),
        ),
    )

    result = await headway("deploy", files[0])

    assert result.code == 1
    assert result.out.splitlines() == [f"{files[0]}:3:7: error: no node `c` — add it, or mend the edge"]


async def test_deploy_prints_what_the_answers_warn_of_and_names_what_is_deployed_together(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    a, b = definitions_pb2.CheckResponse(workflow="a", runs=["b"]), definitions_pb2.CheckResponse(workflow="b")
    warned = definitions_pb2.DeployResponse(workflow="a", version=1, changed=True, warnings=[WARNING])
    clean = definitions_pb2.DeployResponse(workflow="b", version=1, changed=True)
    coordinator.script("definitions.Check", *[a, b, a] * 3)
    coordinator.script("definitions.Deploy", *[warned, clean] * 3)

    told = await headway("deploy", *files)
    document = (await headway("deploy", *files, "--json")).document
    strict = await headway("deploy", *files, "--strict")

    assert told.out.splitlines()[0] == f"{files[0]}:1:1: warning: never used"
    assert [[fault["code"] for fault in each["faults"]] for each in document["files"]] == [["unused"], []]
    assert (told.code, strict.code) == (0, 1)  # found by deploying alone: what is deployed has a warning
    requests = coordinator.requests["definitions.Deploy"]
    assert [list(request.beside) for request in requests] == [["workflow: b\n"], []] * 3


async def test_strictly_a_missing_workflow_keeps_all_files_from_being_deployed(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    missing = definitions_pb2.Fault(line=2, column=3, code="not_deployed", message="no workflow c", warning=True)
    a, b = definitions_pb2.CheckResponse(workflow="a", faults=[missing]), definitions_pb2.CheckResponse(workflow="b")
    coordinator.script("definitions.Check", a, b, a)

    result = await headway("deploy", "--strict", *files)

    assert result.code == 1
    assert result.out.splitlines() == [f"{files[0]}:2:3: warning: no workflow c"]
    assert coordinator.requests["definitions.Deploy"] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two workflows, their tests, one of them without the name of one, and what is no YAML."""
    folder = tmp_path / "flows"
    folder.mkdir()
    for name in ("a.yaml", "b.yml"):
        (folder / name).write_text(f"workflow: {name[0]}\nnodes: {{}}\n")
    (folder / "a.test.yaml").write_text("workflow: a.yaml\ncases: []\n")
    (folder / "cases_of_b.yaml").write_text("workflow: b.yml\ncases: []\n")
    (folder / "notes.txt").write_text("no YAML")
    return folder


@pytest.mark.parametrize("command", ["check", "deploy"])
async def test_test_files_among_workflows_are_left_out_and_told_how_they_are_run(
    command: str, headway: CommandLine, coordinator: ScriptedCoordinator, folder: Path
) -> None:
    coordinator.script("definitions.Check", CLEAN)
    coordinator.script("definitions.Deploy", definitions_pb2.DeployResponse(workflow="orders", version=1))
    files = [str(folder / name) for name in ("a.test.yaml", "a.yaml", "b.yml", "cases_of_b.yaml")]

    result = await headway(command, *files)
    document = (await headway(command, *files, "--json")).document

    tests = [str(folder / name) for name in ("a.test.yaml", "cases_of_b.yaml")]
    assert result.code == 0
    assert result.err.splitlines() == [
        f"{test} is left out: a test file; run it with: headway test {test}" for test in tests
    ]
    assert document["left_out"] == tests
    assert [Path(each["file"]).name for each in document["files"]] == ["a.yaml", "b.yml"]


async def test_of_a_folder_the_workflows_in_it_are_checked(
    headway: CommandLine, coordinator: ScriptedCoordinator, folder: Path, tmp_path: Path
) -> None:
    coordinator.script("definitions.Check", CLEAN)

    result = await headway("check", str(folder))
    empty = await headway("check", str(tmp_path))
    only_tests = await headway("check", str(folder / "a.test.yaml"))

    assert result.out == "2 files, 0 errors, 0 warnings\n"
    assert (empty.code, only_tests.code) == (2, 2)
    assert f"the folder {tmp_path} has no workflow" in empty.err
    assert f"is a test file, not a workflow; run it with: headway test {folder / 'a.test.yaml'}" in only_tests.err


async def test_a_file_that_is_too_large_is_a_fault_of_that_file(
    headway: CommandLine, coordinator: ScriptedCoordinator, files: list[str]
) -> None:
    large = Refusal(
        reason="PAYLOAD_TOO_LARGE",
        code=grpc.StatusCode.INVALID_ARGUMENT,
        metadata={"field": "source", "size": "2000000", "limit": "1048576"},
    )
    coordinator.script("definitions.Check", CLEAN, large)

    result = await headway("check", *files)

    assert result.code == 1
    assert result.out.splitlines()[0] == (
        f"{files[1]}:1:1: error: the file is larger than 1,048,576 bytes —"
        " split the workflow, or pass large data as input"
    )


COMMITTED = json.loads((Path(__file__).resolve().parents[2] / "docs" / "headway.schema.json").read_text("utf-8"))


async def test_schema_prints_what_the_documents_have(headway: CommandLine) -> None:
    result = await headway("schema")

    assert (result.code, result.document) == (0, COMMITTED)
