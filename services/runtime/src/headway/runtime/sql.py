"""SQL statements by name, read once, at import, from the `.sql` files of a package.

A file holds statements, each below a line `-- name: lock_run`; further comment lines say why it is there. Knows the
files' form and no database. What is missing fails the import, not the night shift.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.resources.abc import Traversable

__all__ = ["load_statements"]

_HEADER = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_statements(folder: Traversable, *files: str, expected: Collection[str] | None = None) -> dict[str, str]:
    """Reads `.sql` files of named statements.

    Args:
        folder: Where the files are: `importlib.resources.files(…)` of the caller's package.
        files: Their names.
        expected: The names that the caller uses; None: whatever is there.

    Returns:
        The statements by name, each without its comment lines and its semicolon.

    Raises:
        LookupError: A name comes twice; or one that is expected is missing, or nobody uses one.
    """
    found: dict[str, str] = {}
    for file in files:
        parts = _HEADER.split(folder.joinpath(file).read_text(encoding="utf-8"))[1:]
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise LookupError(f"{file}: the statement {name} is there twice")
            found[name] = _without_comments(body)
    if expected is not None and found.keys() != set(expected):
        raise LookupError(f"{', '.join(files)}: has the statements {sorted(found)}, expected {sorted(expected)}")
    return found


def _without_comments(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")
