"""The import contracts hold, and would catch who broke them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BAD = {
    "core/bad_clock.py": ("import time", "headway.coordinator.core.bad_clock -> time"),
    "core/bad_lazy.py": ("def f():\n    import random", "headway.coordinator.core.bad_lazy -> random"),
    "core/bad_import.py": ("import importlib", "headway.coordinator.core.bad_import -> importlib"),
    "core/bad_message.py": (
        "from headway.api.runs.v1 import runs_pb2",
        "headway.coordinator.core.bad_message -> headway.api.runs.v1.runs_pb2",
    ),
    "core/bad_layer.py": (
        "import headway.coordinator.store",
        "headway.coordinator.core.bad_layer -> headway.coordinator.store",
    ),
    "core/bad_cel.py": ("import cel_expr_python", "headway.coordinator.core.bad_cel -> cel_expr_python"),
    "core/bad_yaml.py": ("from ruamel.yaml import YAML", "headway.coordinator.core.bad_yaml -> ruamel"),
    "core/bad_schema.py": ("import jsonschema", "headway.coordinator.core.bad_schema -> jsonschema"),
    "engine.py": ("import grpc.aio", "headway.coordinator.engine -> grpc"),
    "rpc/bad_sql.py": ("import asyncpg", "headway.coordinator.rpc.bad_sql -> asyncpg"),
    "store/bad_service.py": ("import headway.relay", "headway.coordinator.store.bad_service -> headway.relay"),
    "testkit/bad_layer.py": (
        "import headway.coordinator.store",
        "headway.coordinator.testkit.bad_layer -> headway.coordinator.store",
    ),
    "testkit/bad_clock.py": ("import time", "headway.coordinator.testkit.bad_clock -> time"),
    "rpc/bad_kit.py": (
        "import headway.coordinator.testkit",
        "headway.coordinator.rpc.bad_kit -> headway.coordinator.testkit",
    ),
}  # fmt: skip


def lint_imports(**environment: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def test_the_contracts_hold() -> None:
    done = lint_imports()

    assert done.returncode == 0, done.stdout


def test_the_contracts_catch_bad_source(tmp_path: Path) -> None:
    package = tmp_path / "headway" / "coordinator"
    for room in ("", "core", "store", "rpc", "testkit"):
        (package / room).mkdir(parents=True, exist_ok=True)
        (package / room / "__init__.py").touch()
    for module in ("__main__", "clock", "ids", "settings"):
        (package / f"{module}.py").touch()
    for name, (source, _) in BAD.items():
        (package / name).write_text(source + "\n", encoding="utf-8")

    done = lint_imports(PYTHONPATH=str(tmp_path))

    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert [link for _, link in BAD.values() if link not in said] == []
