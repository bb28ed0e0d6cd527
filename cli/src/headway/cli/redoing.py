"""What a retry does again, told to people. Pure."""

from collections.abc import Iterator

from headway.client import RetriedItems, RetryPlan, StandingEffect, TaskState, UndoneNode

NAMED = 5  # items of a map that a line names; --json has more


def plan_lines(plan: RetryPlan) -> Iterator[str]:
    """What runs again, what is kept and what becomes of effects, one line each."""
    for label, nodes in (("starts again", plan.chosen), ("reset", plan.reset), ("kept", plan.kept)):
        yield _line(label, ", ".join(nodes) or "-")
    for each in plan.items:
        yield _line(f"in {each.path}", _items(each))
    for each in plan.undone:
        yield _line("undone", _undone(each))
    for each in plan.standing:
        yield _line("stands", _standing(each))
    for child in plan.children:
        where = f"from {', '.join(child.nodes)}, which failed" if child.nodes else "from what was stopped"
        yield f"{child.path} goes on in run {child.run_id} of {child.workflow}, {where}"
    for each in plan.new_children:
        yield f"{each.path} starts another run of {each.workflow}"
    if plan.runs_finally:
        when = "when that has ended" if plan.chosen or plan.reset else "at once: all else stays as it ended"
        yield _line("finally", f"runs again, {when}")


def _line(label: str, told: str) -> str:
    return f"{label:<13} {told}"


def _items(items: RetriedItems) -> str:
    if items.anew:
        return f"all items run again, however many there are then (there were {items.total})"
    sorts = (
        (items.failed, "that failed"),
        (items.stopped, "that were stopped"),
        (items.undone, "that were undone"),
        (items.chosen, "that were named"),
    )
    again = [f"{count} {which}" for count, which in sorts if count]
    named = ", ".join(items.paths[:NAMED])
    more = ", …" if sum(count for count, _ in sorts) > NAMED else ""
    told = [f"{' and '.join(again)} run again ({named}{more})"] if again else []
    told += [f"{items.unbegun} that were not begun follow"] if items.unbegun else []
    return f"of {items.total}: {'; '.join([*told, f'{items.kept} stay as they are'])}"


def _undone(node: UndoneNode) -> str:
    done = "by" if node.state is TaskState.SUCCEEDED else f"perhaps ({node.state.value}), by"
    return f"{node.path}, {done} {node.by}: it is done anew, under a new idempotency key"


def _standing(effect: StandingEffect) -> str:
    did = "what it did" if effect.count == 1 else f"what it did {effect.count} times"
    return f"{effect.path}: {did} stands, and it is done once more; should the run fail, all of it is undone"
