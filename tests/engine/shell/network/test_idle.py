"""Disconnection after a time, without sockets or waiting: ``timeout`` and the soft output limit."""

from __future__ import annotations

import pytest

from engine.core.keyspace.changes import NEVER
from engine.shell.network import connection as connection_module
from engine.shell.network.runner import Client
from tests.engine.shell.network.without_sockets import Shell


@pytest.fixture
def shell() -> Shell:
    shell = Shell()
    shell.runner.core.config.change([(b"timeout", b"10")])
    return shell


def check(shell: Shell, connection: Client, seconds: float) -> None:
    """Check for idle clients this many seconds after the client's last command."""
    shell.runner.drop_idle(connection.session.last_ms + int(seconds * 1000))


def test_an_idle_client_is_disconnected(shell: Shell) -> None:
    """A silent client is disconnected after ``timeout`` seconds, and not before."""
    connection, transport = shell.client()
    connection.data_received(b"PING\r\n")
    check(shell, connection, 10)
    assert not transport.ended
    check(shell, connection, 10.001)
    assert transport.ended


def held_back(shell: Shell, connection: Client) -> None:
    shell.runner.core.pause.start(0, NEVER, holds_all=True)
    connection.data_received(b"PING\r\n")


def in_steps(shell: Shell, connection: Client) -> None:
    connection.stepping = True


def waiting(shell: Shell, connection: Client) -> None:
    connection.data_received(b"XREAD BLOCK 0 STREAMS s $\r\n")


def listening(shell: Shell, connection: Client) -> None:
    connection.data_received(b"SUBSCRIBE news\r\n")


@pytest.mark.parametrize("state", [held_back, in_steps, waiting, listening])
def test_a_client_that_the_engine_keeps_waiting_is_not_idle(shell: Shell, state) -> None:
    """Clients held back by CLIENT PAUSE, in a long command, blocked or subscribed do not count as idle."""
    connection, transport = shell.client()
    state(shell, connection)
    check(shell, connection, 1000)
    assert not transport.ended


def test_a_client_that_reads_a_long_reply_is_not_idle(shell: Shell) -> None:
    """A client stays connected while it reads parts of a reply, and is disconnected after it stops reading."""
    connection, transport = shell.client()
    connection.data_received(b"ECHO " + b"x" * 5000 + b"\r\n")
    transport.waiting = 5000
    for _ in range(4):
        transport.waiting -= 1000
        check(shell, connection, 9)
    assert not transport.ended
    check(shell, connection, 11)
    assert transport.ended == "aborted"


@pytest.mark.parametrize("paused", [True, False], ids=["its transport is full", "its transport would take more"])
def test_a_silent_client_above_the_soft_output_limit_is_disconnected(monkeypatch, shell: Shell, paused: bool) -> None:
    """A client that stays above the soft limit for its number of seconds is disconnected, even if it sends nothing."""
    connection, transport = shell.client()
    shell.runner.core.config.change([(b"client-output-buffer-limit", b"normal 1mb 10kb 5"), (b"timeout", b"0")])
    connection.data_received(b"PING\r\n")
    if paused:
        connection.pause_writing()

    def at(seconds: float, waiting: int) -> str:
        monkeypatch.setattr(connection_module, "now_us", lambda: int((1000 + seconds) * 1_000_000))
        transport.waiting = waiting
        shell.runner.tick()
        return transport.ended

    for seconds, waiting in [(0, 20_000), (4.9, 20_000), (5, 5000), (6, 20_000), (10.9, 20_000)]:
        assert not at(seconds, waiting)
    assert at(11, 20_000) == "aborted"
