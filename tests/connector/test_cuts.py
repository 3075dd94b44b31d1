"""A query whose connection is cut at any step of the protocol goes on by itself: no task has to be repeated for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark_streams import connection as connections
from spark_streams.address import Address
from spark_streams.connection import Connection
from spark_streams.errors import WriteError
from spark_streams.fence import Writer
from spark_streams.fenced import FencedSender
from spark_streams.options_write import WriteOptions
from spark_streams.parcels import Packer
from spark_streams.plain import PlainSender
from spark_streams.write_schema import WriteSchema
from tests.chaos.proxy import Proxy, proxy
from tests.connector.driver import Query, Site, numbers


@pytest.fixture
def between(site: Site) -> Iterator[Proxy]:
    """A proxy in front of the site's server."""
    with proxy(site.client.connection_pool.connection_kwargs["port"]) as made:
        yield made
        connections.close_all()


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"group": "g"},
        {"group": "g", "pageSize": 3},
        {"group": "g", "minPartitions": 3},
        {"group": "g", "ack": "cursor"},
        {"group": "g", "consume": "shared"},
        {"group": "g", "streamPattern": "s*", "stream": None},
    ],
    ids=str,
)
def test_a_query_rides_through_cuts(site: Site, between: Proxy, said: dict[str, Any]) -> None:
    """Every entry comes out once, in order, and nothing stays pending, whichever byte is the last to get through."""
    options = {"stream": "s", "startingOffsets": "earliest", "retryTimeoutMs": 5000, **said}
    options = {name: value for name, value in options.items() if value is not None}
    site.add("s", 1)
    query = Query(f"redis://127.0.0.1:{between.port}", "n int", **options)
    seen = numbers(query.drain())
    for count in range(1, 3000, 67):
        site.add("s", 10, first=len(seen))
        between.cut_after(count)
        found = numbers(query.drain())
        assert sorted(found) == list(range(len(seen), len(seen) + 10)), count
        seen += found
    assert between.cuts > 15
    if "group" in said:
        assert (site.group()["pending"], site.group()["lag"]) == (0, 0)


def write(sender: FencedSender | PlainSender, options: WriteOptions) -> None:
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(30), pa.int64())})
    for parcels in Packer(options, WriteSchema(("n",), False, False, False)).chunks(iter([rows])):
        sender.submit(parcels)


def test_what_a_lost_master_had_confirmed_is_not_taken_for_replicated(site: Site) -> None:
    """If the connection breaks before WAIT, another server may answer: its record is looked at, not taken on trust."""
    options = WriteOptions(None, "s", chunk_size=10, wait_replicas=1, wait_timeout=20)
    connection = Connection(Address(site.url))
    sender = FencedSender(connection, Writer("query", 0, 0), options, lasting=True)
    write(sender, options)
    for courier in sender._couriers.values():
        courier.finish()
    site.client.flushall()  # this is another server now, which did not get what the one before had confirmed
    site.client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(WriteError, match="FENCE_BEHIND"):
        sender.finish()
    assert site.client.keys("*") == []
    connection.close()


def test_rows_appended_over_a_connection_that_is_gone_are_not_known_to_be_replicated(site: Site) -> None:
    """WAIT speaks of its own connection's writes, so where another one has confirmed rows the task fails."""
    options = WriteOptions(None, "s", "append", chunk_size=10, wait_replicas=1, wait_timeout=20)
    connection = Connection(Address(site.url))
    sender = PlainSender(connection, options)
    write(sender, options)
    site.client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(WriteError, match=r"NOT_REPLICATED.*An unknown number of replicas"):
        sender.finish()
    assert site.client.xlen("s") >= 30
    connection.close()
