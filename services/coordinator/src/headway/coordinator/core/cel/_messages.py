"""The evaluator's messages, in the words of the workflow language.

CEL speaks of overloads, tokens and int64; whoever wrote the workflow thinks of JSON. One table for types, one for what
the checker says, one for what evaluation says and one for the usual slips; what none of them knows is passed on as it
is. Nothing here evaluates.
"""

import re
from dataclasses import dataclass

_STATUS = re.compile(r"^(?:[A-Z_]+: )+|\s*\[[A-Z_]+\]$")
_REPORT = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
# A text literal of CEL, with its prefix.
TEXT_LITERAL = (
    r'[rRbB]*(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
)
_STRINGS = re.compile(TEXT_LITERAL, re.DOTALL)

_TYPES = {
    "int": "integer",
    "int64": "integer",
    "uint": "unsigned integer",
    "uint64": "unsigned integer",
    "double": "number",
    "string": "text",
    "bool": "boolean",
    "list": "list",
    "map": "map",
    "null_type": "null",
    "null": "null",
    "bytes": "bytes",
    "dyn": "any value",
    "timestamp": "timestamp",
    "duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "*error*": "something unknown",
}

# What stands in an expression, outside its texts: what is wrong with it.
_SLIPS = (
    (re.compile(r"\$\{"), "${ } inside an expression", "leave the ${ } out: this is an expression already"),
    (re.compile(r"==="), "=== is not an operator", "write =="),
    (re.compile(r"!=="), "!== is not an operator", "write !="),
    (re.compile(r"(?<![=!<>])=(?![=~>])"), "a single = compares nothing", "write =="),
    (re.compile(r"<>"), "<> is not an operator", "write !="),
    (re.compile(r"(?i:\band\b)"), "`and` is not an operator", "write &&"),
    (re.compile(r"(?i:\bor\b)"), "`or` is not an operator", "write ||"),
    (re.compile(r"(?i:\bnot\b)"), "`not` is not an operator", "write !"),
    (re.compile(r"\bif\b.*\belse\b"), "`if … else` is not an expression", "write condition ? one : other"),
    (re.compile(r"\bis\b"), "`is` is not an operator", "write =="),
    (re.compile(r"(?<!&)&(?!&)"), "a single & is not an operator", "write &&"),
    (re.compile(r"(?<!\|)\|(?!\|)"), "a single | is not an operator", "write ||"),
    (re.compile(r"\?\?"), "?? is not an operator", "write has(input.name) ? input.name : other"),
    (re.compile(r"\?\."), "?. is not an operator", "write has(input.name) ? input.name : null"),
    (re.compile(r"\?\s*:"), "?: is not an operator", "write has(input.name) ? input.name : other"),
    (re.compile(r"=>"), "=> is not an operator", "write list.map(item, value)"),
    (re.compile(r"\bfor\b.*\bin\b"), "`for … in` is not an expression", "write list.map(item, value)"),
    (
        re.compile(r"(?<=[\w\])])\[[^\[\]{}?]*:[^\[\]{}?]*\]"),
        "parts are not cut out by [ : ]",
        "read one item, such as list[0], or compute this in a python node",
    ),
    (re.compile(r"\*\*"), "** is not an operator", "multiply, or compute it in a python node"),
)

# What other languages call it.
WORDS_OF_OTHERS = {
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
    **dict.fromkeys(("None", "nil", "undefined", "NULL", "Null"), "null"),
}

_TO_PYTHON = "compute this in a python node"
# Functions that other languages have, where there is more to say than that.
_FUNCTIONS_OF_OTHERS = {
    **dict.fromkeys(
        ("json", "toJson", "tojson", "toJSON", "to_json", "stringify", "dumps"),
        "leave it out: a template alone keeps its value, and within text it is spelt as JSON",
    ),
    **dict.fromkeys(("fromJSON", "fromJson", "from_json", "parse", "loads"), "leave it out: values are JSON already"),
    **dict.fromkeys(
        ("now", "today", "utcnow", "uuid", "uuid4", "random", "rand"),
        "take it in a handler or a python node: an expression yields the same each time",
    ),
    **dict.fromkeys(
        ("format", "concat", "printf", "sprintf"), 'write text with templates in it: "${input.a} ${input.b}"'
    ),
}

