"""The workflow that is measured: a line of `call` nodes with an expression on each input, without work."""

STEPS = 10
PAD = "x" * 180  # with the counter and the braces, about 200 bytes of payload


def source(name: str, steps: int = STEPS) -> str:
    """The YAML of a line of steps. The run's output is how many steps its counter went through."""
    lines = [f"workflow: {name}", "nodes:"]
    for step in range(steps):
        before = f"nodes.s{step - 1}.output" if step else "input"
        values = f'{{n: "${{{before}.n + 1}}", step: {step}, pad: "${{{before}.pad}}"}}'
        lines.append(f"  s{step}: {{type: call, handler: bench.step, queue: bench, input: {values}}}")
    lines.append(f'  done: {{type: finish, output: "${{nodes.s{steps - 1}.output.n}}"}}')
    chain = ", ".join([*(f"s{step}" for step in range(steps)), "done"])
    return "\n".join([*lines, "edges:", f"  - [{chain}]", ""])
