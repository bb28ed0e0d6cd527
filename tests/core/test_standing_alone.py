"""The core runs where nothing else can be imported: no framework, no clock, no chance, no way to the outside."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headway.coordinator.core
from tests.project import purity

CORE = Path(headway.coordinator.core.__file__).parent
# What the core is built on may itself import what the core may not; it is imported before the wall goes up.
SCRIPT = """
import builtins, importlib.abc, os, sys
import cel_expr_python, copy, dataclasses, datetime, enum, functools, jsonschema, msgspec, orjson, re, re2, ruamel.yaml
import typing

BLOCKED = {"asyncio", "asyncpg", "concurrent", "google", "grpc", "http", "httpx", "importlib", "logging",
           "multiprocessing", "opentelemetry", "os", "pathlib", "random", "redis", "secrets", "select", "selectors",
           "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
FRIENDS = ("headway.coordinator.core",)
touched = []

def is_blocked(name):
    return name.split(".")[0] in BLOCKED or (
        name.startswith("headway.") and name not in ("headway.coordinator", *FRIENDS) and not name.startswith(FRIENDS))

real_import = builtins.__import__
def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "")
    if importer.startswith(FRIENDS) and is_blocked(name):
        raise ImportError(f"{importer} may not know {name}")
    return real_import(name, globals, locals, fromlist, level)
builtins.__import__ = guarded_import

class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if is_blocked(name):
            raise ImportError(f"nobody may know {name} any more")
        return None
for name in [name for name in sys.modules if is_blocked(name) and name.split(".")[0] not in ("importlib", "os")]:
    if name.split(".")[0] in ("asyncpg", "google", "grpc", "redis", "opentelemetry", "random", "uuid", "asyncio"):
        del sys.modules[name]
sys.meta_path.insert(0, Wall())

from headway.coordinator.core import admission, graph, records, replay, state
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.decide import Decision, decide
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import NodeCompleted, RunStarted

# From here on even the clock, the files and the environment are out of reach.
def audit(event, arguments):
    if event in ("open", "socket.connect", "subprocess.Popen", "os.system", "os.listdir") or event.startswith("time."):
        raise PermissionError(event)
sys.addaudithook(audit)

plan = compile_workflow('''
workflow: alone
nodes:
  a: {type: call, handler: a, input: "${input}"}
  b: {type: switch, cases: [{when: "nodes.a.output.n > 1", to: c}], default: none}
  c: {type: set, values: {x: "${nodes.a.output.n + 1}"}}
edges: [[a, b]]
''').plan
at = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)
run = state.State(graph=graph.Graph(plan), run_id="r", complete=True)
history = []
for event in (
    RunStarted(at=at, namespace="default", workflow="alone", version=1, key=None, trace="", input=Document(b"{}")),
    NodeCompleted(at=at, path="a", attempt=1, owner="w", output=Document(b'{"n": 2}')),
):
    if isinstance(event, NodeCompleted):
        row = run.tasks["a"]
        row.state, row.owner, row.leased_at, row.started_at = "running", "w", at, at
        row.state = admission.TaskState.RUNNING
    verdict = decide(run, event)
    assert isinstance(verdict, Decision)
    run.absorb(verdict.changes)
    history.append(replay.Recorded(seq=run.run.seq, at=at, actions=records.encode_actions(verdict.actions)))
again = replay.replay(run.graph, history, lambda seq, action: Document(b"null"))
print(run.run.state, run.run.vars, again.run == run.run)
for attempt in ("import asyncpg", "import grpc", "import uuid"):
    try:
        exec(attempt)
    except ImportError:
        print("blocked")
try:
    open("/dev/null")
except PermissionError:
    print("blocked")
"""


def test_the_core_compiles_decides_and_replays_with_nothing_around_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["succeeded {'x': 3} True", *["blocked"] * 4]


@pytest.mark.parametrize(
    "source",
    [
        *[
            f"import {name}"
            for name in ("time", "random", "uuid", "os", "logging", "asyncio", "importlib", "io", "sys")
        ],
        *[f"from {name} import anything" for name in ("time", "random", "uuid", "os", "importlib", "pathlib")],
        "importlib = __import__('importlib')",
        "eval('1')",
        "exec('import os')",
        "open('/etc/passwd')",
        "compile('1', '', 'eval')",
        "globals()['x'] = 1",
        "import datetime\ndatetime.datetime.now()",
        "import asyncpg",
        "from headway.coordinator.engine import lanes",
    ],
)
def test_the_checker_of_the_source_catches_each_way_out(source: str) -> None:
    assert purity.faults("headway.coordinator.core.decide.bad", source) != []


def test_deciding_alone_brings_no_yaml_along() -> None:
    script = (
        "import sys\n"
        "from headway.coordinator.core import decide, records, replay\n"
        "print([name for name in ('ruamel.yaml', 'asyncpg', 'grpc', 'asyncio') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_core_keeps_nothing_between_decisions_but_caches_of_what_never_changes() -> None:
    """Module-level state could make two replicas decide differently: only constants and lru_cache are there."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(CORE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Global | ast.Nonlocal)
    ]

    assert found == []
