"""Where the program begins: Ctrl-C ends it without a word, also while the rest is still being imported."""

import os
import signal


def main() -> int:
    """Import the command line and run it; returns the exit code."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # else whoever started us lets it be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it would write among what we print of connections that go away
    # Here, and not above: what is imported takes a while.
    from headway.cli.__main__ import main as run  # noqa: PLC0415

    signal.signal(signal.SIGINT, handler)
    return run()
