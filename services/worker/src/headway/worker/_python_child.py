"""What runs in the child process of `headway.python`: a script of its own, started with `python -I`.

Imports nothing of Headway. Reads `{"code", "input", "limits": {"cpu", "memory", "wall"}}` from stdin and writes one
JSON object to what was stdout: `{"output": …}` or `{"error": {"type", "message", "trace", "final"}}`. What the code
prints goes to stderr.
"""

import json
import os
import resource
import signal
import sys
import traceback

_FILE_SIZE = 64 * 1024 * 1024
_GRACE = 2


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
    trace = "".join(traceback.format_exception(type(error), error, frames))
    return {"error": {"type": type(error).__name__, "message": str(error), "trace": trace[-16384:], "final": final}}


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
        return {"error": {"type": "MemoryError", "message": "", "trace": "", "final": True, "limit": "memory"}}
    except BaseException as error:  # noqa: BLE001  as above
        return _failure(error, final=False)


def _main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    _limit(request["limits"])
    result = _run(request)
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        text = json.dumps(
            {
                "error": {
                    "type": "InvalidOutput",
                    "message": f"the output is not JSON: {error}",
                    "trace": "",
                    "final": True,
                }
            }
        )
    with os.fdopen(answer, "w") as stream:
        stream.write(text)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not the interpreter's own end: threads that the code started must not keep the process.
    os._exit(0)


_main()
