"""The handler of the tests of the command line: it charges good cards and declines bad ones."""

from typing import Any

from headway.worker import Final, handler


@handler("cashier.charge", queue="cashier")
async def charge(value: dict[str, Any]) -> dict[str, Any]:
    """Charge a card."""
    if value["card"] == "bad":
        raise Final("no funds", type="CardDeclined", details={"card": "bad"})
    return {"charged": value["amount"]}


@handler("cashier.ask", queue="cashier")
def ask(value: dict[str, Any]) -> dict[str, Any]:
    """Say that a payment has arrived, when asked often enough."""
    return {"arrived": value["asked"] >= value["after"]}
