"""Connections on a real Redis and on the engine: reuse, cuts, keys of commands, and raw replies."""

from __future__ import annotations

import gc

import pytest
import redis

from pystreams.testing.proxy import proxy
from streamclient.commands import COMMANDS, is_idempotent, keys_of
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.errors import LinkError
from streamclient.pool import borrow
from streamclient.replies import parse
from tests import servers
from tests.spark_streams.driver import Site
from tests.spark_streams.driver import add_entries as add
from tests.suite.waiting import wait_for


def test_a_connection_is_reused(client: redis.Redis, instance: servers.Running) -> None:
    """A process reuses one connection, and replaces it if it failed midway or the server closed it."""
    address = Address(instance.url)
    with borrow(address) as first:
        number = first.command("CLIENT", "ID")
    with borrow(address) as second:
        assert second.command("CLIENT", "ID") == number
    client.client_kill_filter(_id=number)
    with borrow(address) as third:
        other = third.command("CLIENT", "ID")
        assert other != number
    with pytest.raises(RuntimeError), borrow(address):
        raise RuntimeError
    with borrow(address) as fourth, borrow(address) as fifth:
        assert len({number, other, fourth.command("CLIENT", "ID"), fifth.command("CLIENT", "ID")}) == 4


def test_raw_replies_are_told_apart(connection: Connection) -> None:
    """Replies to several raw requests are separated correctly, regardless of their size and the order of receiving."""
    big = b"v" * 3_000_000
    first = connection.request([("ECHO", big)])
    second = connection.request([("PING",), ("ECHO", "x")])
    third = connection.request([])
    assert connection.command("PING") == b"PONG"
    assert connection.receive(third)[1] == 0
    buffer, stop = connection.receive(first)
    assert bytes(buffer[:stop]) == b"$3000000\r\n" + big + b"\r\n"
    buffer, stop = connection.receive(second)
    assert bytes(buffer[:stop]) == b"+PONG\r\n$1\r\nx\r\n"


def test_replies_that_were_due_are_kept_when_a_link_is_closed(connection: Connection) -> None:
    """Replies that arrived before a link was closed can be read later; a request without a reply fails as a broken
    link.
    """
    link = connection.link(b"s")
    big = "x" * 100_000
    first, second = link.request([("ECHO", big)]), link.request([("ECHO", big), ("ECHO", "last")])
    buffer, stop = link.receive(first)
    assert parse(bytes(buffer[:stop])) == [big.encode()]
    link.receive_due()
    third = link.request([("ECHO", big)])
    link.close()
    for _ in range(2):
        with pytest.raises(LinkError):
            link.receive(third)
    buffer, stop = link.receive(second)
    assert parse(bytes(buffer[:stop])) == [big.encode(), b"last"]


def test_commands_without_a_key_go_with_those_that_have_one() -> None:
    """In a cluster, MULTI and EXEC are sent to the node of the commands between them."""
    commands = [("MULTI",), ("HSET", "a", "f", 1), ("EXEC",), ("MULTI",), ("DEL", b"b"), ("EXEC",)]
    assert keys_of(commands) == [b"a", b"a", b"b", b"b", b"b", b"b"]
    assert keys_of([("PING",)]) == [None]
    read = ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "s", ">")
    assert keys_of([("CLIENT", "REPLY", "SKIP"), read]) == [b"s", b"s"]
    assert keys_of([("XREADGROUP", "GROUP", "STREAMS", "BLOCK", "STREAMS", "streams", ">")]) == [b"streams"]
    assert [is_idempotent(read), is_idempotent((*read[:-1], "0"))] == [False, True]


def test_a_page_is_complete_wherever_a_connection_is_cut(client: redis.Redis, instance: servers.Running) -> None:
    """If the connection is cut after 1, 24, 47 and more bytes, idempotent requests are repeated, and their replies are
    complete.
    """
    add(client, "s", 20)
    with proxy(instance.port) as between:
        made = Connection(Address(f"redis://127.0.0.1:{between.port}", retry_ms=5000))
        for count in range(1, 900, 23):
            between.cut_after(count)
            while between.pending_cut():
                token = made.request([("XRANGE", "s", "-", "+")])
                assert made.command("XLEN", "s") == 20
                buffer, stop = made.receive(token)
                assert bytes(buffer[:stop]).startswith(b"*20\r\n")
        assert between.cuts == len(range(1, 900, 23))
        made.close()


def test_subcommands_of_a_command_are_alike() -> None:
    """A command's first word determines the position of its key and whether the command may be repeated."""
    for name, sent in COMMANDS.items():
        first = COMMANDS[next(other for other in COMMANDS if other.split()[0] == name.split()[0])]
        assert (sent.key, sent.again) == (first.key, first.again), name


def test_an_unused_connection_is_closed_immediately(site: Site) -> None:
    """An unused connection is in no reference cycle, so its sockets are closed without garbage collection."""
    gc.collect()
    others = len(site.client.client_list(_type="normal"))
    connection = Connection(Address(site.url))
    connection.capabilities.has("PING")
    assert len(site.client.client_list(_type="normal")) == others + 1
    gc.disable()
    try:
        del connection
        wait_for(lambda: len(site.client.client_list(_type="normal")) == others, "the connection to end")
    finally:
        gc.enable()
