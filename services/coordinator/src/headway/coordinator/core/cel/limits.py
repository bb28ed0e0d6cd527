"""How much work one expression may ask for.

Decisions wait while an expression is evaluated, so none may take long: what these allow stays within a few
milliseconds in earnest, and within a second or two for whoever tries.
"""

import math

MAX_SOURCE_BYTES = 4_096
MAX_LOOPS = 2  # comprehensions inside one another
MAX_LOOP_CALLS = 64  # calls and operators inside comprehensions; each comprehension itself counts up to four
MAX_LIST = (None, 1_000, 99)  # items of a bound list, by nesting; the evaluator itself stops after 10,000 rounds
MAX_LOOP_STEPS = (0, 10_000, 100_000)  # items, or pairs of items when nested, times calls for each; by nesting
MAX_BOUND_TEXT = 262_144  # characters of text within all bindings
MAX_LOOP_TEXT = 16_384  # the same, when there are comprehensions
MAX_BOUND_VALUES = 10_000  # values within all bindings of one evaluation
MAX_RESULT_VALUES = 10_000
MAX_RESULT_TEXT = 1_048_576
MAX_DEPTH = 64  # of bound values and results


# What an evaluation costs the decision that it is part of, in steps of a sixteenth of a microsecond.
EVALUATION_STEPS = 100
BOUND_STEPS, RESULT_STEPS = 12, 48  # for each value within them
FIRST_COMPARED_STEPS, COMPARED_STEPS = 8, 1  # for each value that is compared
LOOKED_UP_STEPS = 1  # for each item of the longest list, where something is looked for in one
JOINED_A_STEP = 2  # items of lists that are joined
TEXT_A_STEP = 128  # characters that are read, compared or joined, in each round
SEARCHED_A_STEP = 32  # characters that are searched, one by one
ITEMS_A_STEP = 16  # of a list that grows by one in each round
MAX_ROUNDS = 10_000  # of all comprehensions of one evaluation; the evaluator stops there


def longest_list(loops: int, loop_calls: int) -> int | None:
    """Returns how many items a bound list may have.

    Args:
        loops: how deep comprehensions are nested.
        loop_calls: calls and operators inside them.
    """
    most = MAX_LIST[loops]
    if most is None:
        return None
    steps = MAX_LOOP_STEPS[loops] // max(loop_calls, 1)
    return min(most, steps if loops == 1 else math.isqrt(steps))
