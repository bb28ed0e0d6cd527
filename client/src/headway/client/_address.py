"""Addresses of coordinators, as people write them, and as gRPC resolves them."""

from __future__ import annotations

import ipaddress

DEFAULT_ADDRESS = "127.0.0.1:7710"


def grpc_target(address: str) -> str:
    """The gRPC target of an address.

    Args:
        address: `host:port`, or several literal IP addresses with ports, with commas between: calls are spread over
            those that answer. What has a scheme that gRPC knows (`dns:///name:port`) passes as it is.

    Raises:
        ValueError: The address is empty, lacks a port, or lists host names or both kinds of IP address: gRPC resolves
            one name (which may stand for many addresses) or a list of addresses of one kind.
    """
    parts = [part.strip() for part in address.split(",") if part.strip()]
    if not parts:
        message = "the coordinator's address is empty; write it as host:port"
        raise ValueError(message)
    if len(parts) == 1:
        return parts[0] if _has_scheme(parts[0]) else _checked(parts[0])
    literals = [_literal(_checked(part)) for part in parts]
    versions = {version for version, _ in literals}
    if len(versions) > 1:
        message = f"{address} mixes IPv4 and IPv6 addresses; list one kind"
        raise ValueError(message)
    return f"ipv{versions.pop()}:" + ",".join(literal for _, literal in literals)


def _has_scheme(part: str) -> bool:
    return part.startswith(("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "passthrough:"))


def _split(part: str) -> tuple[str, str]:
    host, _, port = part.rpartition(":")
    return host.strip("[]"), port


def _checked(part: str) -> str:
    host, port = _split(part)
    if "/" in host:
        message = f"{part} is no address of a coordinator; write it as host:port, without a scheme or a path"
        raise ValueError(message)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        message = f"{part} is no address of a coordinator; write it as host:port"
        raise ValueError(message)
    return part


def _literal(part: str) -> tuple[int, str]:
    host, port = _split(part)
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        message = f"{part} is a host name in a list; list IP addresses, or give one name that stands for all"
        raise ValueError(message) from None
    return ip.version, f"[{ip}]:{port}" if isinstance(ip, ipaddress.IPv6Address) else f"{ip}:{port}"
