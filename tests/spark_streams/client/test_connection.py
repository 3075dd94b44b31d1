"""Connections and what is asked of a server, without Spark, on a real Redis and on the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from spark_streams.client import connection as connections
from spark_streams.client import pool
from spark_streams.client.connection import Connection
from spark_streams.client.pool import borrow
from spark_streams.client.retry import is_idempotent
from spark_streams.codec import decode
from spark_streams.config.address import Address
from spark_streams.errors import ServerError, StreamError
from spark_streams.server import redis as redis_server
from spark_streams.server import xrange
from spark_streams.server.redis import RedisServer
from spark_streams.server.xrange import Delivery
from spark_streams.stream_id import LAST, ZERO, StreamId
from tests import servers
from tests.chaos.proxy import proxy


@pytest.fixture
def connection(place: servers.Running) -> Iterator[Connection]:
    made = Connection(Address(place.url))
    yield made
    made.close()


def add(client: redis.Redis, stream: str, count: int, first: int = 1, size: int = 1) -> None:
    pipeline = client.pipeline(transaction=False)
    for n in range(first, first + count):
        pipeline.xadd(stream, {"n": "x" * size}, id=f"{n}-0")
    pipeline.execute()


def test_a_connection_is_kept_for_the_next_one(client: redis.Redis, place: servers.Running) -> None:
    """One connection serves a process; one that failed midway, or that the server closed, is replaced."""
    address = Address(place.url)
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


def test_a_server_that_is_not_there_is_an_error_without_its_password() -> None:
    """The error names the address, and neither the user nor the password."""
    nowhere = Address(f"redis://user:s3cret@127.0.0.1:{servers.free_port()}/1", retry_ms=50)
    with pytest.raises(ServerError, match=r"SERVER_UNREACHABLE.*redis://127\.0\.0\.1") as caught, borrow(nowhere):
        pass
    assert "s3cret" not in str(caught.value)
    assert "user" not in str(caught.value)


def test_urls_choose_database_and_socket(redis_process: servers.Running) -> None:
    """The database stands in the URL's path; a Unix socket is an address like any other."""
    with borrow(Address(f"{redis_process.url}/3")) as tcp:
        tcp.command("SET", "where", "three")
    with borrow(Address(f"unix://{redis_process.unixsocket}?db=3")) as unix:
        assert unix.command("GET", "where") == b"three"
        unix.command("FLUSHALL")
    pool.close_all()


def test_raw_replies_are_told_apart(connection: Connection) -> None:
    """Replies to several raw requests that arrive together are cut where they belong, whatever their size."""
    big = b"v" * 3_000_000
    first = connection.request([("ECHO", big)])
    second = connection.request([("PING",), ("ECHO", "x")])
    third = connection.request([])
    buffer, stop = connection.receive(first)
    assert bytes(buffer[:stop]) == b"$3000000\r\n" + big + b"\r\n"
    buffer, stop = connection.receive(second)
    assert bytes(buffer[:stop]) == b"+PONG\r\n$1\r\nx\r\n"
    assert connection.receive(third)[1] == 0
    assert connection.command("PING") == b"PONG"


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_pages_hold_exactly_the_range(client: redis.Redis, connection: Connection, most: int) -> None:
    """Whatever the page size, the pages of a range are its entries in order, each once."""
    add(client, "s", 50)
    for after, upto in ((0, 50), (0, 1), (10, 30), (49, 50), (20, 20), (30, 99)):
        if upto == 99:
            client.xadd("s", {"n": "last"}, id="99-0")
            client.xdel("s", "99-0")
        found = [
            int(entry_id.partition(b"-")[0])
            for page in xrange.pages(connection, "s", StreamId(after, 0), StreamId(upto, 0), most)
            for entry_id in page.ids().to_pylist()
        ]
        assert found == list(range(after + 1, min(upto, 50) + 1))