# Functions of the language by name, and how they are called; the checker calls one unknown when their number is wrong.
_CALLS = {
    "size": "size(value) or value.size()",
    "has": "has(input.name)",
    "all": "list.all(item, condition)",
    "exists": "list.exists(item, condition)",
    "exists_one": "list.exists_one(item, condition)",
    "map": "list.map(item, value) or list.map(item, condition, value)",
    "filter": "list.filter(item, condition)",
    "contains": 'text.contains("part")',
    "startsWith": 'text.startsWith("part")',
    "endsWith": 'text.endsWith("part")',
    "matches": 'text.matches("pattern")',
    "timestamp": 'timestamp("2030-01-31T09:00:00Z")',
    "duration": 'duration("90s")',
    **{name: f"{name}(value)" for name in ("int", "uint", "double", "string", "bool", "bytes", "type", "dyn")},
}
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'.*")
_SYNTAX_REMEDIES = (
    (re.compile(r"\?[^:]*\Z"), "write : behind it, and what it is otherwise, such as null"),
    (
        re.compile(r"\?.*[^?\s]\s*:\s*$", re.DOTALL),
        "the part behind : is missing: write what it is otherwise, such as null",
    ),
    (re.compile(r"\.\.|\.\s*$"), "write the field's name behind each . , or leave the . out"),
    (re.compile(r"\.\s*\d"), 'an item of a list is read by [0], a field whose name is no word by ["1"]'),
    (re.compile(r"[-+*/%<>=!&|?:,]\s*$"), "something is missing behind it"),
)
_SYNTAX_REMEDY = "put text in quotes, and an operator between two values; close each bracket once"

