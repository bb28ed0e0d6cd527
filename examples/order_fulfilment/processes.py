"""The processes of the demo that are not Headway's own: the shop, and the worker in TypeScript where Node is there."""

import asyncio
import contextlib
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TYPESCRIPT = ROOT / "examples" / "worker_ts"
OLDEST_NODE = 20
PATIENCE = 5.0  # seconds for a process to end after SIGTERM


class NotStarted(Exception):
    """A process of the demo did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeScript:
    """Whether the worker in TypeScript can run here; if not, why not."""

    node: str = ""
    why_not: str = ""


@asynccontextmanager
async def open_shop(ledger: Path, log: Path, environment: Mapping[str, str]) -> AsyncGenerator[str]:
    """Run the shop while the block does; gives its address.

    Raises:
        NotStarted: It ended before it said its address.
    """
    argv = (sys.executable, "-m", "examples.order_fulfilment.shop", "--ledger", str(ledger))
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=ROOT, env=dict(environment), stdout=asyncio.subprocess.PIPE, stderr=errors
        )
        try:
            address = (await process.stdout.readline()).decode().strip() if process.stdout else ""
            if not address:
                raise NotStarted(f"the shop did not open: see {log}")
            yield address
        finally:
            await _end(process)


async def prepare_typescript(log: Path) -> TypeScript:
    """Install and compile the worker in TypeScript, unless that has been done."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return TypeScript(why_not="Node.js is not installed")
    version = (await _output(node, "--version")).strip()
    number = re.match(r"v(\d+)", version)
    if number is None or int(number[1]) < OLDEST_NODE:
        return TypeScript(why_not=f"Node.js is {version or 'broken'}; it wants {OLDEST_NODE} or newer")
    for step in _missing_steps():
        with log.open("ab") as lines:
            process = await asyncio.create_subprocess_exec(npm, *step, cwd=TYPESCRIPT, stdout=lines, stderr=lines)
            if await process.wait() != 0:
                return TypeScript(why_not=f"`npm {' '.join(step)}` failed (see {log})")
    return TypeScript(node=node)


@asynccontextmanager
async def typescript_worker(node: str, log: Path, environment: Mapping[str, str]) -> AsyncGenerator[None]:
    """Run the worker in TypeScript while the block does."""
    with log.open("ab") as lines:
        process = await asyncio.create_subprocess_exec(
            node, "dist/worker.js", cwd=TYPESCRIPT, env=dict(environment), stdout=lines, stderr=lines
        )
        try:
            yield
        finally:
            await _end(process)


def _missing_steps() -> list[tuple[str, ...]]:
    source, built = TYPESCRIPT / "worker.ts", TYPESCRIPT / "dist" / "worker.js"
    if not (TYPESCRIPT / "node_modules").is_dir():
        return [("ci", "--no-audit", "--no-fund"), ("run", "build")]
    return [] if built.exists() and built.stat().st_mtime >= source.stat().st_mtime else [("run", "build")]


async def _output(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    return out.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
