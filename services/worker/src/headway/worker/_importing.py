"""Modules by name, and what is wrong with one that cannot be used: told by its own files and lines, not by ours."""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from headway.worker._errors import NothingToServe
from headway.worker._registry import Registry, default_registry

_OWN = f"{Path(__file__).resolve().parent}{os.sep}"
_IMPORT_SYSTEM = ("<frozen ", f"{Path(importlib.__file__).resolve().parent}{os.sep}")


class ModuleRefused(NothingToServe):
    """A MODULE[:attr] that cannot be imported, or holds no registry, or registers nothing."""


def import_module(name: str) -> ModuleType:
    """Import a module.

    Raises:
        ModuleRefused: It is not there, or raises; told with the place, the frames outside this package and the remedy.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ModuleRefused(_not_there(name, error.name)) from None
        raise ModuleRefused(_faulty(name, error)) from error
    except (Exception, SystemExit) as error:
        raise ModuleRefused(_faulty(name, error)) from error


def registries_in(module: ModuleType) -> list[str]:
    """Names of the registries with handlers that a module holds."""
    held = sorted(vars(module).items())
    return [
        name
        for name, value in held
        if isinstance(value, Registry) and value is not default_registry and value.handlers()
    ]


def registers_nothing(modules: Iterable[ModuleType]) -> ModuleRefused:
    """What to raise when modules were imported, and no handler is there."""
    told: list[str] = []
    for module in modules:
        own = [f"{module.__name__}:{name}" for name in registries_in(module)]
        remedy = (
            f"it has a Registry: name {' or '.join(own)}" if own else 'write @handler("NAME", queue="QUEUE") above one'
        )
        told.append(f"{module.__name__!r} ({file_of(module)}) registers no handler; {remedy}")
    return ModuleRefused("nothing to serve: " + "; ".join(told))


def file_of(module: ModuleType) -> str:
    """Where a module lies."""
    folders = list(getattr(module, "__path__", ()))
    return getattr(module, "__file__", None) or (str(folders[0]) if folders else "built in")


def _not_there(name: str, missing: str) -> str:
    """A module, or the package that it should be in, does not exist."""
    if name.endswith(".py") or os.sep in name:
        path = Path(name)
        stem = path.stem if path.suffix == ".py" else path.name
        folder = "" if path.parent == Path() else f", and its folder with PYTHONPATH={path.parent}"
        return f"{name!r} is a file: name the module, {stem}{folder}"
    package, _, _ = missing.rpartition(".")
    found = sys.modules.get(package)
    if found is not None:
        return f"there is no module {missing!r}: {package!r} is {file_of(found)}"
    top = missing.partition(".")[0]
    return (
        f"there is no module {missing!r}: neither {top}.py nor {top}/ is in {Path.cwd()}, on PYTHONPATH, or installed"
        f" for {sys.executable}. Start in the folder that holds it, or name that folder: PYTHONPATH=FOLDER"
    )


def _faulty(name: str, error: BaseException) -> str:
    """Where the fault is; below that the frames of the module and of what it calls; and what Python says of it."""
    told = traceback.TracebackException.from_exception(error)
    _leave_out_own_frames(told)
    place = _place_of(error, told.stack)
    said = "".join(told.format() if told.stack else told.format_exception_only())
    lines = [f"cannot import {name!r}{place}", said.rstrip()]
    if isinstance(error, ModuleNotFoundError):
        lines.append(f"{error.name!r} is not installed for {sys.executable}, nor in a folder on PYTHONPATH")
    return "\n".join(lines)


def _leave_out_own_frames(told: traceback.TracebackException) -> None:
    told.stack = traceback.StackSummary.from_list(frame for frame in told.stack if not _is_ours(frame.filename))
    for other in (told.__cause__, told.__context__):
        if other is not None:
            _leave_out_own_frames(other)


def _is_ours(file: str) -> bool:
    return file.startswith((_OWN, *_IMPORT_SYSTEM))


def _place_of(error: BaseException, frames: traceback.StackSummary) -> str:
    """The last line that is neither Python's own nor an installed package's; else the last line of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f": {error.filename}:{error.lineno}"
    if not frames:
        return ""
    installed = _installed()
    written = [frame for frame in frames if not frame.filename.startswith(installed)]
    frame = (written or frames)[-1]
    return f": {frame.filename}:{frame.lineno}"


def _installed() -> tuple[str, ...]:
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    return tuple(f"{folder}{os.sep}" for folder in folders if "python" in folder)
