"""Reading ranges as columns (PS.COLUMNS): the result is the same as with XRANGE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import PystreamsError
from spark_streams.read.query.partition import RangePartition
from streamclient import pool
from streamclient.capabilities import Capabilities
from streamclient.codec import reference
from streamclient.codec.decode import BatchPage
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams import pages as page_module
from streamclient.streams.pages import columns
from streamclient.streams.states import Range
from streamwire.stream_id import LAST, ZERO, StreamId
from tests import servers
from tests.spark_streams.driver import add_entries as add
from tests.streamclient.codec.test_arrow import unhurried
from tests.suite.waiting import wait_for


@pytest.fixture(scope="module")
def tiny() -> Iterator[servers.Running]:
    """An engine with segments of ten entries that become cold immediately."""
    with servers.engine(module="tests.servers.tiny_engine") as running:
        yield running
    pool.close_all()


def field(name: str, kind: spark.DataType) -> spark.StructField:
    return spark.StructField(name, kind)


TEXT, NUMBER = spark.StringType(), spark.IntegerType()
SCHEMAS = [
    [field("n", NUMBER)],
    [field("_id", TEXT), field("n", spark.LongType()), field("x", spark.DoubleType())],
    [field("_timestamp", spark.TimestampType()), field("x", TEXT), field("missing", TEXT)],
    [field("_id", TEXT), field("_stream", TEXT), field("fields", spark.MapType(TEXT, TEXT))],
    [field("fields", spark.MapType(spark.BinaryType(), spark.BinaryType())), field("n", TEXT)],
    [field("n", NUMBER), field("x", spark.DecimalType(10, 2)), field("_corrupt_record", TEXT)],
    [field("x", spark.TimestampType()), field("n", spark.BinaryType())],
    [field("j", spark.StructType([field("a", NUMBER)])), field("_id", TEXT)],
    [],
]
OPTIONS: list[dict[str, str]] = [
    {},
    {"mode": "FAILFAST"},
    {"mode": "DROPMALFORMED"},
    {"nullValue": "7"},
    {"valueFormat": "json", "valueField": "j"},
]
VALUES = st.one_of(
    st.integers(-99, 10**7).map(lambda n: b"%d" % n),
    st.sampled_from(
        [b"", b"1.5", b"-3.25", b"\xff\xfe", b"x" * 300, b"\r\n$3\r\n", b"*2\r\n$3\r\n1-1", b"7", b"2024-01-01"]
    ),
)
JSON = st.sampled_from([b'{"a":1,"n":2}', b"{", b'{"n":"x"}'])
SHAPES = st.sampled_from([("n",), ("n", "x"), ("x", "n"), ("n", "x", "j"), ("n", "n"), ("x", "", "n")])


@st.composite
def streams(draw: st.DrawFn) -> list[list[bytes]]:
    """Generate the fields of a stream's entries: long runs with the same fields and plain values, and short irregular
    runs.
    """
    entries: list[list[bytes]] = []
    for _ in range(draw(st.integers(1, 4))):
        names, count = draw(SHAPES), draw(st.sampled_from([1, 5, 25, 60]))
        values = draw(st.sampled_from([st.integers(1000, 9999).map(lambda n: b"%d" % n), VALUES]))
        kinds = [JSON if name == "j" else values for name in names]
        few = [[draw(kind) for kind in kinds] for _ in range(min(count, 7))]
        entries += [
            [word for pair in zip(map(str.encode, names), few[at % len(few)], strict=True) for word in pair]
            for at in range(count)
        ]
    return entries


def filled(client: redis.Redis, entries: Sequence[Sequence[bytes]], deleted: Sequence[int], trimmed: int) -> None:
    client.flushall()
    pipeline = client.pipeline(transaction=False)
    for number, words in enumerate(entries, 1):
        pipeline.execute_command("XADD", "s", f"{number // 4}-{number}", *words)
    for number in deleted:
        pipeline.xdel("s", f"{number // 4}-{number}")
    pipeline.xtrim("s", minid=f"{trimmed // 4}-{trimmed}", approximate=False)
    pipeline.execute()


def rows(
    url: str, parts: Sequence[Range], fields: list[spark.StructField], read_options: dict[str, str], page: int
) -> Any:
    """Return a task's result for the ranges: a table, or the text of its error."""
    read = options.read_options({"url": url, "stream": "s", **read_options})
    schema = ReadSchema.of(spark.StructType(fields), read)
    partition = RangePartition(Address(url), tuple(parts), page, fails=False)
    batches = []
    try:
        batches += partition.batches(schema)
    except PystreamsError as error:
        return str(error)
    return pa.Table.from_batches(batches, schema=schema.arrow).combine_chunks()


