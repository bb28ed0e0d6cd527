"""What runs in the child process of `headway.python`: a script of its own, started with `python -I`.

Imports nothing of Headway. Reads `{"code", "input", "limits": {"cpu", "memory", "wall"}}` from stdin and writes one
JSON object to what was stdout: `{"output": …}` or `{"error": {"type", "message", "trace", "final"}}`. What the code
prints goes to stderr.
"""

import json
import math
import os
import resource
import signal
import sys
import traceback

_FILE_SIZE = 64 * 1024 * 1024
_GRACE = 2
_DEEPEST = 200
_INT64 = range(-(2**63), 2**63)


def _limit(limits: dict[str, int]) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu"], limits["cpu"] + 1))
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_SIZE, _FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The worker kills at the wall limit. Should it have died, this ends the orphan.
    signal.alarm(limits["wall"] + _GRACE)


def _failure(error: BaseException, *, final: bool) -> dict[str, object]:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    try:
        message = str(error)
    except BaseException as fault:  # noqa: BLE001  an error whose own text fails must not hide that the code failed
        message = f"(the error's text could not be made: {type(fault).__name__})"
    try:
        trace = "".join(traceback.format_exception(type(error), error, frames))
    except BaseException as fault:  # noqa: BLE001  as above
        trace = f"(the error's trace could not be made: {type(fault).__name__})"
    return _error(type(error).__name__, message, trace[-16384:], final=final)


def _error(kind: str, message: str, trace: str = "", *, final: bool) -> dict[str, object]:
    """Texts that UTF-8 can hold: a lone surrogate is spelt out."""
    texts = {"type": kind, "message": message, "trace": trace}
    return {
        "error": {
            **{name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts.items()},
            "final": final,
        }
    }


_TOO_LITTLE_MEMORY: dict[str, object] = {
    "error": {"type": "MemoryError", "message": "", "trace": "", "final": True, "limit": "memory"}
}


def _refuse_unstorable(value: object, place: str, depth: int = 0) -> None:
    """Check what the worker checks of its own handlers' outputs: json would pass on, or change, some of it silently.

    Raises:
        ValueError: It is not JSON; the message names the place.
    """
    if not isinstance(value, (dict, list, tuple)):
        fault = _fault_of_leaf(value)
    elif depth >= _DEEPEST:
        fault = f"is nested deeper than {_DEEPEST}"
    else:
        fault = ""
    if fault:
        message = f"{place} {fault}"
        raise ValueError(message)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                message = f"{place} has a key that is not text: {key!r}"
                raise ValueError(message)  # noqa: TRY004  the one error of this function
            _refuse_unstorable(key, f"a key of {place}", depth)
            _refuse_unstorable(item, f"{place}.{key}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_unstorable(item, f"{place}[{index}]", depth + 1)


def _fault_of_leaf(value: object) -> str:
    if isinstance(value, str):
        if "\0" in value:
            return "contains a NUL character"
        surrogate = not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
        return "is text with a lone surrogate" if surrogate else ""
    if isinstance(value, int):
        return "" if value in _INT64 else "is an integer beyond 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"is {value}, which JSON cannot hold"
    return "" if value is None else f"is not JSON: {type(value).__name__}"


def _encode(result: dict[str, object]) -> str:
    try:
        if "output" in result:
            _refuse_unstorable(result["output"], "output")
        return json.dumps(result, allow_nan=False)
    except MemoryError:
        return json.dumps(_TOO_LITTLE_MEMORY)
    except ValueError as error:
        return json.dumps(_error("InvalidOutput", str(error), final=True))
    except BaseException as error:  # noqa: BLE001  the output's own methods may raise whatever they like
        return json.dumps(_error("InvalidOutput", f"output is not JSON: {type(error).__name__}", final=True))


def _run(request: dict[str, object]) -> dict[str, object]:
    names: dict[str, object] = {"__name__": "headway_inline", "__builtins__": __builtins__}
    try:
        exec(compile(str(request["code"]), "<code>", "exec"), names)  # noqa: S102  running it is the purpose
    except SyntaxError as error:
        return _failure(error, final=True)
    except BaseException as error:  # noqa: BLE001  even SystemExit is the code's failure
        return _failure(error, final=False)
    run = names.get("run")
    if not callable(run):
        return _failure(NameError("the code defines no function run(input)"), final=True)
    try:
        return {"output": run(request["input"])}
    except MemoryError as error:
        error.__traceback__ = None  # frees what the frames hold, for the report to have room
        return _TOO_LITTLE_MEMORY
    except BaseException as error:  # noqa: BLE001  as above
        return _failure(error, final=False)


def _main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    _limit(request["limits"])
    process = os.getpid()
    result = _run(request)
    if os.getpid() != process:  # the code forked, and its child came out of run as well: one answer is enough
        os._exit(0)
    text = _encode(result)
    with os.fdopen(answer, "w") as stream:
        stream.write(text)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not the interpreter's own end: threads that the code started must not keep the process.
    os._exit(0)


_main()
