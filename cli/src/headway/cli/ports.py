"""Ports for servers of our own."""

import contextlib
import random
import socket

HOST = "127.0.0.1"
# Below those that systems give to outgoing connections: one of those might take a server's port while it starts again.
CHOICE = range(10_240, 32_768)
TRIES = 100


def bound(port: int) -> socket.socket:
    """A socket that is bound to a port, and keeps it from others until it is closed; nobody can connect to it.

    Args:
        port: Which; 0: any that is free.

    Raises:
        OSError: It is in use; or, of 0, none of a hundred was free.
    """
    wanted = [port] if port else random.sample(CHOICE, TRIES)
    for each in wanted[:-1]:
        with contextlib.suppress(OSError):
            return _bound(each)
    return _bound(wanted[-1])


def _bound(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError:
        listener.close()
        raise
    return listener