@unhurried
@given(
    entries=streams(),
    deleted=st.sets(st.integers(1, 100), max_size=6),
    trimmed=st.sampled_from([0, 0, 15]),
    fields=st.sampled_from(SCHEMAS),
    read_options=st.sampled_from(OPTIONS),
    page=st.sampled_from([3, 40, 10_000]),
    bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted),
    room=st.sampled_from([300, 1 << 20]),
)
def test_columns_are_read_as_entries_are(
    tiny: servers.Running,
    entries: list[list[bytes]],
    deleted: set[int],
    trimmed: int,
    fields: list[spark.StructField],
    read_options: dict[str, str],
    page: int,
    bounds: list[int],
    room: int,
) -> None:
    """For any stream, schema and options, a task returns the same from columns, from entries, and from the slow
    reference decoder.
    """
    with redis.Redis(port=tiny.port) as client:
        filled(client, entries, sorted(deleted), trimmed)
    last = StreamId(len(entries) // 4, len(entries))
    low, high = (min(StreamId(bound, 0), last) for bound in bounds)
    parts = [Range("s", low, high, 0), Range("s", high, last, 1)]
    with mock.patch.object(page_module, "TARGET_BYTES", room):
        found = rows(tiny.url, parts, fields, read_options, page)
    with mock.patch.object(Capabilities, "has", return_value=False):
        assert rows(tiny.url, parts, fields, read_options, page) == found
        slow = reference.parse
        with mock.patch.object(page_module, "decode_page", slow):
            assert rows(tiny.url, parts, fields, read_options, page) == found


def numbers(pages: Iterator[Any]) -> list[int]:
    return [int(entry_id.partition(b"-")[0]) for page in pages for entry_id in page.ids().to_pylist()]


@pytest.fixture
def reader(tiny: servers.Running) -> Iterator[Connection]:
    """Connection to the engine `tiny`, whose stream has a hundred entries."""
    with redis.Redis(port=tiny.port) as client:
        client.flushall()
        add(client, "s", 100)
    made = Connection(Address(tiny.url))
    wait_for(lambda: cold(made) >= 90, "segments are cold")
    yield made
    made.close()


def cold(connection: Connection) -> int:
    """Return the number of entries of the stream that are sent as columns."""
    pages = columns(connection, "s", ZERO, LAST, 1000)
    batches = [batch for page in pages if isinstance(page, BatchPage) for batch in page.batches]
    return sum(batch.count for batch in batches if isinstance(batch.ids, tuple))


def test_cold_entries_come_as_columns(reader: Connection) -> None:
    """Cold entries are read as columns, page by page; pages after the first omit fields that are not needed."""
    pages = list(columns(reader, "s", ZERO, StreamId(90, 0), 30, [b"other"]))
    assert numbers(iter(pages)) == [*range(1, 91)]
    assert [page.column(b"n").null_count for page in pages] == [0, 30, 30]
    assert [page.fields()[1].to_pylist() == [b"n"] * 30 for page in pages] == [True] * 3


def test_reading_continues_after_a_broken_connection(reader: Connection, tiny: servers.Running) -> None:
    """If the connection breaks after any page, reading continues at the same position."""
    with redis.Redis(port=tiny.port) as client:
        found = []
        for page in columns(reader, "s", ZERO, LAST, 20):
            found += numbers(iter([page]))
            client.client_kill_filter(_type="normal", skipme=True)
    assert found == [*range(1, 101)]


@pytest.mark.parametrize("rule", ["-ps.columns", "-command"])
def test_a_user_without_permission_reads_with_xrange(reader: Connection, tiny: servers.Running, rule: str) -> None:
    """A user without permission for PS.COLUMNS reads with XRANGE, even if the permission is revoked
    between two pages.
    """
    with redis.Redis(port=tiny.port) as client:
        client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", "+@all")
        connection = Connection(Address(tiny.url.replace("://", "://job:x@")))
        try:
            found = []
            for page in columns(connection, "s", ZERO, LAST, 20):
                found += numbers(iter([page]))
                client.execute_command("ACL", "SETUSER", "job", rule)
            assert found == [*range(1, 101)]
            assert numbers(columns(connection, "s", ZERO, LAST, 20)) == found
        finally:
            connection.close()
            client.execute_command("ACL", "DELUSER", "job")


def test_a_server_without_columns_is_read_with_xrange(client: redis.Redis, connection: Connection) -> None:
    """A server without PS.COLUMNS is read with XRANGE, even if the client expects the command to exist."""
    add(client, "s", 50)
    client.set("text", "x")
    for most in (1, 7, 1000):
        found = columns(connection, "s", StreamId(10, 0), StreamId(40, 0), most)
        assert numbers(found) == [*range(11, 41)]
    with mock.patch.object(Capabilities, "has", return_value=True):
        assert numbers(columns(connection, "s", StreamId(10, 0), StreamId(40, 0), 9)) == [*range(11, 41)]
        assert numbers(columns(connection, "none", ZERO, LAST, 9)) == []
        with pytest.raises(PystreamsError, match="NOT_A_STREAM"):
            list(columns(connection, "text", ZERO, LAST, 9))
    assert connection.command("PING") == b"PONG"


def test_pages_of_large_values_have_few_entries(client: redis.Redis, connection: Connection) -> None:
    """Pages of large values have few entries, however many are allowed."""
    add(client, "s", 12, size=3_000_000)
    add(client, "s", 500, first=13)
    counts = [page.count for page in columns(connection, "s", ZERO, LAST, 10_000)]
    assert sum(counts) == 512
    assert max(counts[:5]) <= 8


def test_capabilities_are_asked_once(client: redis.Redis, connection: Connection) -> None:
    """The client asks once per connection whether a server has a command; a rejected command counts as missing."""
    known = connection.capabilities
    client.config_resetstat()
    for _ in range(3):
        assert known.has("PING", "XRANGE")
        assert not known.has("PING", "NO.SUCH")
    stats = client.info("commandstats")
    assert sum(stats[name]["calls"] for name in stats if name.startswith("cmdstat_command")) == 2
    known.mark_missing("PING")
    assert not known.has("PING", "XRANGE")
