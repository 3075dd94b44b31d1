"""Batch reads whose entries are removed after planning: the error is the same for every plan and server."""

from __future__ import annotations

import logging
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
from streamclient.streams.counting import Entries
from tests.spark_streams.driver import Site, schema_of

PLANS: dict[str, dict[str, Any]] = {
    "default": {},
    "split": {"minPartitions": 3},
    "split by size": {"maxEntriesPerPartition": 7},
    "small pages": {"pageSize": 4},
    "from an ID": {"startingOffsets": "11-1", "pageSize": 4},
    "to an ID": {"endingOffsets": "35-1", "pageSize": 4},
    "between IDs": {"startingOffsets": "11-1", "endingOffsets": "35-1"},
    "between IDs, split": {"startingOffsets": "11-1", "endingOffsets": "35-1", "minPartitions": 3},
    "sampled": {"minPartitions": 3},
}


@pytest.fixture(params=[*PLANS])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Options of a plan. The limits for exact counts are lowered for a plan that is sampled."""
    if request.param == "sampled":
        monkeypatch.setattr(Entries, "counted", 1)
    return PLANS[request.param]


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


EVENTS: dict[str, Callable[[Site], object]] = {
    "trimmed": lambda site: site.client.xtrim("s", maxlen=20, approximate=False),
    "trimmed to nothing": lambda site: site.client.xtrim("s", maxlen=0, approximate=False),
    "trimmed while it grows": lambda site: (
        site.add("s", 40, first=40),
        site.client.xtrim("s", maxlen=40, approximate=False),
    ),
    "one deleted": lambda site: site.client.xdel("s", "23-1"),
    "deleted": lambda site: site.client.delete("s"),
    "made again, later IDs": lambda site: (site.client.delete("s"), site.add("s", 40, first=100)),
    "made again, some of its IDs": lambda site: (
        site.client.delete("s"),
        site.add("s", 20),
        site.add("s", 1, first=39),
    ),
    "made again, trimmed": lambda site: (
        site.client.delete("s"),
        site.add("s", 40),
        site.client.xtrim("s", maxlen=20, approximate=False),
    ),
}
CONDITIONS = {"trimmed": "ENTRIES_LOST", "one": "ENTRIES_LOST", "deleted": "STREAM_LOST", "made": "_LOST"}


@pytest.mark.parametrize("event", [*EVENTS])
def test_a_removal_between_two_actions_is_an_error(
    site: Site, plan: dict[str, Any], event: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A removal between two actions fails the second one, or causes a warning with failOnDataLoss=false."""
    site.add("s", 40)
    frame, lenient = Frame(site, **plan), Frame(site, **plan, failOnDataLoss="false")
    whole = frame.rows()
    assert lenient.rows() == whole
    assert "LOST" not in caplog.text
    EVENTS[event](site)
    with pytest.raises(StreamError, match=r"'s'.*failOnDataLoss") as caught:
        frame.rows()
    assert CONDITIONS[event.split(maxsplit=1)[0]] in caught.value.condition
    with caplog.at_level(logging.WARNING, "spark_streams"):
        left = lenient.rows()
    assert "LOST" in caplog.text
    assert set(left) <= {int(fields[b"n"]) for _, fields in site.client.xrange("s")}


@pytest.mark.parametrize("event", ["trimmed", "one deleted", "deleted", "made again, later IDs"])
def test_a_removal_while_a_task_reads_is_an_error(site: Site, event: str) -> None:
    """Removing entries after the reader's position between two pages is an error."""
    site.add("s", 4000, value="x" * 2000)
    frame = Frame(site, pageSize=10, startingOffsets="2-1")
    if event == "one deleted":
        remove: Callable[[], object] = lambda: site.client.xdel("s", "3999-1")  # noqa: E731
    elif event == "trimmed":
        remove = lambda: site.client.xtrim("s", maxlen=100, approximate=False)  # noqa: E731
    else:
        remove = lambda: EVENTS[event](site)  # noqa: E731
    with pytest.raises(StreamError, match="LOST"):
        frame.rows(remove)
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
