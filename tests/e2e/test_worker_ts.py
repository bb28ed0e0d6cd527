"""Another language on either side: the example in TypeScript runs steps of real runs, and drains when it is told to; an
application that knows the .proto files alone starts a run, signals it and waits for it.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client, RunState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/worker_ts"
PROTOS = ROOT / "protos/src"
APPLICATION = Path(__file__).with_name("application.mjs")
WORKFLOW = """\
workflow: invoiced
nodes:
  number: {type: call, handler: invoice.number, queue: invoices, input: "${input}"}
  done:   {type: finish, output: "${nodes.number.output}"}
edges:
  - [number, done]
"""
ORDERED = """\
workflow: ordered
nodes:
  child: {type: subflow, workflow: invoiced, input: {shop: "${input.shop}", order: 0}}
  each:
    type: map
    over: "${input.orders}"
    body: {type: call, handler: invoice.number, queue: invoices, input: {shop: "${input.shop}", order: "${item}"}}
  ask:   {type: wait_for_event, event: approval, timeout: 1m}
  done:
    type: finish
    output: {child: "${nodes.child.output}", items: "${nodes.each.counts.succeeded}", by: "${nodes.ask.output.by}"}
edges:
  - [child, each, ask, done]
"""
NUMBERS = {"large": "9" * 2_000_000, "vast": "9" * 20_000_000, "odd": "9\0"}
"""What the shop answers to some orders: beyond the payload limit, beyond the message limit, not storable."""


@pytest.fixture(scope="module")
def built() -> None:
    """The worker, built as its README says."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (FOLDER / "node_modules/typescript").exists():
        install = ["npm", "ci", "--no-audit", "--no-fund", "--fetch-retries=1"]
        installed = subprocess.run(install, cwd=FOLDER, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            last = installed.stderr.strip().splitlines()[-1:]
            pytest.skip(f"its packages cannot be installed from the npm registry: {last}")
    done = subprocess.run(["npm", "run", "build"], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


class Shop(ThreadingHTTPServer):
    """A shop that numbers invoices, and remembers who asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.asked: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Desk(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Shop)
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.headers["Idempotency-Key"], given))
        answer = json.dumps({"invoice": NUMBERS.get(given["order"], 41)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
async def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    """Everything but a worker in Python for the queue."""
    for name in ("HEADWAY_DATABASE_URL", "HEADWAY_REDIS_URL", "HEADWAY_COORDINATOR", "HEADWAY_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    async with Stack(tmp_path / "data", Shape(port=0, workers=0)) as running:
        yield running


@asynccontextmanager
async def working(stack: Stack) -> AsyncIterator[asyncio.subprocess.Process]:
    """The worker, while the block runs; it is killed if the block leaves it alive."""
    worker = await asyncio.create_subprocess_exec(
        "node", "dist/worker.js", cwd=FOLDER, env=stack.environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.communicate()


@pytest.mark.usefixtures("built")
async def test_it_runs_a_step_and_drains(stack: Stack, shop: Shop) -> None:
    async with working(stack) as worker, asyncio.timeout(60), Client(stack.address) as client:
        await client.deploy(WORKFLOW)
        started = await client.start("invoiced", {"shop": shop.url, "order": 7})
        outcome = await client.wait(started.run_id)
        (number, _) = (await client.get(started.run_id)).tasks
        worker.terminate()
        said, _ = await worker.communicate()

    assert (outcome.state, outcome.output) == (RunState.SUCCEEDED, {"invoice": 41})
    assert number.owner.startswith("typescript-")
    ((key, asked),) = shop.asked
    assert asked == {"order": 7}
    assert key == f"{started.run_id}/number/1"
    assert (worker.returncode, said) == (0, b"")


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("order", "type_name", "message"),
    [
        ("large", "InvalidOutput", "the output has 2000014 bytes as JSON; the limit is 1048576"),
        ("vast", "InvalidOutput", "the output has 20000014 bytes as JSON; the limit is 1048576"),
        ("odd", "INVALID_PAYLOAD", "output is not acceptable JSON: "),
    ],
)
async def test_an_output_that_cannot_be_taken_fails_the_step_and_the_worker_goes_on(
    stack: Stack, shop: Shop, order: str, type_name: str, message: str
) -> None:
    patient = WORKFLOW.replace("invoices,", "invoices, retry: {max_attempts: 5},")
    async with working(stack), asyncio.timeout(60), Client(stack.address) as client:
        await client.deploy(patient)
        started = await client.start("invoiced", {"shop": shop.url, "order": order})
        outcome = await client.wait(started.run_id)
        (number,) = (await client.get(started.run_id)).tasks
        after = await client.start("invoiced", {"shop": shop.url, "order": 8})
        assert (await client.wait(after.run_id)).output == {"invoice": 41}

    assert outcome.state is RunState.FAILED
    assert number.error is not None
    assert (number.error.type, number.error.message[: len(message)]) == (type_name, message)
    assert [asked["order"] for _, asked in shop.asked] == [order, 8]


@pytest.mark.usefixtures("built")
async def test_an_application_in_another_language_starts_signals_and_watches_a_run_with_children_and_items(
    stack: Stack, shop: Shop
) -> None:
    given = json.dumps({"shop": shop.url, "orders": [1, 2, 3]})
    async with working(stack), asyncio.timeout(90), Client(stack.address) as client:
        await client.deploy(WORKFLOW)
        await client.deploy(ORDERED)
        application = await asyncio.create_subprocess_exec(
            "node", str(APPLICATION), str(FOLDER), str(PROTOS), stack.address, given,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, faults = await application.communicate()
        assert (application.returncode, faults) == (0, b"")
        told = json.loads(said)
        parent = await client.get(told["run_id"])

    assert (told["existed"], told["same"], told["unknown"]) == (True, True, "INVALID_ARGUMENT")
    assert told["last"][1] == told["state"] == "RUN_STATE_SUCCEEDED"
    assert told["output"] == {"child": {"invoice": 41}, "items": 3, "by": "ann"}
    assert parent.run.output == told["output"]
    assert sorted(asked["order"] for _, asked in shop.asked) == [0, 1, 2, 3]
    assert len({key for key, _ in shop.asked}) == 4
