"""SQL statements by name: read once, at import, from the `.sql` files of this package.

Knows the files' form and nothing else. A statement that is asked for and not there fails the import, not the night
shift.
"""

import re
from importlib.resources import files

__all__ = ["load_statements"]

_HEADER = re.compile(r"^-- name: (?P<name>[a-z_]+)$", re.MULTILINE)


def load_statements(file_name: str, *expected: str) -> dict[str, str]:
    """Read a `.sql` file of named statements.

    Args:
        file_name: The file, next to this module.
        expected: The names that the caller uses.

    Returns:
        The statements by name, each without its comment lines.

    Raises:
        LookupError: A name is missing, comes twice, or nobody uses it.
    """
    text = files(__package__ or __name__).joinpath(file_name).read_text(encoding="utf-8")
    parts = _HEADER.split(text)[1:]
    names, bodies = parts[0::2], parts[1::2]
    if sorted(names) != sorted(expected):
        raise LookupError(f"{file_name}: has the statements {sorted(names)}, expected {sorted(expected)}")
    return {name: _without_comments(body) for name, body in zip(names, bodies, strict=True)}


def _without_comments(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")
