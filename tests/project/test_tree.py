"""What must hold for the tree as a whole."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = [
    ROOT / place
    for place in (
        "protos",
        "services/runtime",
        "services/coordinator",
        "services/relay",
        "services/timers",
        "services/worker",
        "client",
        "cli",
    )
]


def named(folder: Path) -> str:
    return folder.relative_to(ROOT).as_posix()


def test_the_committed_stubs_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "protos/generate.py", "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_headway_is_a_namespace_that_nobody_owns() -> None:
    assert [path for folder in DISTRIBUTIONS for path in folder.glob("src/headway/*.py")] == []


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=named)
def test_a_wheel_holds_its_package_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=folder,
        capture_output=True,
        check=True,
    )

    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = next(path.parent for path in folder.glob("src/headway/*/py.typed")).name
    assert {name.split("/")[1] for name in names} == {package}
    assert f"headway/{package}/py.typed" in names
    wanted = {
        path.relative_to(folder / "src").as_posix()
        for kind in ("*.py", "*.pyi", "*.proto", "*.sql")
        for path in folder.glob(f"src/**/{kind}")
    }
    assert names >= wanted


def test_the_distributions_are_released_in_lock_step() -> None:
    projects = [
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"] for folder in DISTRIBUTIONS
    ]
    (version,) = {project["version"] for project in projects}

    needed = [
        need
        for project in projects
        for needs in (project["dependencies"], *project.get("optional-dependencies", {}).values())
        for need in needs
        if need.startswith("headway")
    ]

    assert [need for need in needed if not need.endswith(f"=={version}")] == []
    assert {project["requires-python"] for project in projects} == {">=3.11,<3.14"}


def test_pinned_requirements_name_no_index() -> None:
    text = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8") + (
        ROOT / "requirements/bootstrap.txt"
    ).read_text(encoding="utf-8")

    assert "://" not in text
    assert not [line for line in text.splitlines() if line.startswith("-")]
