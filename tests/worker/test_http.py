"""The built-in `http` handler, against a real server."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest

from headway.api.tasks.v1 import tasks_pb2
from tests.worker.conftest import Bench


class Shop(ThreadingHTTPServer):
    """Answers with what the test sets; keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.status = 200
        self.headers: dict[str, str] = {"Content-Type": "application/json"}
        self.body = b'{"ok": true}'
        self.hold: threading.Event | None = None
        self.hang_up = False
        self.length: str | None = None
        self.asked = threading.Event()
        self.requests: list[dict[str, Any]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that gives up hangs up; that is no news."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        shop = self.server
        assert isinstance(shop, Shop)
        length = int(self.headers.get("content-length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        shop.requests.append(
            {"method": self.command, "path": self.path, "headers": headers, "body": self.rfile.read(length)}
        )
        shop.asked.set()
        if shop.hold is not None:
            shop.hold.wait(10)
        if shop.hang_up:
            self.close_connection = True
            return
        self.send_response(shop.status)
        for name, value in shop.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", shop.length or str(len(shop.body)))
        self.end_headers()
        self.wfile.write(shop.body)
        self.close_connection = shop.length is not None

    do_GET = do_POST = answer  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        del format, args


@pytest.fixture
def shop() -> Generator[Shop]:
    with Shop() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def request(bench: Bench, given: Any, **offer: Any) -> tasks_pb2.ReportItem:
    bench.dispatch("t1", "headway.http", given, queue="http", **offer)
    async with bench.worker(queues=None, builtins=["http"]):
        await bench.coordinator.until_reported("t1")
    assert bench.left("http") == 0
    return bench.coordinator.report_of("t1")


async def test_a_request_is_sent_as_given_and_its_answer_decoded(bench: Bench, shop: Shop) -> None:
    shop.status = 201
    given = {
        "method": "POST",
        "url": f"{shop.url}/reserve?a=1",
        "headers": {"X-Shop": "7"},
        "query": {"page": 2, "none": None},
        "body": {"order": "o-1"},
    }

    report = await request(bench, given)

    output = orjson.loads(report.succeeded.output)
    assert (output["status"], output["body"]) == (201, {"ok": True})
    assert output["headers"]["content-type"] == "application/json"
    sent = shop.requests[0]
    assert sent["method"] == "POST"
    assert sent["body"] == b'{"order":"o-1"}'
    assert sent["path"].endswith("page=2")
    assert sent["headers"]["content-type"] == "application/json"
    assert sent["headers"]["x-shop"] == "7"


async def test_a_query_is_added_to_that_of_the_url(bench: Bench, shop: Shop) -> None:
    await request(bench, {"url": f"{shop.url}/find?a=1", "query": {"b": "x y", "c": [1, 2], "d": True}})

    path, _, query = shop.requests[0]["path"].partition("?")
    assert path == "/find"
    assert sorted(query.replace("%20", "+").split("&")) == ["a=1", "b=x+y", "c=1", "c=2", "d=true"]


async def test_the_idempotency_key_and_the_trace_travel_along(bench: Bench, shop: Shop) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"

    await request(bench, {"url": shop.url}, idempotency_key="run-1/reserve/0", traceparent=trace)

    headers = shop.requests[0]["headers"]
    assert headers["idempotency-key"] == "run-1/reserve/0"
    assert headers["traceparent"] == trace


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_status_that_another_try_may_change_is_retryable(bench: Bench, shop: Shop, status: int) -> None:
    shop.status = status

    failed = (await request(bench, {"url": shop.url})).failed

    assert (failed.type, failed.final) == ("HttpStatus", False)
    assert orjson.loads(failed.details)["status"] == status


@pytest.mark.parametrize("status", [301, 400, 401, 404, 409, 422])
async def test_every_other_status_is_final_and_carries_status_and_body(bench: Bench, shop: Shop, status: int) -> None:
    shop.status = status
    shop.body = b'{"why": "sold out"}'

    failed = (await request(bench, {"url": shop.url})).failed

    assert (failed.type, failed.final) == ("HttpStatus", True)
    assert orjson.loads(failed.details) == {"status": status, "body": {"why": "sold out"}}


async def test_expected_statuses_are_success_and_others_are_not(bench: Bench, shop: Shop) -> None:
    shop.status = 404

    report = await request(bench, {"url": shop.url, "expect": [200, 404]})

    assert orjson.loads(report.succeeded.output)["status"] == 404


async def test_a_2xx_that_is_not_expected_is_final(bench: Bench, shop: Shop) -> None:
    assert (await request(bench, {"url": shop.url, "expect": 202})).failed.final


async def test_when_to_come_back_is_told_in_the_details(bench: Bench, shop: Shop) -> None:
    shop.status = 429
    shop.headers["Retry-After"] = "7"

    failed = (await request(bench, {"url": shop.url})).failed

    assert orjson.loads(failed.details)["retry_after"] == "7"


async def test_a_large_body_of_a_failure_is_cut_so_that_its_status_is_kept(bench: Bench, shop: Shop) -> None:
    shop.status = 409
    shop.body = orjson.dumps(["x" * 100_000])

    failed = (await request(bench, {"url": shop.url})).failed

    details = orjson.loads(failed.details)
    assert details["status"] == 409
    assert details["body_cut"]


@pytest.mark.parametrize("content", ["text/plain; charset=utf-8", "application/json"])
async def test_a_body_that_is_no_json_is_text(bench: Bench, shop: Shop, content: str) -> None:
    shop.headers["Content-Type"] = content
    shop.body = "grüß\0e".encode()

    report = await request(bench, {"url": shop.url})

    assert orjson.loads(report.succeeded.output)["body"] == "grüß\ufffde"


async def test_a_body_over_the_limit_is_a_final_failure_even_when_it_came_compressed(bench: Bench, shop: Shop) -> None:
    shop.headers["Content-Encoding"] = "gzip"
    shop.body = gzip.compress(b"x" * (1024 * 1024 + 1))

    failed = (await request(bench, {"url": shop.url})).failed

    assert (failed.type, failed.final) == ("HttpResponseTooLarge", True)


async def test_a_server_that_cannot_be_reached_is_retryable(bench: Bench, shop: Shop) -> None:
    del shop

    failed = (await request(bench, {"url": "http://127.0.0.1:1/"})).failed

    assert (failed.type, failed.final) == ("HttpUnreachable", False)


async def test_a_server_that_hangs_up_is_retryable(bench: Bench, shop: Shop) -> None:
    shop.hang_up = True

    failed = (await request(bench, {"url": shop.url})).failed

    assert (failed.type, failed.final) == ("HttpUnreachable", False)


async def test_an_answer_that_takes_too_long_is_a_retryable_time_out(bench: Bench, shop: Shop) -> None:
    shop.hold = threading.Event()

    failed = (await request(bench, {"url": shop.url, "timeout": 0.2})).failed
    shop.hold.set()

    assert (failed.type, failed.final) == ("HttpTimeout", False)
    assert failed.failure_class == tasks_pb2.FAILURE_CLASS_TIMEOUT


async def test_without_a_time_out_of_its_own_a_request_lasts_as_long_as_its_lease_is_renewed(
    bench: Bench, shop: Shop
) -> None:
    bench.coordinator.lease_seconds = 0.6
    shop.hold = threading.Event()
    hold = shop.hold

    def extend(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        if len(bench.coordinator.renewals) >= 5:  # each a third of the lease
            hold.set()
        return bench.coordinator.extend(item)

    bench.coordinator.script.renew = extend
    report = await request(bench, {"url": shop.url})

    assert orjson.loads(report.succeeded.output)["status"] == 200


@pytest.mark.parametrize("charset", ["klingon", "base64", "undefined"])
async def test_an_answer_in_an_unknown_charset_is_a_retryable_failure_that_says_so(
    bench: Bench, shop: Shop, charset: str
) -> None:
    shop.headers["Content-Type"] = f"text/plain; charset={charset}"

    failed = (await request(bench, {"url": shop.url})).failed

    assert (failed.type, failed.final) == ("HttpError", False)
    assert charset in failed.message


@pytest.mark.parametrize("length", ["99999", "x", "-1"])
async def test_an_answer_of_a_wrong_length_is_a_retryable_failure(bench: Bench, shop: Shop, length: str) -> None:
    shop.length = length

    failed = (await request(bench, {"url": shop.url, "timeout": 5})).failed

    assert (failed.type, failed.final) == ("HttpUnreachable", False)
    assert shop.url in failed.message


@pytest.mark.parametrize("length", ["1", "99", "x"])
async def test_a_request_of_a_wrong_length_is_a_final_failure_that_says_so(
    bench: Bench, shop: Shop, length: str
) -> None:
    given = {"url": shop.url, "method": "POST", "body": "four", "headers": {"Content-Length": length}}

    failed = (await request(bench, given)).failed

    assert (failed.type, failed.final) == ("HttpInvalidRequest", True)
    assert "content-length" in failed.message


async def test_the_scheme_may_be_in_capitals(bench: Bench, shop: Shop) -> None:
    report = await request(bench, {"url": shop.url.replace("http", "HTTP")})

    assert orjson.loads(report.succeeded.output)["status"] == 200


async def test_a_body_that_fits_the_limit_only_without_what_is_around_it_is_too_large(bench: Bench, shop: Shop) -> None:
    shop.headers["Content-Type"] = "text/plain"
    shop.body = b"x" * 1024 * 1024

    failed = (await request(bench, {"url": shop.url})).failed

    assert (failed.type, failed.final) == ("HttpResponseTooLarge", True)
    assert "1048576" in failed.message


async def test_a_cancelled_request_is_given_up_at_once(bench: Bench, shop: Shop) -> None:
    shop.hold = threading.Event()
    bench.coordinator.lease_seconds = 0.6

    def cancel(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        result = bench.coordinator.extend(item)
        result.cancel = shop.asked.is_set()
        return result

    bench.coordinator.script.renew = cancel
    report = await asyncio.wait_for(request(bench, {"url": shop.url}), 8)
    shop.hold.set()

    assert report.HasField("cancelled")


@pytest.mark.parametrize(
    "given",
    [
        None,
        {"url": "ftp://example.com"},
        {"url": "http://"},
        {"url": "http://[::1"},
        {"url": "http://x", "method": "BREW"},
        {"url": "http://x", "headers": {"a": "b\r\nc: d"}},
        {"url": "http://x", "headers": {"a b": "c"}},
        {"url": "http://x", "timeout": 0},
        {"url": "http://x", "expect": "2xx"},
        {"url": "http://x", "verb": "GET"},
    ],
)
async def test_input_that_is_no_request_is_a_final_failure(bench: Bench, given: Any) -> None:
    failed = (await request(bench, given)).failed

    assert (failed.type, failed.final) == ("HttpInvalidRequest", True)
