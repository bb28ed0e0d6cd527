"""Files that people name: workflows, their tests, and folders of either."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.cli.arguments import reason
from headway.cli.command import Mistake

SUFFIXES = (".yaml", ".yml")
TEST_SUFFIXES = tuple(f".test{suffix}" for suffix in SUFFIXES)
_CASES, _NODES = re.compile(r"^cases[ \t]*:", re.MULTILINE), re.compile(r"^nodes[ \t]*:", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflows:
    """Workflow files, with their text, and test files that were named among them."""

    sources: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The workflow files' names."""
        return tuple(file for file, _ in self.sources)


def read_workflows(named: Sequence[str]) -> Workflows:
    """Read workflow files, and those in folders; test files beside them are told apart by name, or by their keys.

    Raises:
        Mistake: A file cannot be read; there is no workflow among them.
    """
    read = [(file, read_text(file)) for name in named for file in _found(name, is_test=False)]
    tests = tuple(file for file, text in read if file.endswith(TEST_SUFFIXES) or _has_cases(text))
    sources = tuple((file, text) for file, text in read if file not in tests)
    if not sources:
        raise Mistake(f"{tests[0]} is a test file, not a workflow; run it with: headway test {tests[0]}")
    return Workflows(sources=sources, tests=tests)


def test_files(named: Sequence[str]) -> list[str]:
    """Names of test files, and of those in folders.

    Raises:
        Mistake: There is none in a folder.
    """
    return [file for name in named for file in _found(name, is_test=True)]


def read_text(file: str) -> str:
    """The content of a file. Raises Mistake."""
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"cannot read {file or 'a file without a name'}: {reason(error)}") from None


def _found(name: str, *, is_test: bool) -> Iterator[str]:
    """The file itself; of a folder, what is right in it, in the order of names."""
    if not (name and Path(name).is_dir()):
        yield name
        return
    files = [str(file) for file in sorted(Path(name).iterdir()) if file.name.endswith(SUFFIXES) and file.is_file()]
    wanted = [file for file in files if file.endswith(TEST_SUFFIXES) is is_test]
    if not wanted:
        what = (
            "test file: none ends in .test.yaml" if is_test else "workflow: no file in it ends in .yaml, but for tests"
        )
        raise Mistake(f"the folder {name} has no {what}")
    yield from wanted


def _has_cases(text: str) -> bool:
    return _CASES.search(text) is not None and _NODES.search(text) is None
