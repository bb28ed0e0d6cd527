"""Restate, with its default durability: one server, one endpoint in Node.js, a load that calls its ingress."""

import asyncio
import json
import os
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.checking import WrongResult
from bench.peers.programs import Measured, free_ports, output_of, read_measured, running

HERE = Path(__file__).parent
UP_WITHIN = 60.0
TRY_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class Restate:
    """A server and an endpoint that are up."""

    ingress: str

    async def measure(self, in_flight: int, seconds: float) -> Measured:
        """Keep so many runs in flight; one alone is timed from step to step. Raises WrongResult."""
        command = ["node", str(HERE / "restate_load.cjs"), self.ingress, str(in_flight), str(seconds)]
        return read_measured("Restate", await output_of([*command, "timed" if in_flight == 1 else ""]))


@asynccontextmanager
async def restate(folder: Path) -> AsyncIterator[Restate]:
    """Start both, and make them known to each other.

    Args:
        folder: Where its packages are installed.

    Raises:
        WrongResult: It does not come up.
    """
    ingress, admin, node, endpoint = free_ports(4)
    with tempfile.TemporaryDirectory() as data:
        environment = {
            **os.environ,
            "RESTATE_BASE_DIR": data,
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_BIND_PORT": str(node),
            "RESTATE_INGRESS__BIND_PORT": str(ingress),
            "RESTATE_ADMIN__BIND_PORT": str(admin),
        }
        server = [str(folder / "node_modules" / ".bin" / "restate-server")]
        preload = ["--require", str(HERE / "with_resolvers.cjs")]
        line = ["node", *preload, str(HERE / "restate_line.cjs"), str(folder), str(endpoint)]
        async with running(server, environment), running(line):
            await _register(f"http://127.0.0.1:{admin}/deployments", f"http://127.0.0.1:{endpoint}")
            yield Restate(f"http://127.0.0.1:{ingress}")


async def _register(admin: str, endpoint: str) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own address
        admin, data=json.dumps({"uri": endpoint}).encode(), headers={"content-type": "application/json"}
    )
    last = "it does not answer"
    try:
        async with asyncio.timeout(UP_WITHIN):
            while True:
                try:
                    await asyncio.to_thread(_post, request)
                except OSError as error:
                    last = str(error)
                    await asyncio.sleep(TRY_EVERY)
                else:
                    return
    except TimeoutError:
        raise WrongResult(f"Restate does not come up: {last}") from None


def _post(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - our own address
        response.read()
