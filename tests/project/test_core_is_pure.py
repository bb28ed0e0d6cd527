"""The coordinator's core is pure: by its imports, by its source, and by running without what it may not know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import purity

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "services/coordinator/src"
CORE = SOURCE / "headway/coordinator/core"


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = sorted(CORE.rglob("*.py"))

BLOCKED = """
import importlib.abc, pkgutil, sys

BLOCKED = ("asyncio", "asyncpg", "grpc", "httpx", "logging", "opentelemetry", "random", "redis", "socket",
           "subprocess", "threading", "headway.api", "headway.runtime", "headway.coordinator.rpc",
           "headway.coordinator.store", "headway.coordinator.engine")

class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in BLOCKED):
            raise ImportError(f"the core may not know {name}")
        return None

# Third-party packages that the core is built on may use what it itself may not.
import cel_expr_python, jsonschema, msgspec, orjson, re2, ruamel.yaml
for name in list(sys.modules):
    if any(name == blocked or name.startswith(blocked + ".") for blocked in BLOCKED):
        del sys.modules[name]
sys.meta_path.insert(0, Wall())

import headway.coordinator.core as core
names = [found.name for found in pkgutil.walk_packages(core.__path__, core.__name__ + ".")]
for name in names:
    __import__(name)
print(len(names))
try:
    import asyncpg
except ImportError:
    print("the wall stands")
"""


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_of_the_core_is_pure(path: Path) -> None:
    assert purity.faults(name_of(path), path.read_text(encoding="utf-8")) == []


def test_every_folder_of_the_core_is_seen_by_the_contracts() -> None:
    without = [folder for folder in {path.parent for path in MODULES} if not (folder / "__init__.py").exists()]

    assert without == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import time", "imports time"),
        ("from time import monotonic", "imports time"),
        ("def f():\n    import random", "imports random"),
        ("if TYPE_CHECKING:\n    import asyncpg", "imports asyncpg"),
        ("from headway.coordinator.store import pool", "imports headway.coordinator.store"),
        ("from headway.coordinator import core", "imports headway.coordinator"),
        ("from headway.api.runs.v1 import runs_pb2", "imports headway.api.runs.v1"),
        ("import importlib", "imports importlib"),
        ("from . import state", "imports relatively"),
        ("import cel_expr_python", "imports cel_expr_python"),
        ("from ruamel.yaml import YAML", "imports ruamel.yaml"),
        ("__import__('os')", "uses __import__"),
        ("exec('import os')", "uses exec"),
        ("__builtins__['open']", "uses __builtins__"),
        ("print('hello')", "uses print"),
        ("from datetime import datetime\nnow = datetime.now()", "reads the clock: datetime.now"),
        ("import datetime as d\nd.datetime.utcnow()", "reads the clock: d.datetime.utcnow"),
        ("from datetime import date\ntoday = date.today", "reads the clock: date.today"),
        ("async def decide(): ...", "waits"),
        ("def f():\n    global count", "keeps state between calls: global"),
    ],
)
def test_impure_source_is_caught(source: str, fault: str) -> None:
    (found,) = purity.faults("headway.coordinator.core.bad", source)

    assert found.split(": ", 1)[1] == fault


def test_what_a_room_is_for_is_allowed_there_alone() -> None:
    source = "import cel_expr_python"

    assert purity.faults("headway.coordinator.core.cel._values", source) == []
    assert purity.faults("headway.coordinator.core.celery", source) != []


def test_the_core_runs_where_nothing_else_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    count, wall = done.stdout.splitlines()
    assert int(count) == len(MODULES) - 1
    assert wall == "the wall stands"
