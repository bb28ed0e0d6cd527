"""The handler of queue `invoices` in Python: what examples/worker_ts does in TypeScript, for machines without Node."""

from typing import Any

from examples.order_fulfilment.handlers import post
from examples.order_fulfilment.steps import recorded
from headway.worker import Context, handler


@handler("invoice.number", queue="invoices")
async def number(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Get the next invoice number for an order."""
    with recorded(context):
        return await post(order, "invoices", context)
