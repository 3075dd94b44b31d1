"""Spark's calls of a stream reader, made without Spark: triggers, checkpoints, replays, pickled readers."""

from __future__ import annotations

import json
import pickle
import weakref
from dataclasses import dataclass
from typing import Any

import redis
from pyspark.sql.types import StructType

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.read.stream import LegacyStreamReader
from spark_streams.source import stream_reader
from streamclient.config import address

_NAMES = {"int": "integer", "bigint": "long"}


def schema_of(text: str | StructType) -> StructType:
    """Return the schema for a comma-separated list of names and simple types, which needs no session."""
    if isinstance(text, StructType):
        return text
    schema = StructType()
    for column in text.split(", "):
        name, _, kind = column.partition(" ")
        schema.add(name, _NAMES.get(kind, kind))
    return schema


_readers: weakref.WeakSet[Any] = weakref.WeakSet()  # of the current test


def end_queries() -> None:
    """Release the leases of all queries, whose threads would renew them on the empty server of the next test."""
    for reader in list(_readers):
        reader.source.lease.give_up()
    _readers.clear()


class Query:
    """The reading half of a streaming query. `trigger` runs one micro-batch."""

    def __init__(self, url: str, schema: str | StructType = "_id string, n int", **given: Any) -> None:
        self.options = {"url": url, **{name: str(value) for name, value in given.items()}}
        self.schema = schema
        self.log: list[str] = []  # the offset log: the start, and the end of each batch
        self.batches: list[list[dict[str, Any]]] = []
        self.partitions: list[list[int]] = []  # rows in each partition of each batch
        self.restart()

    def restart(self, **changed: Any) -> None:
        """Replace the driver's reader, with these options changed; the checkpoint stays."""
        self.options |= {name: str(value) for name, value in changed.items()}
        parsed = options.read_options(self.options)
        found = parsed.address if isinstance(parsed.address, address.Address) else address.parse(self.options["url"])
        self.reader = stream_reader()(parsed, ReadSchema.of(schema_of(self.schema), parsed), found)
        _readers.add(self.reader)

    def plan(self) -> bool:
        """Write the next batch into the offset log; return False if there is none."""
        if not self.log:
            self.log.append(json.dumps(self.reader.initialOffset()))
        end = json.dumps(self.reader.latestOffset(json.loads(self.log[-1]), self.reader.getDefaultReadLimit()))
        if end == self.log[-1]:
            return False
        self.log.append(end)
        if len(self.log) > 2:
            self.reader.commit(json.loads(self.log[-2]))
        return True

    def run(self) -> list[dict[str, Any]]:
        """Run the last batch of the offset log, for the first time or again."""
        start, end = json.loads(self.log[-2]), json.loads(self.log[-1])
        worker = pickle.loads(pickle.dumps(self.reader))
        rows: list[dict[str, Any]] = []
        sizes: list[int] = []
        for part in self.reader.partitions(start, end):
            before = len(rows)
            for batch in worker.read(pickle.loads(pickle.dumps(part))):
                rows += batch.to_pylist()
            sizes.append(len(rows) - before)
        self.batches.append(rows)
        self.partitions.append(sizes)
        return rows

    def trigger(self) -> list[dict[str, Any]] | None:
        """Run a micro-batch; return its rows, or None if there are no new entries."""
        return self.run() if self.plan() else None

    def drain(self, most: int = 100) -> list[dict[str, Any]]:
        """Run micro-batches until there are no new entries; return all rows."""
        rows: list[dict[str, Any]] = []
        for _ in range(most):
            found = self.trigger()
            if found is None:
                return rows
            rows += found
        raise AssertionError(f"still something after {most} batches")

    def offset(self, name: str) -> Any:
        """Return one member of the last offset."""
        return json.loads(self.log[-1]).get(name)


class OldQuery(Query):
    """A query on Spark 4.0 and 4.1, which request the latest offset without the start of the batch."""

    def restart(self, **changed: Any) -> None:
        """Replace the driver's reader; the next call is `goes_on` or `available_now`."""
        self.options |= {name: str(value) for name, value in changed.items()}
        parsed = options.read_options(self.options)
        found = parsed.address if isinstance(parsed.address, address.Address) else address.parse(self.options["url"])
        self.old = LegacyStreamReader(parsed, ReadSchema.of(schema_of(self.schema), parsed), found)
        self.reader = self.old  # type: ignore[assignment]
        _readers.add(self.old)

    def goes_on(self, *, unfinished: bool = False) -> None:
        """Make Spark's first calls with an existing checkpoint; run the last batch again if it was `unfinished`."""
        last = json.loads(self.log[-1])
        assert not self.old.partitions(last, last)
        if unfinished:
            self.run()

    def run(self) -> list[dict[str, Any]]:
        if len(self.log) == 2 and self.log[0] == "":
            start, end = self.old.initialOffset(), self.log[1]
            self.log = [json.dumps(start), end]
            try:
                return super().run()
            finally:
                self.log = ["", end]  # Spark does not store the start of the query
        return super().run()

    def plan(self) -> bool:
        return self.logs(json.dumps(self.old.latestOffset()))

    logs_only = False  # whether the driver ends after it has written the next batch to the offset log

    def logs(self, end: str) -> bool:
        """Write the end of a batch into the offset log; return False if there is none."""
        if self.log and end == self.log[-1]:
            return False
        self.log = [*(self.log or [""]), end]
        if len(self.log) > 2:
            self.old.commit(json.loads(self.log[-2]))
        return True

    def available_now(self, *, unfinished: bool = False) -> list[dict[str, Any]]:
        """Run the query with Trigger.AvailableNow on a new reader; return the rows of its new batch."""
        end = json.dumps(self.old.latestOffset())
        if self.log:
            self.goes_on(unfinished=unfinished)
        return self.run() if self.logs(end) and not self.logs_only else []


@dataclass
class Site:
    """An empty server and a client for it."""

    url: str
    client: redis.Redis
    kind: str

    def query(self, **given: Any) -> Query:
        return Query(self.url, **{"startingOffsets": "earliest", **given})

    def old_query(self, **given: Any) -> OldQuery:
        return OldQuery(self.url, **{"startingOffsets": "earliest", **given})

    def add(self, stream: str, count: int, first: int = 0, ids: str = "{n}-1", **more: str) -> None:
        """Add `count` entries; the field n counts from `first`, and the IDs follow the template."""
        pipeline = self.client.pipeline(transaction=False)
        for n in range(first, first + count):
            pipeline.xadd(stream, {"n": n, **more}, id=ids.format(n=n + 1))
        pipeline.execute()

    def group(self, stream: str = "s", name: str = "g") -> dict[str, Any]:
        return next(group for group in self.client.xinfo_groups(stream) if group["name"] == name.encode())


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """Return the values of column n."""
    return [row["n"] for row in rows]


def add_entries(client: redis.Redis, stream: str, count: int, first: int = 1, size: int = 1) -> None:
    """Add `count` entries with the IDs `first`-0 and following, and a field n of `size` bytes."""
    pipeline = client.pipeline(transaction=False)
    for n in range(first, first + count):
        pipeline.xadd(stream, {"n": "x" * size}, id=f"{n}-0")
    pipeline.execute()
