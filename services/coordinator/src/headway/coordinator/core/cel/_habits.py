"""Expressions as other languages spell them, and how they are spelt here.

One table of rewritings, each from the words of a language to those of CEL. They are tried on an expression that does
not compile, outside of its texts; what comes out is offered only if it compiles. Nothing here is part of the language.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from headway.coordinator.core.cel._messages import TEXT_LITERAL, WORDS_OF_OTHERS

_LONGEST = 400  # characters of an expression that is rewritten
_ROUNDS = 8  # how often one rewriting may apply
_TEXTS = re.compile(TEXT_LITERAL, re.DOTALL)
_OPEN, _SHUT = "\ue000", "\ue001"  # around the number of a text, while it stands aside
_HELD = re.compile(f"{_OPEN}(\\d+){_SHUT}")
_TEXT = f"{_OPEN}\\d+{_SHUT}"
_KEY = re.compile(rf"(?:(?P<get>\.get\(\s*)|(?<=[\w\])])\[){_OPEN}(?P<number>\d+){_SHUT}(?(get)|\])")
_TEMPLATE = re.compile(r"\s*(?:\$\{[^{}]*\}|\$?\{\{[^{}]*\}\})\s*")  # which is all of a text
_WORD = re.compile(r"[A-Za-z_]\w*")
_STEP = rf"(?:\??\.[A-Za-z_]\w*(?!\w*\s*\()|\[(?:{_TEXT}|\w+)\])"
_PATH = rf"(?<![\w.\])])(?!(?:and|or|not|if|else|is|in)\b)[A-Za-z_]\w*{_STEP}*(?![\w(])"
_ARGUMENTS = r"\((?:[^()]|\([^()]*\))*\)"
_PATH_CALLED = rf"(?<![\w.\])])[A-Za-z_]\w*(?:\.\w+(?:{_ARGUMENTS})?)*{_ARGUMENTS}"
_FIELD = rf"(?<![\w.\])])[A-Za-z_]\w*{_STEP}*\??\.[A-Za-z_]\w*(?![\w(\[])"
_LITERAL = rf"(?:{_TEXT}|-?\d+(?:\.\d+)?|null|None|nil|\[[^\[\]]*\]|\{{[^{{}}]*\}})"
_VALUE = rf"(?:{_LITERAL}|true|false|True|False|{_PATH})"
_CALLED = r"\s*\(\s*\)"  # without arguments
_ROOTS = "inputs?|steps|tasks|workflow|item|vars|nodes|outputs?|params|run|error|last|index|payload"
_ELSEWHERE = (
    (re.compile(r"\b(?:inputs|params|workflow)\.(?:parameters\.)?"), "input."),
    (re.compile(r"\b(?:steps|tasks|needs)\."), "nodes."),
    (re.compile(r"\.outputs\.(?:parameters\.|result\b)?"), ".output."),
)
# What yields one value, another language calls; {0} is what it is of.
_CALLS: Mapping[str, str] = {
    **dict.fromkeys(("len", "length", "count"), "size({0})"),
    **dict.fromkeys(("str", "String", "toString", "to_string", "tostring"), "string({0})"),
    **dict.fromkeys(("float", "Number", "parseFloat", "toNumber", "to_number", "tonumber"), "double({0})"),
    **dict.fromkeys(("parseInt", "integer", "toInt", "to_int", "Math.floor", "Math.trunc"), "int({0})"),
    **dict.fromkeys(("boolean", "Boolean"), "bool({0})"),
    **dict.fromkeys(("defined", "isset", "isDefined", "isPresent", "present", "exists"), "has({0})"),
    **dict.fromkeys(("empty", "isEmpty", "is_empty"), "size({0}) == 0"),
    **dict.fromkeys(("isNull", "is_null", "is_none", "isNone"), "{0} == null"),
}
# The same behind a dot.
_METHODS: Mapping[str, str] = {
    **dict.fromkeys(("length", "len", "count"), "size({0})"),
    **dict.fromkeys(("toString", "to_s", "toStr"), "string({0})"),
    **dict.fromkeys(("isEmpty", "empty", "is_empty"), "size({0}) == 0"),
}
_OF_TEXTS: Mapping[str, str] = {
    **dict.fromkeys(("includes", "Contains", "include"), "contains"),
    **dict.fromkeys(("startswith", "starts_with", "StartsWith", "hasPrefix"), "startsWith"),
    **dict.fromkeys(("endswith", "ends_with", "EndsWith", "hasSuffix"), "endsWith"),
    **dict.fromkeys(("match", "search", "test"), "matches"),
}
_OF_LISTS: Mapping[str, str] = {"some": "exists", "any": "exists", "every": "all"}
_COMPARED = {
    "eq": "==",
    "ne": "!=",
    "neq": "!=",
    "gt": ">",
    "lt": "<",
    "ge": ">=",
    "gte": ">=",
    "le": "<=",
    "lte": "<=",
}

_Found: TypeAlias = "re.Match[str]"
_Written: TypeAlias = str | Callable[[_Found], str]


def _words(names: Mapping[str, str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def _apart(found: _Found, written: str) -> str:
    """In brackets, unless nothing stands beside it."""
    before, behind = found.string[: found.start()].rstrip(), found.string[found.end() :].lstrip()
    is_alone = before[-1:] in ("", "(", "[", ",") and behind[:1] in ("", ")", "]", ",")
    return written if is_alone else f"({written})"


def _guarded(found: _Found) -> str:
    given = found.groupdict()
    path = given["path"].replace("?.", ".")
    return _apart(found, f"has({path}) ? {path} : {given.get('other') or 'null'}")


def _guarded_alone(found: _Found) -> str:
    """Of `or`: where something is compared beside it, it may be an operator as well."""
    written = _guarded(found)
    return found[0] if written.startswith("(") else written


def _safe(found: _Found) -> str:
    path = found[0].replace("?.", ".")
    return _apart(found, f"has({path}) ? {path} : null")


def _negated(found: _Found) -> str:
    inner = found["rest"].strip()
    return f"!{inner}" if re.fullmatch(_PATH, inner) else f"!({inner})"


def _chosen(found: _Found) -> str:
    asked, one = found["asked"], found["one"].strip()
    if asked == one and re.fullmatch(_FIELD, asked):
        asked = f"has({asked})"
    elif re.fullmatch(r"(!?)nodes\.\w+\.output", asked):  # elsewhere what is there is true
        asked = re.sub(r"nodes\S+", r"has(\g<0>)", asked)
    return f"{asked} ? {one} : {found['other']}"


def _is_compound(text: str) -> bool:
    return re.search(r"[^\w.\[\]\ue000\ue001]", text.strip()) is not None


def _unwrapped(found: _Found) -> str:
    inner = found["inner"].strip()
    for pattern, here in _ELSEWHERE:
        inner = pattern.sub(here, inner)
    is_whole = found.start() == 0 and found.end() == len(found.string)
    return inner if is_whole or not _is_compound(inner) else f"({inner})"


def _comprehended(found: _Found) -> str:
    name, over, value, asked = found["name"], found["over"], found["value"].strip(), (found["asked"] or "").strip()
    over = f"{over}.filter({name}, {asked})" if asked else over
    how = {"any": "exists", "all": "all"}.get(found["how"] or "", "map")
    return over if how == "map" and value == name else f"{over}.{how}({name}, {value})"


_COMPREHENSION = (
    rf"(?:(?P<how>any|all)\s*\(|\[)\s*(?P<value>[^\[\]]+?)\s+for\s+(?P<name>\w+)\s+in\s+(?P<over>{_PATH})"
    r"(?:\s+if\s+(?P<asked>[^\]]+?))?\s*[\])]"
)
# In this order: what stands inside of another spelling comes before it.
_REWRITINGS: tuple[tuple[str, _Written], ...] = (
    (r"\A\s*=(?!=)\s*", ""),
    (r"\$?\{\{(?P<inner>[^{}]*)\}\}", _unwrapped),
    (r"[$#]\{(?P<inner>[^{}]*)\}", _unwrapped),
    (r"(?<!\w)\$\.(?=nodes\.\w+\.(?:output|state)\b)", ""),
    (r"(?<!\w)\$\.(?=[A-Za-z_])", "input."),
    (rf"(?<!\w)\$(?=(?:{_ROOTS})\b)", ""),
    (r"\b(?:inputs|params|workflow\.parameters|inputs\.parameters)\.(?=\w)", "input."),
    (r"(?<![\w.])loop\.(?P<given>index|item)\b", r"\g<given>"),
    (rf"\b(?:{_words(WORDS_OF_OTHERS)})(?![\w(])", lambda found: WORDS_OF_OTHERS[found[0]]),
    (r"!==", "!="),
    (r"===", "=="),
    (r"<>", "!="),
    (r"(?<![=!<>])=(?![=~>])", "=="),
    (rf"\s(?P<sign>{_words(_COMPARED)})\s", lambda found: f" {_COMPARED[found['sign']]} "),
    (_COMPREHENSION, _comprehended),
    (r"\(\s*\(?\s*(?P<name>[A-Za-z_]\w*)\s*\)?\s*=>\s*", r"(\g<name>, "),
    (rf"\.(?P<name>{_words(_OF_LISTS)})\((?=\s*\w+\s*,)", lambda found: f".{_OF_LISTS[found['name']]}("),
    (rf"\.(?P<name>{_words(_OF_TEXTS)})\(", lambda found: f".{_OF_TEXTS[found['name']]}("),
    (
        rf"(?<![\w.])(?P<name>contains|startsWith|endsWith|matches|{_words(_OF_TEXTS)})\(\s*(?P<of>{_PATH})\s*,\s*",
        lambda found: f"{found['of']}.{_OF_TEXTS.get(found['name'], found['name'])}(",
    ),
    (rf"(?P<path>{_PATH})\.(?:hasOwnProperty|has|has_key|containsKey)\((?P<key>{_TEXT})\)", r"\g<key> in \g<path>"),
    (rf"(?P<path>{_PATH}\.\w+)\.get\(\)", _guarded),
    (rf"(?P<path>{_PATH}\.\w+)\.get\(\s*,\s*(?P<other>{_VALUE})\s*\)", _guarded),
    (rf"(?P<of>{_PATH})\s*\|\s*(?:length|count|size)\b(?!\s*\()", r"size(\g<of>)"),
    (rf"(?P<path>{_FIELD})\s*\|\s*default\s*\(\s*(?P<other>{_VALUE})[^()]*\)", _guarded),
    (rf"(?P<path>{_FIELD})\.(?:default|or_else|orElse|getOrElse|orValue)\(\s*(?P<other>{_VALUE})\s*\)", _guarded),
    (
        rf"\b(?:default|coalesce|ifnull|ifNull|nvl)\(\s*(?P<path>{_FIELD})\s*,\s*(?P<other>{_VALUE})\s*\)",
        _guarded,
    ),
    (rf"(?P<path>{_FIELD})\s*(?:\?\?|\?:)\s*(?P<other>{_VALUE})", _guarded),
    (rf"(?P<path>{_FIELD})\s*(?:\|\||\b(?:or|OR)\b)\s*(?P<other>{_LITERAL})", _guarded_alone),
    (rf"(?<![\w.\])])[A-Za-z_]\w*{_STEP}*\?\.[A-Za-z_]\w*{_STEP}*", _safe),
    (
        rf"(?<![\w.])(?P<name>{_words(_CALLS)})\((?P<of>[^()]*)\)",
        lambda found: _CALLS[found["name"]].format(found["of"]),
    ),
    (
        rf"(?P<of>{_PATH})\.(?P<name>{_words(_METHODS)}){_CALLED}",
        lambda found: _METHODS[found["name"]].format(found["of"]),
    ),
    (rf"(?P<of>{_PATH_CALLED})\.(?:length|len|count|size)\b(?!\s*\()", r"size(\g<of>)"),
    (rf"(?P<of>{_PATH})\[-(?P<back>\d+)\]", r"\g<of>[size(\g<of>) - \g<back>]"),
    (rf"(?P<of>{_PATH})\s+is\s+not\s+defined\b", r"!has(\g<of>)"),
    (rf"(?P<of>{_PATH})\s+is\s+defined\b", r"has(\g<of>)"),
    (r"\bis\s+not\b|\bIS\s+NOT\b", "!="),
    (r"\b(?:is|IS)\b", "=="),
    (rf"(?P<one>{_VALUE})\s+(?:not|NOT)\s+(?:in|IN)\s+(?P<other>{_VALUE})", r"!(\g<one> in \g<other>)"),
    (r"\b(?:not|NOT)\s*(?=\()", "!"),
    (r"\b(?:not|NOT)\s+(?P<rest>[^()]*?)(?=\s*(?:&&|\|\||\b(?:and|or|AND|OR)\b|\)|$))", _negated),
    (r"\b(?:and|AND)\b|(?<!&)&(?!&)", "&&"),
    (r"\b(?:or|OR)\b|(?<!\|)\|(?!\|)", "||"),
    (
        r"(?:(?<=\()|^)\s*(?P<one>[^()?]+?)\s+if\s+(?P<asked>[^()?]+?)\s+else\s+(?P<other>[^()?]+?)\s*(?=\)|$)",
        _chosen,
    ),
)
_TABLE = tuple((re.compile(pattern), written) for pattern, written in _REWRITINGS)


def as_spelt_here(source: str) -> str:
    """Returns an expression of another language as it is spelt here, as far as the table knows; it may be unchanged."""
    if len(source) > _LONGEST or _OPEN in source:
        return source
    texts: list[str] = []

    def put_aside(found: _Found) -> str:
        if template := _TEMPLATE.fullmatch(found[0][1:-1]):
            return template[0]
        texts.append(found[0])
        return f"{_OPEN}{len(texts) - 1}{_SHUT}"

    def as_field(found: _Found) -> str:
        name = texts[int(found["number"])][1:-1]
        return f".{name}{'.get(' if found['get'] else ''}" if _WORD.fullmatch(name) else found[0]

    code = _KEY.sub(as_field, _TEXTS.sub(put_aside, source.strip()))
    for pattern, written in _TABLE:
        for _ in range(_ROUNDS):
            changed = pattern.sub(written, code, count=1)
            if changed == code:
                break
            code = changed
    return _HELD.sub(lambda found: texts[int(found[1])], code)
