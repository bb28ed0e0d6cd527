"""Bytes that are no message of the service's: refused like any other bad argument, with a reason, and by no other code.

The framework answers them with INTERNAL, before a service hears of them. So what stands for such a request comes to the
service in its place, and refuses when the first field is read: a good request costs one call more, and no look at it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from headway.coordinator.core.refusals import InvalidArgument

_KINDS: Mapping[str, Callable[..., Any]] = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "unary_stream": grpc.unary_stream_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}


class Unreadable:
    """A request whose bytes could not be read."""

    def __getattr__(self, _name: str) -> NoReturn:
        """Raise InvalidArgument: it has no fields."""
        raise InvalidArgument(field="the request", problem="its bytes are no protobuf message of this method")


class Reading:
    """A server as the generated code sees it: services that are added to it are given unreadable requests, too."""

    def __init__(self, server: grpc.aio.Server) -> None:
        """Add services to `server`."""
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Nothing: the same handlers come by their names."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Add a service's methods, by their names."""
        tolerant = {name: _tolerant(handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, tolerant),))
        self._server.add_registered_method_handlers(service, tolerant)


def _tolerant(handler: Any) -> Any:
    read, write = _reader(handler.request_deserializer), handler.response_serializer
    for kind, make in _KINDS.items():
        if (method := getattr(handler, kind)) is not None:
            return make(method, read, write)
    raise LookupError("a method of a kind that no service of ours has")


def _reader(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return Unreadable()

    return read
