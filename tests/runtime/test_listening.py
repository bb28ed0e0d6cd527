"""The listening connection is made, watched and made again. Its driver is played here, real in the services' tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headway.runtime import listening
from headway.runtime.listening import Listener


@dataclass
class Connection:
    """Does as it is told, and keeps what was asked of it."""

    refuses_to_listen: bool = False
    is_deaf: bool = False
    is_terminated: bool = False
    queries: list[str] = field(default_factory=list[str])
    notify: Callable[[Any, Any, Any, object], None] = lambda *_: None
    lose: Callable[[Any], None] = lambda _: None

    def is_closed(self) -> bool:
        return self.is_terminated

    def terminate(self) -> None:
        self.is_terminated = True

    def add_termination_listener(self, callback: Callable[[Any], None], /) -> None:
        self.lose = callback

    async def add_listener(self, channel: str, callback: Callable[[Any, Any, Any, object], None], /) -> None:
        if self.refuses_to_listen:
            raise OSError(channel)
        self.notify = callback

    async def execute(self, query: str, /) -> str:
        self.queries.append(query)
        if self.is_deaf:
            raise TimeoutError
        return ""


@dataclass
class Heard:
    """A listener on scripted connections, and what it told."""

    connections: list[Connection]
    payloads: list[str] = field(default_factory=list[str])
    begun: int = 0

    def __post_init__(self) -> None:
        rest = iter(self.connections)

        async def connect() -> Connection:
            return next(rest)

        async def begin() -> None:
            self.begun += 1

        self.listener = Listener(connect=connect, channel="c", notified=self.payloads.append, listening=begin)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "KEEPALIVE_SECONDS", 0.01)


async def test_payloads_are_told_and_a_quiet_connection_is_asked_for_a_sign_of_life() -> None:
    heard = Heard([connection := Connection()])

    await heard.listener.step()
    connection.notify(connection, 1, "c", "payload")
    await heard.listener.step()

    assert (heard.begun, heard.payloads, connection.queries) == (1, ["payload"], ["SELECT 1"])
    heard.listener.close()
    assert connection.is_terminated


async def test_a_connection_that_gives_no_sign_of_life_is_made_again() -> None:
    heard = Heard([dead := Connection(is_deaf=True), Connection()])

    await heard.listener.step()
    with pytest.raises(TimeoutError):
        await heard.listener.step()
    await heard.listener.step()

    assert dead.is_terminated
    assert heard.begun == 2


async def test_a_connection_that_is_lost_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "KEEPALIVE_SECONDS", 60.0)
    heard = Heard([connection := Connection()])
    await heard.listener.step()

    connection.lose(connection)

    with pytest.raises(ConnectionError):
        await heard.listener.step()


async def test_a_connection_that_cannot_listen_is_not_kept() -> None:
    heard = Heard([refusing := Connection(refuses_to_listen=True), Connection()])

    with pytest.raises(OSError, match="c"):
        await heard.listener.step()
    await heard.listener.step()

    assert refusing.is_terminated
    assert heard.begun == 1
