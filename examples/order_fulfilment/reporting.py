"""What the demo tells people: one line while it runs, one table and the verdicts at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from examples.order_fulfilment.checks import Verdict

STYLES: Mapping[str, str] = {"shipped": "green", "refunded": "yellow", "declined": "red", "sold_out": "magenta"}
MOST_FAULTS = 5  # shown of each check


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An order in the table.

    Attributes:
        attempts: Of all its steps, how often they were begun.
        retried: How many of those because an attempt had failed.
        lost: How many of those because a worker had died.
        seconds: From start to end.
    """

    order: str
    outcome: str
    attempts: int
    retried: int
    lost: int
    seconds: float


def show_table(console: Console, rows: Sequence[Row]) -> None:
    """Print the table of all orders."""
    table = Table(title="orders", title_justify="left", header_style="bold")
    table.add_column("order")
    table.add_column("outcome")
    table.add_column("attempts", justify="right")
    table.add_column("retried", justify="right")
    table.add_column("lost", justify="right")
    table.add_column("duration", justify="right")
    for row in rows:
        style = STYLES.get(row.outcome, "bold red")
        numbers = (str(row.attempts), str(row.retried or ""), str(row.lost or ""))
        table.add_row(row.order, f"[{style}]{row.outcome}[/]", *numbers, f"{row.seconds:.1f} s")
    console.print(table)


def show_verdicts(console: Console, verdicts: Sequence[Verdict]) -> bool:
    """Print each check; returns True when all hold."""
    for verdict in verdicts:
        mark = "[red]✗[/]" if verdict.faults else "[green]✓[/]"
        console.print(f"{mark} {verdict.claim} [dim]({verdict.fact})[/]", highlight=False, soft_wrap=True)
        for fault in verdict.faults[:MOST_FAULTS]:
            console.print(f"    {fault}", highlight=False, markup=False, soft_wrap=True)
        if len(verdict.faults) > MOST_FAULTS:
            console.print(f"    … and {len(verdict.faults) - MOST_FAULTS} more")
    return not any(verdict.faults for verdict in verdicts)