@pytest.mark.parametrize("value", [b"*2\r\n$3\r\n3-0\r\n", b"*2\r\n$3\r\n99-0\r\n", b"*2\r\n$", b"*2\r\n$3\r\nx\r\n"])
def test_a_value_that_looks_like_an_entry_misleads_nobody(
    client: redis.Redis, connection: Connection, value: bytes
) -> None:
    """The next page is asked for before this one is decoded; where that begins at the wrong entry it is asked again."""
    for ms in range(1, 200):
        client.xadd("s", {"n": value}, id=f"{ms}-0")
    pages = list(xrange.pages(connection, "s", ZERO, StreamId(150, 0), 7))
    found = [int(entry_id.partition(b"-")[0]) for page in pages for entry_id in page.ids().to_pylist()]
    assert found == list(range(1, 151))
    assert connection.command("PING") == b"PONG"


def test_pages_shrink_for_large_values(client: redis.Redis, connection: Connection) -> None:
    """With large values a page has few entries, however many are allowed."""
    add(client, "s", 70, size=600_000)
    add(client, "s", 500, first=71)
    counts = [page.count for page in xrange.pages(connection, "s", ZERO, StreamId(570, 0), 10_000)]
    assert sum(counts) == 570
    assert counts[1:6] == [1, 1, 1, 1, 1]
    assert max(counts) > 50


@pytest.mark.parametrize(("position", "delivered"), [(0, 50), (20, 30), (50, 0)])
def test_delivery_fills_the_pending_list(
    client: redis.Redis, connection: Connection, position: int, delivered: int
) -> None:
    """What the group has not been given yet is delivered, and nothing beyond the range; the rows are all of them."""
    add(client, "s", 60)
    client.xgroup_create("s", "g", f"{position}-0")
    delivery = Delivery("g", "c-0", StreamId(position, 0))
    pages = list(xrange.pages(connection, "s", ZERO, StreamId(50, 0), 8, delivery))
    assert sum(page.count for page in pages) == 50
    (group,) = client.xinfo_groups("s")
    assert (group["pending"], group["last-delivered-id"]) == (delivered, b"50-0")


def test_a_key_of_another_kind_is_an_error(client: redis.Redis, connection: Connection) -> None:
    """Neither pages nor states are had of a key that is no stream."""
    client.set("text", "x")
    with pytest.raises(StreamError, match="NOT_A_STREAM"):
        list(xrange.pages(connection, "text", ZERO, LAST, 8))
    with pytest.raises(StreamError, match="NOT_A_STREAM"):
        RedisServer(connection).states(["text"], None)


def test_states(client: redis.Redis, connection: Connection) -> None:
    """A stream's state tells its ends, and the group's position and lag; a missing one is None."""
    add(client, "s", 10)
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"}, count=4)
    states = RedisServer(connection).states(["s", "t"], "g")
    state = states["s"]
    assert states["t"] is None
    assert state is not None
    assert state.group is not None
    assert (state.last_id, state.length, state.first_id) == (StreamId(10, 0), 10, StreamId(1, 0))
    assert (state.group.last_delivered_id, state.group.lag, state.group.pending) == (StreamId(4, 0), 6, 4)
    assert state.backlog(StreamId(4, 0)) == (6, True)
    assert state.backlog(StreamId(10, 0)) == (0, True)
    assert state.backlog(ZERO) == (10, True)
    assert state.backlog(StreamId(5, 0))[1] is False


def test_the_nth_entry(client: redis.Redis, connection: Connection) -> None:
    """The ID of the n-th entry after an ID, or the end and how many there are."""
    add(client, "s", 30)
    server = RedisServer(connection)
    assert server.nth("s", ZERO, 7, LAST) == (StreamId(7, 0), 7)
    assert server.nth("s", StreamId(7, 0), 3, StreamId(30, 0)) == (StreamId(10, 0), 3)
    assert server.nth("s", StreamId(25, 0), 9, StreamId(28, 0)) == (StreamId(28, 0), 3)
    assert server.nth("s", StreamId(30, 0), 9, LAST) == (LAST, 0)


