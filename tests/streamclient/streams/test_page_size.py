"""The number of entries per page: derived from the sizes of entries, and requested from a real Redis and the engine."""

from __future__ import annotations

import pytest
import redis

from streamclient.connection import Connection
from streamclient.streams.page_size import PageSize
from streamclient.streams.pages import pages
from streamwire.stream_id import StreamId
from tests.spark_streams.driver import add_entries as add

MB = 1 << 20


@pytest.mark.parametrize(
    ("entry", "entries"), [(100, 10_000), (1000, 1048), (10_000, 104), (600_000, 1), (100 * MB, 1)]
)
def test_a_page_has_about_a_megabyte(entry: int, entries: int) -> None:
    """A page has at most a megabyte, or one entry, and no more entries than the option allows."""
    for most in (10_000, 40):
        size = PageSize(most)
        assert size.now <= most
        for _ in range(3):
            size.update(size.now, size.now * entry)
        assert size.now == min(entries, most)


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
