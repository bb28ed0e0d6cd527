"""How a child process begins: bound to the life of the process that started it, then replaced by the service itself.

A stack that is killed with SIGKILL can stop nothing any more, so its children see to it themselves. On Linux the kernel
kills them (PR_SET_PDEATHSIG, which execve keeps); elsewhere a small guard process reads a pipe that only the stack
holds open, and kills its child when the pipe ends. This file is run as a script, by path, before anything is imported.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, pipe: int, guard: str, argv: list[str]) -> None:
    """Bind this process to its parent's life, and become the service.

    Args:
        parent: Process id of the stack.
        pipe: The reading end of the pipe that ends with the stack.
        guard: "kernel" or "pipe".
        argv: What to become.
    """
    if guard == "kernel":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    else:
        _watch(pipe)
    os.close(pipe)
    if os.getppid() != parent:  # it died before we were bound to it
        sys.exit(1)
    os.execv(argv[0], argv)  # noqa: S606 - the stack's own words


def _watch(pipe: int) -> None:
    """Leave a guard behind that kills this process group when the pipe ends."""
    group = os.getpgrp()
    if os.fork() != 0:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.read(pipe, 1)  # nobody writes: it returns at the end
    os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
