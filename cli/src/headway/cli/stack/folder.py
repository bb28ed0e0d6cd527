"""The data folder: one stack at a time uses it, and `--fresh` empties it of what a stack put there, nothing else."""

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, Self

OURS = ("postgres", "redis", "logs")
LOCK = "lock"


class FolderTaken(Exception):
    """Another stack uses the data folder."""

    def __init__(self, folder: Path, holder: str) -> None:
        """Name the folder and the process that holds it."""
        by = f" (process {holder})" if holder else ""
        super().__init__(
            f"{folder} is in use by another `headway dev`{by}; stop that one, or choose another folder with --data"
        )
        self.folder = folder
        self.holder = holder


class FolderUnusable(Exception):
    """The data folder cannot be made or written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        """Name the folder and what the system says."""
        why = (error.strerror or type(error).__name__).lower()
        super().__init__(f"{folder} cannot be the data folder: {why}; choose another one with --data")


class DataFolder:
    """A data folder that is held. The kernel lets go of it when this process ends, however it ends."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        """Take over a locked folder; use `hold`."""
        self.path = path
        self._lock = lock

    @classmethod
    def hold(cls, path: Path) -> Self:
        """Make the folder, and hold it.

        Raises:
            FolderTaken: Another stack holds it.
            FolderUnusable: It cannot be made or written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = (path / LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise FolderUnusable(path, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise FolderTaken(path, holder) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return cls(path.resolve(), lock)

    @property
    def has_database(self) -> bool:
        """True when an embedded database has been made here."""
        return (self.path / "postgres" / "cluster").exists()

    def empty(self) -> None:
        """Remove what a stack put there."""
        cluster = self.path / "postgres" / "cluster"
        if cluster.is_symlink():  # a server that may not read this folder has its data elsewhere
            shutil.rmtree(cluster.resolve(), ignore_errors=True)
        for name in OURS:
            entry = self.path / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)

    def logs(self) -> Path:
        """The folder of the log files."""
        folder = self.path / "logs"
        folder.mkdir(exist_ok=True)
        return folder

    def release(self) -> None:
        """Let go of it."""
        with contextlib.suppress(ValueError):
            self._lock.truncate(0)
        self._lock.close()
