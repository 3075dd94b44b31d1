"""Broken connections: queries and writes continue after a cut, a temporary error or a reconnect, or fail safely."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pystreams.testing.proxy import FaultProxy as Proxy
from pystreams.testing.proxy import proxy
from spark_streams.config.write import WriteOptions
from spark_streams.errors import ServerError, WriteError
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.records import WriterId
from streamclient import pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams.delivery import Delivery
from tests.spark_streams.driver import Query, Site, numbers
from tests.suite.long import FULL, short_and_long
from tests.suite.waiting import wait_for


@pytest.fixture
def between(site: Site) -> Iterator[Proxy]:
    """Proxy in front of the site's server."""
    with proxy(site.client.connection_pool.connection_kwargs["port"]) as made:
        yield made
        pool.close_all()


@pytest.mark.parametrize(
    "given",
    short_and_long(
        [
            {},
            {"group": "g", "minPartitions": 3, "deliver": 2},
            {"group": "g", "consume": "shared"},
        ],
        [
            [{"group": "g"}],
            [{"group": "g", "pageSize": 3}],
            [{"group": "g", "ack": "cursor"}],
            [{"group": "g", "streamPattern": "s*", "stream": None}],
        ],
    ),
    ids=str,
)
def test_a_query_survives_cuts(
    site: Site, between: Proxy, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query reads each entry once and leaves nothing pending if the connection is cut after any number of bytes."""
    given = dict(given)
    page = given.pop("deliver", Delivery.limits.page)
    monkeypatch.setattr(Delivery, "limits", replace(Delivery.limits, page=page))
    options = {"stream": "s", "startingOffsets": "earliest", "retryTimeoutMs": 5000, **given}
    options = {name: value for name, value in options.items() if value is not None}
    site.add("s", 1)
    query = Query(f"redis://127.0.0.1:{between.port}", "n int", **options)
    seen = numbers(query.drain())
    for count in range(1, 3000, 67 if FULL else 211):
        site.add("s", 10, first=len(seen))
        between.cut_after(count)
        found = numbers(query.drain())
        assert sorted(found) == list(range(len(seen), len(seen) + 10)), count
        seen += found
    assert between.cuts > 3
    if "group" in given:
        assert (site.group()["pending"], site.group()["lag"]) == (0, 0)


def test_a_blocking_command_extends_the_timeout(site: Site) -> None:
    """A read may block for longer than the socket's timeout; a server that does not answer is an error after the
    timeout.
    """
    connection = Connection(Address(site.url, retry_ms=0, answer_seconds=0.5))
    assert connection.pipeline([("XREAD", "BLOCK", 700, "STREAMS", "s", "$")]) == [None]
    assert connection.command("PING") == b"PONG"
    connection.close()
    silent = socket.create_server(("127.0.0.1", 0))
    try:
        address = Address(f"redis://127.0.0.1:{silent.getsockname()[1]}", retry_ms=0, answer_seconds=0.05)
        with pytest.raises(ServerError, match=r"SERVER_UNREACHABLE.*[Tt]ime"):
            Connection(address).command("PING")
    finally:
        silent.close()


def write(sender: ExactlyOnceSender | AtLeastOnceSender, options: WriteOptions) -> None:
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(30), pa.int64())})
    for chunk in RowEncoder(options, WriteSchema(("n",), False, False, False)).chunks(iter([rows])):
        sender.submit(chunk)


def test_confirmed_rows_are_checked_again_after_a_reconnect(site: Site) -> None:
    """If the connection breaks before WAIT, the records are checked again, and a server without the confirmed rows
    fails the task.
    """
    options = WriteOptions(stream="s", chunk_size=10, wait_replicas=1, wait_timeout=20)
    connection = Connection(Address(site.url))
    sender = ExactlyOnceSender(connection, WriterId("query", 0, 0), options, lasting=True)
    write(sender, options)
    sender.settle()
    site.client.flushall()  # simulates another server without the rows that the first server confirmed
    site.client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(WriteError, match="FENCE_BEHIND"):
        sender.finish()
    assert site.client.keys("*") == []
    connection.close()


def test_a_reconnect_before_wait_fails_an_append(site: Site) -> None:
    """WAIT covers only writes of its own connection, so a reconnect before WAIT fails the task."""
    options = WriteOptions(stream="s", mode="append", chunk_size=10, wait_replicas=1, wait_timeout=20)
    connection = Connection(Address(site.url))
    sender = AtLeastOnceSender(connection, options)
    write(sender, options)
    wait_for(lambda: site.client.xlen("s") == 30, "all rows on the server")
    site.client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(WriteError, match=r"NOT_REPLICATED.*An unknown number of replicas"):
        sender.finish()
    assert site.client.xlen("s") >= 30
    connection.close()
