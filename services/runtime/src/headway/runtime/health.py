"""Asks a service whether it serves: `python -m headway.runtime.health 127.0.0.1:7710`.

For the health checks of containers, whose images need then no other program. Exits with 0 when the service answers
SERVING; with 1, and a word on stderr, when it answers otherwise or not in time.
"""

from __future__ import annotations

import argparse
import sys

import grpc
from grpc_health.v1 import health_pb2

__all__ = ["fault", "main"]


def fault(address: str, *, service: str = "", timeout_seconds: float = 3.0) -> str | None:
    """What keeps the service at an address from serving; None when nothing does."""
    # A proxy that the environment names is for the outside; a health check asks the neighbour.
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_seconds, wait_for_ready=True)
        except grpc.RpcError as error:
            return f"no answer: {error}"
    status: int = answer.status
    if status == health_pb2.HealthCheckResponse.SERVING:
        return None
    return f"the answer is {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m headway.runtime.health", description=__doc__)
    parser.add_argument("address", help="host:port")
    parser.add_argument("--service", default="", help="full name of one gRPC service; all of them by default")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds to wait for an answer")
    arguments = parser.parse_args()
    found = fault(arguments.address, service=arguments.service, timeout_seconds=arguments.timeout)
    if found is not None:
        print(f"{arguments.address}: {found}", file=sys.stderr)  # noqa: T201 - it talks to who asked
    return 0 if found is None else 1


if __name__ == "__main__":
    sys.exit(main())
