"""Keeps one server process for as long as its owner lives, and ends it, cleanly, when the owner is gone.

Run by path (`python -I -S _guardian.py {json}`), with a pipe from the owner as standard input: the pipe closes when the
owner says so and also when the owner dies, however it dies. That holds on every system, unlike PR_SET_PDEATHSIG, which
is Linux's, is lost with a change of user and fires when a *thread* ends. The first line on standard output is the
server's process id. Exits when the server has, with its exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any


def main(order: dict[str, Any]) -> int:
    """Starts `command` (as `user` and `group`, when given); on the pipe's end sends `stop_signal`, later SIGKILL."""
    # An own reading end that a child's death also wakes, so that one select waits for both.
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with open(order["log"], "ab") as log:  # noqa: PTH123 - pathlib would be the only import of its kind here
        server = subprocess.Popen(  # noqa: S603 - the owner's command
            order["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=order["cwd"],
            env=order["env"],
            user=order["user"],
            group=order["group"],
            extra_groups=None if order["user"] is None else [],
            restore_signals=True,
            start_new_session=True,
        )
    print(server.pid, flush=True)
    while server.poll() is None and not stopping:
        readable, _, _ = select.select([0, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
        if 0 in readable and not os.read(0, 4096):
            stopping = True
    with contextlib.suppress(ProcessLookupError):
        server.send_signal(order["stop_signal"])
    try:
        return server.wait(order["stop_timeout"])
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])) & 0xFF)
