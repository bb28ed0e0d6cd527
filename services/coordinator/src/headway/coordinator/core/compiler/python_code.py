"""Whether the code of a python node can be run: it parses, and defines `run` with one argument. Nothing is executed."""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

_TEMPLATE = re.compile(r"(?<!\$)\$\{\s*((?:input|nodes|vars)\.[^{}\n]*|item(?:[.\[][^{}\n]*)?)\}")
_LINE_END = re.compile(r"\r\n?|\n")
_WORD = re.compile(r"[A-Za-z_]\w*")
_REMEDY = "write def run(input): …; what it returns is the output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong with the code; line and column are inside of it, from 1."""

    line: int
    column: int
    message: str
    remedy: str


def complaint_about(code: str) -> Complaint | None:
    """Returns what keeps the code from running, or None. Whatever is only seen at run time is not looked for."""
    try:
        with warnings.catch_warnings(action="ignore"):
            module = ast.parse(code)
    except SyntaxError as error:
        return _syntax(code, error)
    except (ValueError, RecursionError, MemoryError):
        message = "the code cannot be read: it is nested too deeply, or no text"
        return Complaint(line=1, column=1, message=message, remedy="nest it less deeply")
    defined = [each for each in _top_level(module.body) if _defines_run(each)]
    if not defined:
        return Complaint(line=1, column=1, message="the code defines no function run", remedy=_REMEDY)
    last = defined[-1]
    if isinstance(last, ast.AsyncFunctionDef):
        message = "run cannot be an async function"
        return Complaint(line=last.lineno, column=last.col_offset + 1, message=message, remedy="leave the async out")
    if isinstance(last, ast.FunctionDef) and not last.decorator_list and not _takes_one(last.args):
        message = "run must take one argument, the input"
        return Complaint(line=last.lineno, column=last.col_offset + 1, message=message, remedy=_REMEDY)
    return None


def templates_in(code: str) -> Iterator[tuple[int, str, str]]:
    """Yields the templates in texts of the code, but for f-strings: offset, text and remedy. They stay as they are."""
    found = list(_TEMPLATE.finditer(code))
    texts = _texts(code) if found else []
    for template in found:
        if any(template.start() in text for text in texts):
            path = template[1].strip()
            words = _WORD.findall(path)
            name = words[1] if words[0] == "nodes" and len(words) > 1 else words[-1]
            remedy = f'write input: {{{name}: "${{{path}}}"}} on the node, and read input["{name}"] in the code'
            yield template.start(), template[0], remedy


def _texts(code: str) -> list[range]:
    """Where texts stand that are no f-strings and no docstrings; nowhere, if the code cannot be read."""
    try:
        with warnings.catch_warnings(action="ignore"):
            module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    begins = [0, *(end.end() for end in _LINE_END.finditer(code)), len(code)]

    def offset(line: int, column: int) -> int:
        begin = begins[line - 1]
        return begin + len(code[begin : begins[line]].encode()[:column].decode())

    texts: list[range] = []
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
                continue
            case ast.Constant(value=str(), end_lineno=int(last), end_col_offset=int(column)):
                texts.append(range(offset(node.lineno, node.col_offset), offset(last, column)))
            case _:
                waiting += ast.iter_child_nodes(node)
    return texts


def _syntax(code: str, error: SyntaxError) -> Complaint:
    lines = code.split("\n")
    line = min(max(error.lineno or 1, 1), len(lines))
    column = min(max(error.offset or 1, 1), len(lines[line - 1]) + 1)
    remedy = "mend this line of the code"
    if "${" in lines[line - 1]:
        remedy = "code holds no templates: values come in as input"
    return Complaint(line=line, column=column, message=f"the code is no Python: {error.msg}", remedy=remedy)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the code is loaded, those inside `if`, `try`, `with` and loops included."""
    waiting: list[ast.AST] = [*reversed(body)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, ast.stmt):
            yield found
        if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += reversed([*ast.iter_child_nodes(found)])


def _defines_run(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name == "run"
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return any((each.asname or each.name) in ("run", "*") for each in names)
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Name) and each.id == "run" for each in targets)
        case ast.AnnAssign(target=ast.Name(id="run")):
            return True
        case _:
            return False


def _takes_one(arguments: ast.arguments) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    return needed <= 1 and (positional >= 1 or arguments.vararg is not None) and None not in arguments.kw_defaults