_OVERLOAD = re.compile(
    r"[Nn]o matching overloads? (?:found )?(?:for|:) '?([^\s'(]+)'?(?: applied to '?)?\s*(?:\((.*?)\))?'?$"
)
_CHECKS = (
    (_UNDECLARED, r"unknown function or name \1"),
    (re.compile(r"has\(\) argument must be a field selection"), "has( ) takes the path of a field"),
    (re.compile(r"Syntax error: missing '(.*)' at '.*"), r"\1 is missing"),
    (
        re.compile(r"expression of type '([^']*)' cannot be the operand of a select operation"),
        "a field is read of a value of type {1}",
    ),
    (re.compile(r"Syntax error: .*<EOF>' expecting.*"), "the expression ends too early"),
    (re.compile(r"Syntax error: (?:mismatched|extraneous) input '(.*)' expecting.*"), r'unexpected "\1"'),
    (re.compile(r"Syntax error: token recognition error at: '(.*?)\s*'?$"), r"unexpected \1"),
    (re.compile(r"Syntax error: no viable alternative at input '(.*)'"), r'unexpected "\1"'),
    (
        re.compile(r"(?:Exceeded max recursion depth|Expression recursion limit exceeded).*"),
        "the expression is nested too deeply",
    ),
)
_RUN_TIME = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r'there is no key "\1"'),
    (re.compile(r"(?:int too big to convert|can't convert negative int to unsigned)"), "integer overflow"),
    (re.compile(r"Applying SELECT to non-message type"), "a field is read of a value that is no map"),
    (re.compile(r"Index error: index=(-?\d+) size=(\d+)"), r"there is no item [\1]: the list has \2"),
    (re.compile(r"Iteration budget exceeded"), "the lists are too long to go through here"),
)
_OPERATOR = re.compile(r"^(?:_([^_]+)_|([!-])_|@(in|/)@?)$")
_SPECIAL = {
    "<jump_condition>": "the condition before ? is not a boolean",
    "_?_:_": "the condition before ? is not a boolean",
    "@items": "there are no items to go through in {}",
    "@item": "no value can be looked up by [ ] with such a key: {}",
    "_[_]": "no value can be looked up by [ ] here: {}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong with an expression's text; line and column are inside of it, from 1."""

    line: int
    column: int
    message: str
    remedy: str


def complaint_about(source: str, report: str) -> Complaint:
    """Returns what the evaluator's report on a source that does not compile means."""
    found = _REPORT.search(report)
    line, column, text = (int(found[1]), int(found[2]), found[3]) if found else (1, 1, report)
    text = _STATUS.sub("", text)
    if "yntax error" in text or "${" in source:
        slip = _slip_in(source)
        if slip is not None:
            return slip
    if not 1 <= line <= source.count("\n") + 1:  # it says -1:-1, or 4294967295:1, for all of the source
        line = column = 1
    message, remedy = _translate(text, _CHECKS), _TO_PYTHON
    undeclared = _UNDECLARED.fullmatch(text.strip())
    if undeclared is not None and undeclared[1] in _CALLS:
        message, remedy = f"the arguments of {undeclared[1]} do not fit", f"write {_CALLS[undeclared[1]]}"
    elif undeclared is not None:
        remedy = remedy_for_function(undeclared[1])
    elif _OVERLOAD.search(text):
        remedy = "convert a value, as by int(…), double(…) or string(…), or use another operator"
    elif "operand of a select" in text:
        remedy = "read a field of a map only: input.name"
    elif "nested too deeply" in message:
        remedy = "write it in several nodes, or compute it in a python node"
    elif "has() argument" in text:
        remedy = f"write {_CALLS['has']}"
    elif text.startswith("Syntax error"):
        code = _with_texts_marked(source)
        remedy = next((meaning for pattern, meaning in _SYNTAX_REMEDIES if pattern.search(code)), _SYNTAX_REMEDY)
    return Complaint(line=line, column=max(column, 1), message=message, remedy=remedy)


def run_time_message(text: str) -> str:
    """Returns what the evaluator says about an evaluation that failed, in our words."""
    return _translate(_STATUS.sub("", text), _RUN_TIME)


def type_name(cel_type: str) -> str:
    """Returns our word for a type of CEL: `integer` for `int`."""
    return _TYPES.get(cel_type, _TYPES.get(cel_type.partition("(")[0].partition("<")[0], cel_type))


def remedy_for_function(name: str) -> str:
    """Returns what to do about an unknown function."""
    return _FUNCTIONS_OF_OTHERS.get(name, _TO_PYTHON)


def without_texts(source: str) -> str:
    """Returns the source with each text literal blanked out, all else in its place."""
    return _STRINGS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)


def _with_texts_marked(source: str) -> str:
    """Returns the source with a quote for each character of a text, so that something still stands there."""
    return _STRINGS.sub(lambda found: re.sub(r"[^\n]", '"', found[0]), source)


def _slip_in(source: str) -> Complaint | None:
    code = _with_texts_marked(source)
    for pattern, message, remedy in _SLIPS:
        found = pattern.search(code)
        if found is not None:
            line = code.count("\n", 0, found.start()) + 1
            column = found.start() - (code.rfind("\n", 0, found.start()) + 1) + 1
            return Complaint(line=line, column=column, message=message, remedy=remedy)
    return None


def _translate(text: str, table: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    overload = _OVERLOAD.search(text)
    if overload is not None:
        return _translate_overload(overload[1], overload[2])
    for pattern, meaning in table:
        found = pattern.fullmatch(text.strip())
        if found is not None:
            return found.expand(meaning) if "{1}" not in meaning else meaning.replace("{1}", type_name(found[1]))
    return text.strip()


def _translate_overload(function: str, types: str | None) -> str:
    words = " and ".join(type_name(each.strip()) for each in _split_types(types)) if types else "these values"
    special = _SPECIAL.get(function)
    if special is not None:
        return special.format(words)
    operator = _OPERATOR.match(function)
    name = next((part for part in operator.groups() if part), function) if operator else function
    return f"{name} cannot be used on {words}"


def _split_types(types: str) -> list[str]:
    """Splits at commas outside brackets: `list(int), map(string, dyn)` holds two types."""
    flat = types
    while "(" in flat and ")" in flat:
        reduced = re.sub(r"\([^()]*\)", "", flat)
        if reduced == flat:
            break
        flat = reduced
    return flat.split(",")
