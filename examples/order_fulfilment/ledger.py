"""The shop's ledger: what truly happened, append-only, on disk before it is answered.

Entries are JSON objects, one a line, of three kinds (`entry`):

* `effect`: goods or money moved, a mail left, a number was given. Written once per idempotency key.
* `refusal`: the shop said no for good (out of stock, card declined, address rejected). Also once per key.
* `call`: a request came in, with its idempotency key, how it was answered, and its begin and end on the machine's
  monotonic clock, in seconds.

The shop keeps no other state: it starts by reading its ledger.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TypeAlias

Entry: TypeAlias = dict[str, object]


class Ledger:
    """An append-only file of entries, safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Open the ledger, or begin one, and read what is in it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+", encoding="utf-8")
        self._lock = Lock()
        self._file.seek(0)
        self._entries: list[Entry] = [json.loads(line) for line in self._file]

    def append(self, entry: Mapping[str, object]) -> None:
        """Write an entry; it is on disk when this returns."""
        with self._lock:
            self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self._entries.append(dict(entry))

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first."""
        with self._lock:
            return list(self._entries)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
