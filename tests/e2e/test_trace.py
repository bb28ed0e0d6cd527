"""One trace per run: a run through every service, read back from the spans that the processes wrote."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client

SOURCE = """
workflow: traced
nodes:
  ask:   {type: http, request: {url: "${input.url}"}}
  step:  {type: call, handler: stubborn.step, queue: stubborn, input: {count: 0}}
  pause: {type: wait, duration: 100ms}
  inner: {type: subflow, workflow: within, input: {count: "${nodes.step.output.count}"}}
  done:  {type: finish, output: "${nodes.inner.output.count}"}
edges:
  - [ask, step, pause, inner, done]
"""
WITHIN = """
workflow: within
nodes:
  deep: {type: call, handler: stubborn.step, queue: stubborn, input: "${input}"}
  done: {type: finish, output: "${nodes.deep.output}"}
edges: [[deep, done]]
"""


@dataclass(frozen=True, slots=True)
class Span:
    """A span, as far as the tree needs it."""

    name: str
    trace: str
    span: str
    parent: str
    service: str


class _Seen(BaseHTTPRequestHandler):
    traceparents: list[str] = []  # noqa: RUF012 - one server, one list

    def do_GET(self) -> None:
        self.traceparents.append(self.headers.get("traceparent", ""))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Seen)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def _read(file: Path) -> list[Span]:
    spans = []
    for line in file.read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        spans.append(
            Span(
                given["name"], given["trace_id"], given["span_id"], given.get("parent_span_id") or "", given["service"]
            )
        )
    return spans


def _ancestors(tree: list[Span], name: str) -> list[str]:
    """The names of what led to the first span of a name, nearest first."""
    by_id = {span.span: span for span in tree}
    span, names = next(span for span in tree if span.name == name), list[str]()
    while span.parent in by_id:
        span = by_id[span.parent]
        names.append(span.name)
    return names


@pytest.mark.parametrize("eager", ["true", "false"])
async def test_the_spans_of_a_run_make_one_tree_through_all_services(tmp_path: Path, web: str, eager: str) -> None:
    trace_file = tmp_path / "spans.jsonl"
    shape = Shape(
        port=0,
        modules=("tests.e2e.stubborn",),
        queues=("stubborn", "http"),
        environment={
            "HEADWAY_TRACE_FILE": str(trace_file),
            "HEADWAY_WORKER_EAGER": eager,
            "STUBBORN_NOTES": str(tmp_path / "notes.jsonl"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
    )
    async with Stack(tmp_path / "data", shape) as stack, Client(stack.address) as client:
        await client.deploy(WITHIN)
        await client.deploy(SOURCE)

        started = await client.start("traced", {"url": web})
        outcome = await client.wait(started.run_id)

    spans = _read(trace_file)
    root = next(span for span in spans if span.name == "run traced")
    tree = [span for span in spans if span.trace == root.trace]
    ids = {span.span for span in tree}
    assert outcome.output == 2
    assert [span.name for span in tree if span.parent not in ids] == ["run traced"]
    names = {span.name for span in tree}
    assert {"decision RunStarted", "decision NodeCompleted", "decision TimerFired", "lease ask", "lease step"} <= names
    assert {"run within", "lease deep", "decision ChildFinished"} <= names
    assert _ancestors(tree, "run within")[0] == "decision TimerFired"  # what asked for it
    assert "run within" in _ancestors(tree, "decision ChildFinished")
    by_queue, relay = ({"publish"}, {"relay"}) if eager == "false" else (set[str](), set[str]())
    assert {name.split()[0] for name in names} - {"publish"} == {"run", "decision", "lease", "handler"}
    assert by_queue <= {name.split()[0] for name in names}
    assert relay | {"coordinator", "worker"} <= {span.service.removeprefix("headway-") for span in tree}
    assert _Seen.traceparents[-1].split("-")[1] == root.trace
