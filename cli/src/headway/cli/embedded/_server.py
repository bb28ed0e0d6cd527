"""A server process, its folder, its guardian: what the embedded PostgreSQL and the embedded Redis share."""

from __future__ import annotations

import abc
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headway.cli.embedded._unprivileged import Account
from headway.cli.ports import HOST, bound

_GUARDIAN = Path(__file__).with_name("_guardian.py")
_POLL = 0.01
_STOP_TIMEOUT = 30.0
_PASSING = ("already in use", "still in use")


class EmbeddedServerError(RuntimeError):
    """An embedded server is missing, did not start, or its folder is in use."""


class EmbeddedServer(abc.ABC):
    """One server process, its folder and its guardian."""

    title: str
    stop_signal = signal.SIGTERM
    start_timeout = 60.0

    def __init__(self, data_dir: Path, *, port: int = 0) -> None:
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir / "server.log"
        self._port = port
        self._port_is_free_to_choose = port == 0
        self._pid: int | None = None
        self._guardian: subprocess.Popen[str] | None = None
        self._lock: IO[str] | None = None

    @property
    def port(self) -> int:
        """Where it listens; kept over restarts, and remembered in the folder for later owners."""
        return self._port

    @property
    def pid(self) -> int:
        """The server's process id.

        Raises:
            EmbeddedServerError: It does not run.
        """
        if self._pid is None:
            raise EmbeddedServerError(f"the embedded {self.title} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        """Whether the server was started and has not ended since."""
        return self._guardian is not None and self._guardian.poll() is None

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """How to connect, password included."""

    def start(self) -> None:
        """Starts it and waits until it answers.

        Raises:
            EmbeddedServerError: It did not start (the end of its log is in the message), no program was found, or
                another process has it running on this folder.
        """
        if self._guardian is not None:
            raise EmbeddedServerError(f"the embedded {self.title} is already running")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            self._end_orphan()
            self._prepare()
            self._launch_repeatedly()
        except BaseException:
            self._release_lock()
            raise

    def stop(self) -> None:
        """Ends it cleanly; does nothing when it does not run."""
        guardian = self._guardian
        if guardian is None:
            self._release_lock()
            return
        assert guardian.stdin is not None  # noqa: S101 - it was opened with a pipe
        guardian.stdin.close()
        self._await_end(guardian)

    def kill(self) -> None:
        """Ends it with SIGKILL, as a crash would. Its folder stays ours: `restart` goes on from there."""
        os.kill(self.pid, signal.SIGKILL)
        guardian = self._guardian
        assert guardian is not None  # noqa: S101 - it has a pid
        self._await_end(guardian, release=False)

    def restart(self) -> None:
        """Starts it again, on the same port with the same data; stops it before if it runs."""
        self.stop()
        self.start()

    def remove_data(self) -> None:
        """Stops the server and removes its folder, with whatever of it is kept elsewhere."""
        self.stop()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._release_lock()

    # What differs between the servers.

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Makes the folder ready, once."""

    @abc.abstractmethod
    def _command(self) -> list[str]: ...

    @abc.abstractmethod
    def _is_ready(self) -> bool: ...

    @abc.abstractmethod
    def _recorded_pid(self) -> int | None:
        """The process id that the folder names; it may be stale, and another process's by now."""

    @abc.abstractmethod
    def _place(self) -> Path:
        """What a server's command line names, and no other process's does."""

    def _account(self) -> Account | None:
        return None

    # What they share.

    def _launch_repeatedly(self) -> None:
        remembered = self._remembered_port()
        for tries_left in (4, 3, 2, 1, 0):
            if self._port == 0:
                self._port = remembered or _free_port()
                remembered = 0
            try:
                self._launch()
            except EmbeddedServerError as error:
                # Somebody may have taken the port between our look and the server's bind; and what a killed server
                # leaves (its sessions, their shared memory) takes a moment to go.
                if not tries_left or not any(sign in str(error).lower() for sign in _PASSING):
                    raise
                if self._port_is_free_to_choose:
                    self._port = 0
                time.sleep(0.2)
            else:
                # From now on somebody may know the URL.
                self._port_is_free_to_choose = False
                (self.data_dir / "port").write_text(f"{self._port}\n", encoding="ascii")
                return

    def _remembered_port(self) -> int:
        """Where the folder's server listened the last time, if that is free now; else 0."""
        try:
            port = int((self.data_dir / "port").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return 0
        with socket.socket() as probe:
            # As the servers do it: connections that have just ended do not hold the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError):
                return 0
        return port

    def _launch(self) -> None:
        log_size = self.log_path.stat().st_size if self.log_path.exists() else 0
        account = self._account()
        order = {
            "command": self._command(),
            "cwd": "/",
            "env": server_environment(),
            "user": account.uid if account else None,
            "group": account.gid if account else None,
            "log": str(self.log_path),
            "stop_signal": int(self.stop_signal),
            "stop_timeout": _STOP_TIMEOUT,
        }
        self._guardian = guardian = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-I", "-S", str(_GUARDIAN), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Away from the terminal's process group: Ctrl-C is for the owner, who stops its servers last.
            start_new_session=True,
        )
        assert guardian.stdout is not None and guardian.stderr is not None  # noqa: S101, PT018 - they are pipes
        line = guardian.stdout.readline()
        if not line:
            reason = guardian.stderr.read()
            self._await_end(guardian, release=False)
            raise EmbeddedServerError(f"the embedded {self.title} could not be started: {reason.strip()}")
        self._pid = int(line)
        deadline = time.monotonic() + self.start_timeout
        while not self._is_ready():
            if guardian.poll() is not None or time.monotonic() > deadline:
                self._quit(guardian)
                with self.log_path.open(encoding="utf-8", errors="replace") as log:
                    log.seek(log_size)
                    said = log.read()[-4000:].strip()
                raise EmbeddedServerError(
                    f"the embedded {self.title} did not start; its log ({self.log_path}):\n{said}"
                )
            time.sleep(_POLL)

    def _quit(self, guardian: subprocess.Popen[str]) -> None:
        assert guardian.stdin is not None  # noqa: S101 - it was opened with a pipe
        guardian.stdin.close()
        self._await_end(guardian, release=False)

    def _await_end(self, guardian: subprocess.Popen[str], *, release: bool = True) -> None:
        guardian.wait(_STOP_TIMEOUT + 10)
        for pipe in (guardian.stdin, guardian.stdout, guardian.stderr):
            if pipe is not None:
                pipe.close()
        self._guardian, self._pid = None, None
        if release:
            self._release_lock()

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        lock = (self.data_dir / "owner.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise EmbeddedServerError(
                f"{self.data_dir} is in use by process {owner}; stop that one, or choose another folder"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _end_orphan(self) -> None:
        """Ends what a killed owner's killed guardian left behind: we hold the folder's lock, so nobody uses it."""
        pid = self._recorded_pid()
        if pid is None or not _names(pid, self._place()):
            return
        deadline = time.monotonic() + _STOP_TIMEOUT
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, self.stop_signal)
            while _names(pid, self._place()):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(_POLL)

    def _secret(self) -> str:
        """The password: made at the first start, kept in the folder, readable by the owner alone."""
        path = self.data_dir / "password"
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(24))
        return path.read_text(encoding="ascii")


def server_environment() -> dict[str, str]:
    """Ours, less what would steer the servers' own programs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "HEADWAY_"))}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _free_port() -> int:
    with bound(0) as probe:
        return int(probe.getsockname()[1])


def _names(pid: int, place: Path) -> bool:
    """Whether a process runs whose command line names the place."""
    listed = subprocess.run(  # noqa: S603 - a fixed command
        ["ps", "-ww", "-o", "args=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.returncode == 0 and str(place) in listed.stdout
