"""Ranges read page by page, and their delivery, on a real Redis and on the engine."""

from __future__ import annotations

import pytest
import redis

from streamclient.connection import Connection
from streamclient.streams.pages import pages
from streamwire.stream_id import ZERO, StreamId
from tests.spark_streams.driver import add_entries as add


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_pages_hold_exactly_the_range(client: redis.Redis, connection: Connection, most: int) -> None:
    """For any page size, the pages of a range contain its entries in order, each once."""
    add(client, "s", 50)
    for after, upto in ((0, 50), (0, 1), (10, 30), (49, 50), (20, 20), (30, 99)):
        if upto == 99:
            client.xadd("s", {"n": "last"}, id="99-0")
            client.xdel("s", "99-0")
        found = [
            int(entry_id.partition(b"-")[0])
            for page in pages(connection, "s", StreamId(after, 0), StreamId(upto, 0), most)
            for entry_id in page.ids().to_pylist()
        ]
        assert found == list(range(after + 1, min(upto, 50) + 1))


def test_pages_of_many_fields_are_larger(client: redis.Redis, connection: Connection) -> None:
    """A page of entries with two hundred fields has 256 entries, although a megabyte has only 140."""
    fields = {f"a_name_of_a_sensor_{number}": number for number in range(200)}
    for ms in range(1, 401):
        client.xadd("s", fields, id=f"{ms}-0")  # type: ignore[arg-type]
    counts = [page.count for page in pages(connection, "s", ZERO, StreamId(400, 0), 10_000)]
    assert sum(counts) == 400
    assert 150 < max(counts) <= 256
