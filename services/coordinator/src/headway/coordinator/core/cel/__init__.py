"""The expression language: the one place that knows the CEL evaluator.

Compiles an expression once, evaluates it on JSON values that the caller binds, and gives a JSON value back. It reads
nothing but those values, and the work that one evaluation can ask for is limited: in the text's length, in the nesting
and size of comprehensions, in the values bound, and in the result.
"""

from headway.coordinator.core.cel._evaluator import (
    VARIABLES,
    Compiled,
    ExpressionError,
    ExpressionInvalid,
    References,
    UnknownNames,
    bare_path,
    compile_expression,
    meant_expression,
    references,
)
from headway.coordinator.core.cel._facts import asked_by, told_by
from headway.coordinator.core.cel._kinds import (
    BOOLEAN,
    LIST,
    MAP,
    NULL,
    NUMBER,
    TEXT,
    Judge,
    Kinds,
    Known,
    Misfit,
    words_for,
)
from headway.coordinator.core.cel._messages import TEXT_LITERAL, WORDS_OF_OTHERS, type_name, without_texts
from headway.coordinator.core.cel._parts import Part, Plain, kind_of, place_in
from headway.coordinator.core.cel._syntax import Chosen, Read

__all__ = [
    "BOOLEAN",
    "LIST",
    "MAP",
    "NULL",
    "NUMBER",
    "TEXT",
    "TEXT_LITERAL",
    "VARIABLES",
    "Chosen",
    "Compiled",
    "ExpressionError",
    "ExpressionInvalid",
    "Judge",
    "Kinds",
    "Known",
    "Misfit",
    "Part",
    "Plain",
    "Read",
    "References",
    "UnknownNames",
    "WORDS_OF_OTHERS",
    "asked_by",
    "bare_path",
    "compile_expression",
    "kind_of",
    "meant_expression",
    "place_in",
    "references",
    "told_by",
    "type_name",
    "without_texts",
    "words_for",
]