@pytest.mark.parametrize("many", [20_000, 5])
def test_acknowledging_up_to_an_id(
    client: redis.Redis, connection: Connection, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only this query's consumers, and only entries up to the ID, are acknowledged, however many there are."""
    monkeypatch.setattr(redis_server, "_MANY_PENDING", many)
    monkeypatch.setattr(redis_server, "_ACK_PAGE", 4)
    add(client, "s", 30)
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "job-0", {"s": ">"}, count=10)
    client.xreadgroup("g", "other", {"s": ">"}, count=3)
    client.xreadgroup("g", "job-1", {"s": ">"}, count=7)
    server = RedisServer(connection)
    server.acknowledge("s", "g", "job", StreamId(16, 0))
    assert client.xpending("s", "g")["consumers"] == [
        {"name": b"job-1", "pending": 4},
        {"name": b"other", "pending": 3},
    ]
    server.acknowledge("s", "g", "job", StreamId(20, 0))
    assert client.xpending("s", "g")["consumers"] == [{"name": b"other", "pending": 3}]
    assert server.first_pending_id("s", "g", "job") is None
    client.xreadgroup("g", "job-x", {"s": ">"}, count=2)
    assert server.first_pending_id("s", "g", "job") is None
    client.xreadgroup("g", "job-12", {"s": ">"}, count=2)
    client.xreadgroup("g", "job-2", {"s": ">"}, count=2)
    assert server.first_pending_id("s", "g", "job") == StreamId(23, 0)
    server.acknowledge("s", "nobody", "job", LAST)
    server.acknowledge("nothing", "g", "job", LAST)


def test_a_group_is_made_once(client: redis.Redis, connection: Connection) -> None:
    """A group is made together with its stream; one that exists is left as it is."""
    server = RedisServer(connection)
    assert server.create_group("s", "g", StreamId(5, 0)) is True
    assert server.create_group("s", "g", StreamId(9, 0)) is False
    assert client.xinfo_groups("s")[0]["last-delivered-id"] == b"5-0"
    server.set_group_position("s", "g", StreamId(9, 0))
    assert client.xinfo_groups("s")[0]["last-delivered-id"] == b"9-0"


def test_both_ways_of_suppressing_replies_deliver(client: redis.Redis, connection: Connection) -> None:
    """Where a server cannot suppress replies they are read and dropped, to the same effect."""
    add(client, "s", 20)
    client.xgroup_create("s", "g", "0")
    connection.link(None)._skips = False
    pages = list(xrange.pages(connection, "s", ZERO, StreamId(20, 0), 6, Delivery("g", "c-0", ZERO)))
    assert sum(page.count for page in pages) == 20
    assert client.xinfo_groups("s")[0]["pending"] == 20
    assert isinstance(pages[0], decode.VectorPage)


def test_replies_are_kept_for_whoever_asks_later(connection: Connection) -> None:
    """Raw requests may be received in any order, and commands may come in between."""
    first = connection.request([("ECHO", "one")])
    second = connection.request([("ECHO", "two")])
    assert connection.command("PING") == b"PONG"
    for token, text in ((second, b"two"), (first, b"one")):
        buffer, stop = connection.receive(token)
        assert bytes(buffer[:stop]) == b"$3\r\n" + text + b"\r\n"


def test_commands_without_a_key_go_with_those_that_have_one() -> None:
    """In a cluster MULTI and EXEC belong to the node of what stands between them."""
    commands = [("MULTI",), ("HSET", "a", "f", 1), ("EXEC",), ("MULTI",), ("DEL", b"b"), ("EXEC",)]
    assert connections._keys(commands) == [b"a", b"a", b"b", b"b", b"b", b"b"]
    assert connections._keys([("PING",)]) == [None]
    read = ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "s", ">")
    assert connections._keys([("CLIENT", "REPLY", "SKIP"), read]) == [b"s", b"s"]
    assert [is_idempotent(read), is_idempotent((*read[:-1], "0"))] == [False, True]


def test_a_page_is_read_whatever_is_cut(client: redis.Redis, place: servers.Running) -> None:
    """Wherever a connection is cut, what can be asked again is asked again, and the answer is whole."""
    add(client, "s", 20)
    with proxy(place.port) as between:
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
