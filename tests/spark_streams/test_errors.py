"""Error conditions: each one is documented and named in a test; some are raised here."""

from __future__ import annotations

import ast
import re
import string
from typing import Any

import pyarrow as pa
import pytest

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import CONDITIONS, PystreamsError
from spark_streams.read.batch import BatchReader, infer_schema
from spark_streams.source import PystreamsDataSource
from spark_streams.write import sink
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.records import WriterId
from streamclient.config import address
from streamclient.config.address import Address
from streamclient.connection import Connection, Link
from streamclient.pool import borrow
from tests import ROOT
from tests.spark_streams.driver import Query, Site, schema_of


def read_options(site: Site, **given: str) -> Any:
    return options.read_options({"url": site.url, **given})


def test_every_error_has_the_parameters_of_its_text() -> None:
    """Every call that raises a condition passes exactly the parameters of its text and advice."""
    wrong = []
    for path in (ROOT / "spark_streams").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            condition = getattr(node.args[0], "value", None)
            if node.func.id in ("fail", "error") and isinstance(condition, str):
                entry = CONDITIONS[condition]
                needed = {name for _, name, _, _ in string.Formatter().parse(entry.text + entry.advice) if name}
                if needed != {keyword.arg for keyword in node.keywords}:
                    wrong.append(f"{path.name}:{node.lineno} {condition}")
    assert wrong == []


def test_every_condition_is_tested() -> None:
    """Every condition is named in a test."""
    words = {
        word for path in (ROOT / "tests").rglob("test_*.py") for word in re.findall(r"[A-Z_]{4,}", path.read_text())
    }
    assert set(CONDITIONS) - words == set()


def raised(action: Any) -> str:
    with pytest.raises(PystreamsError) as caught:
        action()
    return caught.value.condition


def test_writes_that_the_source_rejects() -> None:
    """A streaming overwrite, a missing key column, and rows without fields are errors."""
    source = PystreamsDataSource({"stream": "s", "url": "redis://127.0.0.1:1"})
    assert raised(lambda: source.streamWriter(schema_of("n int"), True)) == "UNSUPPORTED_OUTPUT_MODE"
    by_key = PystreamsDataSource({**source.options, "keyColumn": "key", "partitions": "2"})
    with pytest.raises(PystreamsError, match="Option 'keyColumn' is 'key', but the rows' columns are n"):
        by_key.writer(schema_of("n int"), False)
    assert raised(lambda: WriteSchema.of(schema_of("_id string"))) == "NO_FIELD_COLUMNS"


def test_a_command_that_the_server_rejects(site: Site) -> None:
    """A command that the server rejects is an error with the server's message."""
    with (
        pytest.raises(PystreamsError, match=r"NONESUCH.*unknown command") as caught,
        borrow(address.parse(site.url)) as link,
    ):
        link.command("NONESUCH")
    assert caught.value.condition == "UNKNOWN_COMMAND"


def test_streams_that_cannot_be_read(site: Site) -> None:
    """A stream name that is not text, a missing group, and no entries to infer a schema from have separate errors."""
    there = address.parse(site.url)
    given = {"stream": "s", "group": "g", "startingOffsets": "group", "failOnMissingStream": "false"}
    batch = BatchReader(read_options(site, **given), ReadSchema.of(schema_of("n int")), there)
    assert raised(batch.partitions) == "NOTHING_FROM_GROUP"
    assert (
        raised(lambda: infer_schema(read_options(site, stream="s", inferSchema="true"), there)) == "CANNOT_INFER_SCHEMA"
    )
    site.client.xadd(b"\xff", {"n": 1})
    assert raised(Query(site.url, streamPattern="*").reader.initialOffset) == "STREAM_NAME_NOT_TEXT"


def test_a_row_without_a_stream() -> None:
    """A null in `_stream` is an error if no option names the stream."""
    parsed = options.write_options({"url": "redis://127.0.0.1:1"})
    schema = WriteSchema.of(schema_of("_stream string, n int"))
    rows = pa.RecordBatch.from_pydict({"_stream": pa.array(["a", None]), "n": pa.array([1, 2])})
    assert raised(lambda: list(RowEncoder(parsed, schema).chunks(iter([rows])))) == "NO_STREAM_FOR_ROW"


def test_a_streaming_write_without_a_batch(connection: Connection) -> None:
    """A streaming write outside a query is an error, because there is no batch ID."""
    writer = sink.plan(
        Address("redis://127.0.0.1:1"),
        options.write_options({"stream": "s"}),
        WriteSchema.of(schema_of("n int")),
        True,
        False,
    )
    assert raised(lambda: writer.writer_id(connection)) == "NO_BATCH_IDENTITY"


def test_a_write_whose_fence_keeps_changing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction whose fence keeps being changed by others is an error after the retry time."""
    writer, parsed = WriterId("query", 0, 0), options.write_options({"stream": "s"})
    send_raw = Link.send_raw

    def send_after_others(link: Link, *data: Any) -> bytes:
        site.client.hincrby(writer.fence_key(b"s"), "chunk", 1)
        return send_raw(link, *data)

    monkeypatch.setattr(Link, "send_raw", send_after_others)
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1])})
    connection = Connection(Address(site.url, retry_ms=0))
    sender = ExactlyOnceSender(connection, writer, parsed, lasting=False)
    (chunk,) = RowEncoder(parsed, WriteSchema.of(schema_of("n int"))).chunks([rows])
    sender.submit(chunk)
    assert raised(sender.finish) == "WRITE_CONTENDED"
    assert site.client.exists("s") == 0
    connection.close()
