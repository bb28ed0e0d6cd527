"""What the workers of the order example can do: take money, give it back, ship, number invoices, write mails.

A worker serves it by `headway worker examples.order_fulfilment.handlers`. Handlers may be async or plain functions;
plain ones run in threads. Every call to the shop carries the task's idempotency key: Headway runs a step at least once,
the shop makes it exactly once.
"""

from collections.abc import Mapping
from typing import Any

import httpx

from examples.order_fulfilment.steps import recorded
from headway.worker import Context, Final, Retryable, handler

PATIENCE = 10.0  # seconds; the workflow's time-outs for an attempt are shorter
CLIENT = httpx.AsyncClient(timeout=PATIENCE)
PLAIN_CLIENT = httpx.Client(timeout=PATIENCE)


class ShopUnavailable(Retryable):
    """The shop answered 503: another try may succeed."""


class ShopRefused(Final):
    """The shop does not accept the request; trying again cannot help."""


class CardDeclined(Final):
    """The bank said no; trying again cannot help."""


class AddressRejected(Final):
    """No such mail address; trying again cannot help."""


@handler("payments.charge", queue="payments")
async def charge(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take the money for an order. Returns the charge's id."""
    with recorded(context):
        return await post(order, "charges", context, amount_cents=order["amount_cents"], card=order["card"])


@handler("payments.refund", queue="payments")
async def refund(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Give the money for an order back. Returns the refund's id."""
    with recorded(context):
        return await post(order, "refunds", context, amount_cents=order["amount_cents"], charge=order["charge"])


@handler("shipping.create")
async def ship(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Hand an order to a carrier. Returns the tracking code."""
    with recorded(context):
        return await post(order, "shipments", context, carrier=order["carrier"])


@handler("mail.send")
def mail(letter: dict[str, Any], context: Context) -> dict[str, Any]:
    """Write to a customer: a plain function, for which the SDK keeps a thread."""
    with recorded(context):
        request = {"order": letter["order"], "to": letter["to"], "template": letter["template"]}
        return _read(PLAIN_CLIENT.post(f"{letter['shop']}/mails", json=request, headers=_headers(context)))


async def post(order: Mapping[str, Any], endpoint: str, context: Context, **facts: object) -> dict[str, Any]:
    """Ask the shop to do something for an order, once, however often it is asked."""
    request = {"order": order["order"], **facts}
    return _read(await CLIENT.post(f"{order['shop']}/{endpoint}", json=request, headers=_headers(context)))


def _headers(context: Context) -> dict[str, str]:
    return {"Idempotency-Key": context.idempotency_key}


def _read(response: httpx.Response) -> dict[str, Any]:
    """Return the shop's answer, or raise the failure that it stands for."""
    answer: dict[str, Any] = response.json()
    if response.is_success:
        return answer
    failures = {402: CardDeclined, 422: AddressRejected, 503: ShopUnavailable}
    failure = failures.get(response.status_code, ShopRefused)
    message = f"the shop answered {response.status_code}: {answer['error']}"
    raise failure(message, details={"status": response.status_code, "error": answer["error"]})
