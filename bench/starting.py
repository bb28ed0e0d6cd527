"""Starting many runs, as cheaply as the client can: the load generator shares the machine with what is measured."""

from collections.abc import Mapping, Sequence

from bench.checking import WrongResult
from headway.client import Client, JsonInput, NewRun, Refused


async def start_each(client: Client, starts: Sequence[tuple[str, Mapping[str, JsonInput]]]) -> list[str]:
    """Start a run of each workflow with its input; answers their ids in this order. Refusals for now are retried.

    Raises:
        WrongResult: A run was refused.
    """
    ids: list[str] = []
    for result in await client.start_many([NewRun(workflow, value) for workflow, value in starts]):
        if isinstance(result, Refused):
            raise WrongResult(f"a start was refused: {result}")
        ids.append(result.run_id)
    return ids
