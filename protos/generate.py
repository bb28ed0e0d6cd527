"""Generates the Python stubs that stand beside the .proto files: messages, services, and the types of both.

`python protos/generate.py` writes them; `--check` writes them to a temporary folder instead and fails, naming each
file, when what is committed differs. The generators are pinned in requirements/dev.txt.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "src"
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def protos() -> list[str]:
    """The .proto files, relative to SOURCE, in order."""
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.proto"))


def generated(root: Path) -> dict[str, bytes]:
    """Every generated file below root, by its path relative to root."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.name.endswith(SUFFIXES) or (path.name == "__init__.py" and path.parent != root / "headway/api")
    }


def generate(target: Path) -> None:
    """Runs protoc over every .proto file, writing below target.

    Raises:
        SystemExit: protoc refused; its messages are on stderr.
    """
    plugin = Path(sys.executable).parent / "protoc-gen-mypy_grpc"
    command = [
        sys.executable, "-m", "grpc_tools.protoc",
        f"--proto_path={SOURCE}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        f"--plugin=protoc-gen-mypy_grpc={plugin}",
        f"--python_out={target}",
        f"--pyi_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_grpc_out=quiet:{target}",
        *protos(),
    ]  # fmt: skip
    if (code := subprocess.run(command, check=False).returncode) != 0:  # noqa: S603 - our own command line
        raise SystemExit(code)
    for path in list(target.rglob("*_pb2_grpc.py")):
        if not _has_service(path):
            # A file without a service needs no service stubs; protoc writes empty ones all the same.
            path.unlink()
            path.with_suffix(".pyi").unlink(missing_ok=True)
    for folder in {folder for path in target.rglob("*_pb2.py") for folder in path.relative_to(target).parents}:
        # Regular packages from headway/api down; headway itself is a namespace and must have none.
        init = target / folder / "__init__.py"
        if len(folder.parts) > 2 and not init.exists():  # noqa: PLR2004 - headway/api is the distribution's own
            init.write_text(f'"""Generated from the .proto files of {".".join(folder.parts)}."""\n')


def _has_service(stub: Path) -> bool:
    return "Servicer" in stub.read_text()


def fresh() -> dict[str, bytes]:
    """What the committed stubs ought to be, by path relative to SOURCE."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        return generated(Path(scratch))


def faults(wanted: dict[str, bytes], committed: dict[str, bytes]) -> list[str]:
    """What differs between the two, one line a file."""
    return [
        *(f"missing: {name}" for name in sorted(wanted.keys() - committed.keys())),
        *(f"no longer generated: {name}" for name in sorted(committed.keys() - wanted.keys())),
        *(
            f"out of date: {name}"
            for name in sorted(wanted.keys() & committed.keys())
            if wanted[name] != committed[name]
        ),
    ]


def main() -> int:
    """Writes the stubs, or compares them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the committed stubs are stale")
    check = parser.parse_args().check
    wanted, committed = fresh(), generated(SOURCE)
    found = faults(wanted, committed)
    if check:
        for fault in (*found, *(["run `make proto` and commit what it writes"] if found else [])):
            print(fault, file=sys.stderr)
        return 1 if found else 0
    for name in committed.keys() - wanted.keys():
        (SOURCE / name).unlink()
    for name, content in wanted.items():
        if committed.get(name) != content:
            (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
            (SOURCE / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
