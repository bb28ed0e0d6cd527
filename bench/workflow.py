"""The workflows that are measured. Their nodes do no work, so that what is left is the engine's."""

STEPS = 10
PAD = "x" * 180  # with the counter and the braces, about 200 bytes of payload


def line(name: str, steps: int = STEPS, *, retention: str = "") -> str:
    """A line of `call` nodes with an expression on each input; the output is how many steps its counter went through.

    Args:
        name: The workflow's name.
        steps: How many nodes, besides the `finish` at the end.
        retention: How long finished runs are kept, such as "1m"; empty: for ever.
    """
    nodes: list[str] = []
    for step in range(steps):
        before = f"nodes.s{step - 1}.output" if step else "input"
        values = f'{{n: "${{{before}.n + 1}}", step: {step}, pad: "${{{before}.pad}}"}}'
        nodes.append(f"  s{step}: {{type: call, handler: bench.step, queue: bench, input: {values}}}")
    nodes.append(f'  done: {{type: finish, output: "${{nodes.s{steps - 1}.output.n}}"}}')
    source = _source(name, nodes, [[*(f"s{step}" for step in range(steps)), "done"]])
    return f"{source}retention: {retention}\n" if retention else source


def wide(name: str, width: int) -> str:
    """So many `call` nodes side by side, all into one join; the last in the order of writing has the highest step."""
    nodes = [
        f"  s{step}: {{type: call, handler: bench.step, queue: bench, input: {{step: {step}}}}}"
        for step in range(width)
    ]
    return _source(name, [*nodes, "  all: {type: join}"], [[f"s{step}", "all"] for step in range(width)])


def mapped(name: str, at_once: int) -> str:
    """A map over `input.items` of `call` nodes, with so many items under way at once; a step is an item's index."""
    body = '{type: call, handler: bench.step, queue: bench, input: {step: "${index}"}}'
    node = f'  all: {{type: map, over: "${{input.items}}", max_concurrency: {at_once}, body: {body}}}'
    return _source(name, [node], [])


def unread(name: str) -> str:
    """One `call` node on a queue that no worker reads."""
    return _source(name, ["  s0: {type: call, handler: bench.step, queue: nobody, input: {step: 0}}"], [])


def held(name: str, width: int, lease: str) -> str:
    """So many `call` nodes side by side whose handler never ends, with a lease such as "10s"."""
    nodes = [
        f"  s{step}: {{type: call, handler: bench.hold, queue: hold, lease: {lease}, input: {{step: {step}}}}}"
        for step in range(width)
    ]
    return _source(name, nodes, [])


def waiting(name: str, *, calls: bool) -> str:
    """A `wait` until the instant in the input, with or without a `call` after it."""
    nodes = ['  pause: {type: wait, until: "${input.at}"}']
    if not calls:
        return _source(name, nodes, [])
    nodes.append("  s0: {type: call, handler: bench.step, queue: bench, input: {step: 0}}")
    return _source(name, nodes, [["pause", "s0"]])


def _source(name: str, nodes: list[str], chains: list[list[str]]) -> str:
    edges = ["edges:", *(f"  - [{', '.join(chain)}]" for chain in chains)] if chains else []
    return "\n".join([f"workflow: {name}", "nodes:", *nodes, *edges, ""])
