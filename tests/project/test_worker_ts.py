"""The worker in TypeScript is what its README says: it compiles, it is short, and its lock file names no registry."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "worker_ts"


def test_the_worker_compiles(tmp_path: Path) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed")
    compiler = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.exists():
        installed = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        if installed.returncode != 0:
            pytest.skip(f"its packages cannot be installed: {installed.stderr.strip().splitlines()[-1:]}")

    compiled = subprocess.run(
        ["node", str(compiler), "--outDir", str(tmp_path)], cwd=FOLDER, capture_output=True, text=True, check=False
    )

    assert compiled.returncode == 0, compiled.stdout
    assert (tmp_path / "worker.js").exists()


def test_the_worker_has_at_most_seventy_lines_of_code() -> None:
    lines = [line.strip() for line in (FOLDER / "worker.ts").read_text(encoding="utf-8").splitlines()]

    code = [line for line in lines if line and not line.startswith("//")]

    assert len(code) <= 70


def test_versions_are_exact_and_the_lock_file_names_no_host() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    lock = (FOLDER / "package-lock.json").read_text(encoding="utf-8")

    versions = [*package["dependencies"].values(), *package["devDependencies"].values()]
    locked = {name: entry for name, entry in json.loads(lock)["packages"].items() if name}

    assert [version for version in versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    assert "://" not in lock
    assert len(locked) >= len(versions) > 1
    assert [name for name, entry in locked.items() if "integrity" not in entry] == []
