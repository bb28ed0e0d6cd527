"""The built-in handler `headway.http`: one HTTP request, and the rule by which its answer counts.

2xx is success, unless `expect` lists other statuses. 408, 425, 429, 5xx, failing to connect, write or read, and
an answer that cannot be understood are retryable; every other status is final. A failure carries status and body, so
that a failure edge can say `error.status == 409`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx
import orjson

from headway.worker._context import Context
from headway.worker._errors import Final, Retryable, TaskFailed
from headway.worker._outcomes import OUTPUT_LIMIT, cut_details

HTTP_HANDLER = "headway.http"
HTTP_QUEUE = "http"

_RETRYABLE_STATUSES = frozenset({408, 425, 429})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_KEYS = frozenset({"method", "url", "headers", "query", "body", "expect", "timeout"})
_SERVER_ERROR = 500
_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2: token
_MOST_CONNECTIONS = 1000
_CONNECT_TIMEOUT = 10.0


class HttpStatus(Retryable):
    """The server answered with a status that another try may change."""


class HttpUnreachable(Retryable):
    """No answer: connecting, sending or receiving failed."""


class HttpTimeout(Retryable):
    """No answer within the request's own time-out."""

    timed_out = True


class HttpError(Retryable):
    """The answer cannot be understood."""


class HttpInvalidRequest(Final):
    """The input is no request."""


class HttpResponseTooLarge(Final):
    """The answer's body, or the whole answer as JSON, is over the limit of 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    method: str
    url: str
    headers: dict[str, str]
    query: Mapping[str, Any] | None
    content: bytes | None
    expect: frozenset[int]
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: object


class HttpHandler:
    """Sends requests over one pool of connections. `close` it on the event loop that it was used on."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def __call__(self, request: Any, context: Context) -> dict[str, object]:
        """Send the request.

        Args:
            request: `{method?, url, headers?, query?, body?, expect?, timeout?}`. `body`: text is sent as it is,
                all else as JSON. `expect`: list of the statuses that are success, instead of 2xx. `timeout`: seconds
                for the whole exchange; unless given, it may take as long as the attempt may.
            context: Gives the idempotency key and the trace that are sent along.

        Returns:
            `{status, headers, body}`: header names in lower case; the body decoded when it is JSON, else text.

        Raises:
            TaskFailed: See the module's rule.
        """
        wanted = _parse(request, context)
        answer = await self._exchange(wanted)
        facts = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        if answer.status in wanted.expect if wanted.expect else httpx.codes.is_success(answer.status):
            if (size := len(orjson.dumps(facts))) > OUTPUT_LIMIT:
                raise HttpResponseTooLarge(
                    f"{wanted.method} {wanted.url}: status, headers and body have {size} bytes as JSON; "
                    f"the limit is {OUTPUT_LIMIT}",
                    details={"status": answer.status},
                )
            return facts
        raise _unwanted(wanted, answer)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _exchange(self, wanted: _Request) -> _Answer:
        client = self._open()
        limit = asyncio.timeout(wanted.timeout)
        try:
            async with (
                limit,
                client.stream(wanted.method, _url(wanted), headers=wanted.headers, content=wanted.content) as response,
            ):
                body = await _read(response)
                return _Answer(
                    status=response.status_code, headers=dict(response.headers), body=_decode(response, body)
                )
        except TimeoutError as error:
            if limit.expired():
                raise HttpTimeout(f"{wanted.method} {wanted.url}: no answer within {wanted.timeout:g} s") from None
            raise HttpUnreachable(f"{wanted.method} {wanted.url}: {type(error).__name__}: {error}") from None
        except httpx.ConnectTimeout:
            raise HttpUnreachable(
                f"{wanted.method} {wanted.url}: no connection within {_CONNECT_TIMEOUT:g} s"
            ) from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, ValueError) as error:
            raise HttpInvalidRequest(f"{wanted.method} {wanted.url}: {error}") from None
        except httpx.HTTPError as error:
            raise HttpUnreachable(f"{wanted.method} {wanted.url}: {type(error).__name__}: {error}") from None
        except TaskFailed:
            raise
        except Exception as error:  # noqa: BLE001  httpx lets some errors through of what it is built on
            raise HttpError(
                f"{wanted.method} {wanted.url}: the exchange failed: {type(error).__name__}: {error}"
            ) from None

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            limits = httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=100)
            # Redirects are not followed: a 3xx is an answer like any other, and following would carry secrets along.
            timeout = httpx.Timeout(None, connect=_CONNECT_TIMEOUT)  # the exchange is timed as a whole
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
        return self._client


def _url(wanted: _Request) -> httpx.URL:
    """The URL with the query added to its own (httpx's `params` would replace that)."""
    url = httpx.URL(wanted.url)
    return url.copy_merge_params(wanted.query) if wanted.query else url


