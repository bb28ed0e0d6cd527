"""A shop as the world outside offers it: over HTTP, sometimes slow, sometimes failing, in its own process.

It is not part of Headway. It stands for the stock, payment, shipping and mail services that a workflow has to live
with. What it promises is what good services promise: a POST with an `Idempotency-Key` takes effect once, and is
answered the same way each time. That, and Headway's at-least-once, make exactly-once at the shop.

    python -m examples.order_fulfilment.shop --ledger ledger.jsonl [--orders orders.json] [--port 8090]

HEADWAY_SHOP_SEED chooses the weather (see weather.py).
"""

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from examples.order_fulfilment.ledger import Ledger
from examples.order_fulfilment.weather import Fault, weather

Json: TypeAlias = dict[str, Any]

CARRIERS = {"swift": (1490, 1), "post": (690, 3), "freight": (990, 5)}  # price in cents, days


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a request is answered; `effect` and `facts` are what goes into the ledger if it moved something."""

    status: int
    body: Json
    effect: str = ""
    facts: Json = field(default_factory=dict[str, Any])


class Shop:
    """Stock, payments, shipping, invoices and mail; its state is what its ledger says."""

    def __init__(self, ledger: Ledger, stock: Mapping[str, int]) -> None:
        """Take over from the ledger."""
        self.ledger = ledger
        self.calls: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()
        self._stock = Counter(stock)
        self._answered: dict[str, tuple[Json, Answer]] = {}  # idempotency key -> request, its answer
        self._effects: Counter[str] = Counter()
        self._endpoints: dict[str, Callable[[str, Json], Answer]] = {
            "reservations": self._reserve,
            "releases": self._release,
            "charges": self._charge,
            "refunds": self._refund,
            "shipments": self._ship,
            "invoices": self._invoice,
            "mails": self._mail,
        }
        for entry in ledger.entries():
            self._recall(entry)

    def knows(self, endpoint: str) -> bool:
        """Say whether things can be posted there."""
        return endpoint in self._endpoints

    def count(self, endpoint: str, order: str) -> int:
        """Count a request and return its number, from 1."""
        with self._lock:
            self.calls[endpoint, order] += 1
            return self.calls[endpoint, order]

    def act(self, endpoint: str, order: str, key: str, request: Json) -> Answer:
        """Carry a request out, or answer it as the first time."""
        with self._lock:
            if key in self._answered:
                first, answer = self._answered[key]
                return answer if first == request else Answer(status=422, body={"error": "key_reused"})
            answer = self._endpoints[endpoint](order, request)
            entry = {"entry": "effect" if answer.effect else "refusal", "endpoint": endpoint, "order": order}
            entry |= {"key": key, "request": request, "status": answer.status, "body": answer.body}
            entry |= {"effect": answer.effect, "facts": answer.facts}
            self.ledger.append(entry)
            self._recall(entry)
            return answer

    def _recall(self, entry: Mapping[str, Any]) -> None:
        if entry["entry"] == "call":
            self.calls[entry["endpoint"], entry["order"]] += 1
            return
        answer = Answer(status=entry["status"], body=entry["body"], effect=entry["effect"], facts=entry["facts"])
        self._answered[entry["key"]] = (entry["request"], answer)
        self._effects[answer.effect] += 1
        for item in answer.facts.get("items", []):
            moved = item["quantity"] if answer.effect == "release" else -item["quantity"]
            self._stock[item["sku"]] += moved

    def _reserve(self, order: str, request: Json) -> Answer:
        for item in request["items"]:
            if self._stock[item["sku"]] < item["quantity"]:
                return Answer(status=409, body={"error": "out_of_stock", "sku": item["sku"]})
        facts = {"items": request["items"]}
        return Answer(status=201, body={"reservation": f"res_{order}"}, effect="reservation", facts=facts)

    def _release(self, order: str, request: Json) -> Answer:
        facts = {"items": request["items"]}
        return Answer(status=201, body={"released": f"res_{order}"}, effect="release", facts=facts)

    def _charge(self, order: str, request: Json) -> Answer:
        if request["card"].endswith("_declined"):
            return Answer(status=402, body={"error": "card_declined"})
        charge = f"ch_{self._effects['charge'] + 1:04}"  # a second charge for the same order would be a real one
        facts = {"amount_cents": request["amount_cents"]}
        return Answer(status=201, body={"charge": charge, "order": order}, effect="charge", facts=facts)

    def _refund(self, order: str, request: Json) -> Answer:
        refund = f"re_{self._effects['refund'] + 1:04}"
        facts = {"amount_cents": request["amount_cents"], "charge": request["charge"]}
        return Answer(status=201, body={"refund": refund, "order": order}, effect="refund", facts=facts)

    def _ship(self, order: str, request: Json) -> Answer:
        tracking = f"{request['carrier'][:2].upper()}{self._effects['shipment'] + 1:08}"
        facts = {"carrier": request["carrier"]}
        return Answer(status=201, body={"tracking": tracking, "order": order}, effect="shipment", facts=facts)

    def _invoice(self, order: str, _request: Json) -> Answer:
        number = f"INV-{self._effects['invoice'] + 1:05}"  # consecutive, without gaps: the tax office insists
        facts = {"number": number}
        return Answer(status=201, body={"number": number, "order": order}, effect="invoice", facts=facts)

    def _mail(self, order: str, request: Json) -> Answer:
        if request["to"].endswith(".invalid"):
            return Answer(status=422, body={"error": "address_rejected"})
        facts = {"to": request["to"], "template": request["template"]}
        return Answer(status=202, body={"queued": True, "order": order}, effect="mail", facts=facts)


class Door(BaseHTTPRequestHandler):
    """Translates HTTP to the shop, and lets the weather in."""

    protocol_version = "HTTP/1.1"
    shop: Shop
    seed: int

    def do_GET(self) -> None:  # the name is http.server's
        """Answer /health, /ledger, and /quotes with a carrier and an order."""
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == "/health":
            self._send(HTTPStatus.OK, {"status": "open"})
        elif url.path == "/ledger":
            self._send(HTTPStatus.OK, {"entries": self.shop.ledger.entries()})
        elif url.path == "/quotes" and query.get("carrier") in CARRIERS and "order" in query:
            price, days = CARRIERS[query["carrier"]]
            quote = {"carrier": query["carrier"], "price_cents": price, "days": days}
            self._serve(f"quotes/{query['carrier']}", query["order"], "", lambda: Answer(status=200, body=quote))
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "not_found"})

    def do_POST(self) -> None:  # the name is http.server's
        """Answer /reservations, /charges and the like."""
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        endpoint = self.path.strip("/")
        key = self.headers.get("Idempotency-Key", "")
        order = request.get("order", "")
        if not self.shop.knows(endpoint):
            self._send(HTTPStatus.NOT_FOUND, {"error": "not_found"})
        elif not key or not order:
            self._send(HTTPStatus.BAD_REQUEST, {"error": "key_and_order_wanted"})
        else:
            self._serve(endpoint, order, key, lambda: self.shop.act(endpoint, order, key, request))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Keep quiet: the ledger says it all."""

    def _serve(self, endpoint: str, order: str, key: str, act: Callable[[], Answer]) -> None:
        begin = time.monotonic()
        sky = weather(seed=self.seed, endpoint=endpoint, order=order, nth=self.shop.count(endpoint, order))
        time.sleep(sky.delay)
        answer = Answer(status=503, body={"error": "unavailable"})
        if sky.fault is not Fault.REFUSED:
            done = act()
            answer = done if sky.fault is Fault.NONE else answer
        entry = {"entry": "call", "endpoint": endpoint, "order": order, "key": key, "status": answer.status}
        entry |= {"fault": sky.fault, "begin": begin, "end": time.monotonic()}
        self.shop.ledger.append(entry)
        self._send(answer.status, answer.body)

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        with suppress(ConnectionError):  # the caller may be dead by now: that is the point of the demo
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


class Building(ThreadingHTTPServer):
    """One thread per connection."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Open the shop, print its address, serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="shop", description="An unreliable shop with a reliable ledger.")
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--orders", type=Path, default=Path(__file__).with_name("orders.json"))
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    options = parser.parse_args()
    stock = json.loads(options.orders.read_text(encoding="utf-8"))["stock"]
    ledger = Ledger(options.ledger)
    Door.shop = Shop(ledger, stock)
    Door.seed = int(os.environ.get("HEADWAY_SHOP_SEED", "7"))
    with Building(("127.0.0.1", options.port), Door) as building:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        sys.stdout.write(f"http://127.0.0.1:{building.server_port}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            building.serve_forever()
    ledger.close()


if __name__ == "__main__":
    main()
