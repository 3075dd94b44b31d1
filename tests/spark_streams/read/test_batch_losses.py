"""Batch reads whose entries are removed after planning: the error is the same for every plan and server."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import StreamError
from spark_streams.read.batch import BatchReader
from spark_streams.read.query.partition import RangePartition
from streamclient.config import address
from streamclient.connection import Connection
from tests.spark_streams.driver import Site, schema_of


class Frame:
    """A DataFrame, which is planned once and whose tasks run for each action and attempt."""

    def __init__(self, site: Site, **extra: Any) -> None:
        named = {} if "streams" in extra else {"stream": "s"}
        given = {"url": site.url, **named, **{name: str(value) for name, value in extra.items()}}
        parsed = options.read_options(given)
        self.reader = BatchReader(
            parsed, ReadSchema.of(schema_of("_id string, n int"), parsed), address.parse(site.url)
        )
        self.parts: Sequence[Any] = self.reader.partitions()

    def rows(self, between: Callable[[], object] | None = None) -> list[int]:
        """Return the values of column n from all tasks. `between` is called after the first batch of the first task."""
        found: list[int] = []
        for part in self.parts:
            for batch in self.reader.read(pickle.loads(pickle.dumps(part))):
                found += batch.column("n").to_pylist()
                if between is not None:
                    between()
                    between = None
        return found


#: Events after the first page of a stream of 4,000 entries was read.
EVENTS: dict[str, Callable[[Site], object]] = {
    "trimmed": lambda site: site.client.xtrim("s", maxlen=100, approximate=False),
    "one deleted": lambda site: site.client.xdel("s", "3999-1"),
    "deleted": lambda site: site.client.delete("s"),
    "made again, later IDs": lambda site: (site.client.delete("s"), site.add("s", 40, first=100)),
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_removal_while_a_task_reads_is_an_error(site: Site, event: str) -> None:
    """Removing entries after the reader's position between two pages is an error."""
    site.add("s", 4000, value="x" * 2000)
    frame = Frame(site, pageSize=10, startingOffsets="2-1")
    with pytest.raises(StreamError, match="LOST"):
        frame.rows(lambda: EVENTS[event](site))
    assert frame.parts


def test_a_range_is_counted_if_the_server_knows_the_number(site: Site) -> None:
    """A whole stream is counted by its length on every server; other ranges are counted only on the engine."""
    site.add("s", 40)
    (part,) = Frame(site).parts
    assert isinstance(part, RangePartition)
    assert [(counted.count, counted.size) for counted in part.ranges] == [(40, 40)]
    (part,) = Frame(site, startingOffsets="11-1", endingOffsets="35-1").parts
    assert isinstance(part, RangePartition)
    (counted,) = part.ranges
    if site.kind == "engine":
        assert counted.count == 25
    else:
        assert (counted.count, str(counted.head)) == (None, "11-1")


@pytest.mark.parametrize("bounds", [{}, {"startingOffsets": "2-1", "endingOffsets": "4-1"}], ids=str)
def test_planning_takes_a_few_round_trips(site: Site, bounds: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning a read of a hundred streams takes at most two round trips and reads at most the first entry of each."""
    for n in range(100):
        site.add(f"s{n}", 5)
    sent: list[int] = []
    pipeline = Connection.pipeline

    def counted(connection: Connection, commands: Sequence[Any]) -> list[Any]:
        if commands:
            sent.append(len(commands))
        return pipeline(connection, commands)

    Frame(site, streams="s0,s1", **bounds)  # makes the connection check the server's capabilities
    site.client.config_resetstat()
    monkeypatch.setattr(Connection, "pipeline", counted)
    frame = Frame(site, streams=",".join(f"s{n}" for n in range(100)), **bounds)
    calls = {name: found["calls"] for name, found in site.client.info("commandstats").items()}
    assert len(sent) <= 2
    assert sum(sent) <= 300
    assert calls.get("cmdstat_xrange", 0) == (100 if bounds and site.kind == "redis" else 0)
    assert sorted(set(frame.rows())) == (list(range(5)) if not bounds else [1, 2, 3])