async def _read(response: httpx.Response) -> bytes:
    """Read the body, decompressed, up to the limit.

    Raises:
        HttpResponseTooLarge: It is over the limit.
    """
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > OUTPUT_LIMIT:
            raise HttpResponseTooLarge(
                f"{response.request.method} {response.request.url}: the body has more than {OUTPUT_LIMIT} bytes",
                details={"status": response.status_code},
            )
    return bytes(body)


def _decode(response: httpx.Response, body: bytes) -> object:
    """Return what the body says.

    Raises:
        HttpError: It is in a charset that nobody here knows.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and (kind == "application/json" or kind.endswith("+json")):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass  # it says JSON and is not: text tells more than a failure
    if not body:
        return None
    charset = response.charset_encoding or "utf-8"
    try:
        text = body.decode(charset, "replace")
    except (LookupError, ValueError):
        raise HttpError(
            f"{response.request.method} {response.request.url}: the body cannot be read in its charset {charset!r}",
            details={"status": response.status_code},
        ) from None
    # PostgreSQL cannot hold a NUL, and JSON no lone surrogate (some charsets can spell one).
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _unwanted(wanted: _Request, answer: _Answer) -> TaskFailed:
    message = f"{wanted.method} {wanted.url} answered {answer.status}"
    details: dict[str, object] = {"status": answer.status, "body": answer.body}
    if retry_after := answer.headers.get("retry-after"):
        details["retry_after"] = retry_after
    details = cut_details(details, key="body")
    if answer.status in _RETRYABLE_STATUSES or answer.status >= _SERVER_ERROR:
        return HttpStatus(message, details=details)
    return Final(message, type=HttpStatus.__name__, details=details)


def _parse(request: Any, context: Context) -> _Request:
    """Check the input.

    Raises:
        HttpInvalidRequest: It is no request; the message says where.
    """
    if not isinstance(request, dict):
        raise HttpInvalidRequest("the input must be an object with at least a url")
    fields = cast("dict[str, Any]", request)
    if unknown := sorted(set(fields) - _KEYS):
        raise HttpInvalidRequest(f"unknown keys: {', '.join(unknown)}; known are {', '.join(sorted(_KEYS))}")
    method = fields.get("method") or "GET"
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise HttpInvalidRequest(f"method is {method!r}; it must be one of {', '.join(sorted(_METHODS))}")
    url = fields.get("url")
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        raise HttpInvalidRequest(f"url is {url!r}; it must begin with http:// or https://")
    headers = _headers(fields.get("headers"), context)
    content = _content(fields.get("body"), headers)
    length = headers.get("content-length")
    if length is not None and length != str(len(content or b"")):
        raise HttpInvalidRequest(f"header content-length is {length}, and the body has {len(content or b'')} bytes")
    return _Request(
        method=method.upper(),
        url=url,
        headers=headers,
        query=_query(fields.get("query")),
        content=content,
        expect=_expect(fields.get("expect")),
        timeout=_timeout(fields.get("timeout")),
    )


def _headers(given: Any, context: Context) -> dict[str, str]:
    if given is not None and not isinstance(given, dict):
        raise HttpInvalidRequest("headers must be an object")
    headers = {"idempotency-key": context.idempotency_key}
    if context.traceparent:
        headers["traceparent"] = context.traceparent
    for name, value in cast("dict[str, Any]", given or {}).items():
        if not isinstance(value, str | int | float):
            raise HttpInvalidRequest(f"header {name} must be text or a number")
        text = str(value)
        if not _HEADER_NAME.fullmatch(name) or not text.isprintable():
            raise HttpInvalidRequest(f"header {name!r} cannot be sent: no header's name, or control characters")
        headers[name.lower()] = text
    return headers


def _query(given: Any) -> Mapping[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise HttpInvalidRequest("query must be an object")
    # httpx would spell null as an empty text; leaving it out is what an optional parameter wants.
    return {name: value for name, value in cast("dict[str, Any]", given).items() if value is not None}


def _content(body: Any, headers: dict[str, str]) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, str):
        headers.setdefault("content-type", "text/plain; charset=utf-8")
        return body.encode()
    headers.setdefault("content-type", "application/json")
    return orjson.dumps(body)


def _expect(given: Any) -> frozenset[int]:
    if given is None:
        return frozenset()
    statuses = cast("list[Any]", given if isinstance(given, list) else [given])
    if not statuses or not all(isinstance(status, int) and not isinstance(status, bool) for status in statuses):
        raise HttpInvalidRequest("expect must be a status or a list of statuses")
    return frozenset(statuses)


def _timeout(given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or given <= 0:
        raise HttpInvalidRequest(f"timeout is {given!r}; it must be a number of seconds above zero")
    return float(given)
