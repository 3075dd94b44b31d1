"""Error conditions: each is in the documents' table, and a test raises it."""

from __future__ import annotations

import ast
import re
import string
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from scripts import error_docs, rules_docs
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config import options
from spark_streams.embedded import drivers
from spark_streams.errors import CONDITIONS, PystreamsError
from spark_streams.read import infer
from spark_streams.read.batch import BatchReader
from spark_streams.source import PystreamsDataSource
from spark_streams.write import sink
from spark_streams.write.protocol import WriterId
from spark_streams.write.rows.encoding import RowEncoder
from spark_streams.write.tasks.exactly_once import ExactlyOnceSender
from streamclient.codec import decode_reference
from streamclient.config import address
from streamclient.config.address import Address
from streamclient.connection import Connection, Link
from streamclient.pool import borrow
from tests import ROOT
from tests.spark_streams.driver import Query, Site, schema_of


def read_options(site: Site, **said: str) -> Any:
    return options.read_options({"url": site.url, **said})


def test_the_page_of_errors_is_the_connectors() -> None:
    """`python scripts/error_docs.py` regenerates it."""
    page = error_docs.PART.page.read_text()
    assert error_docs.PART.replaced(page, error_docs.written()) == page


def test_the_page_of_rules_is_the_connectors() -> None:
    """`python scripts/rules_docs.py` regenerates the rules for an ACL user."""
    page = rules_docs.PART.page.read_text()
    assert rules_docs.PART.replaced(page, rules_docs.written()) == page


def test_every_error_has_the_parameters_of_its_text() -> None:
    """Wherever the connector raises a condition, it exists, and what its text and advice name is given."""
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


@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_a_test_raises_it(condition: str) -> None:
    """Every condition is named by a test of the connector."""
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    assert any(re.search(rf"\b{condition}\b", text) for text in tests)


def raised(action: Any) -> str:
    with pytest.raises(PystreamsError) as caught:
        action()
    return caught.value.condition


def test_what_the_source_refuses() -> None:
    """Overwriting with a streaming write, rows without anything to write, and a key that the rows do not have."""
    source = PystreamsDataSource({"stream": "s", "url": "redis://127.0.0.1:1"})
    assert raised(lambda: source.streamWriter(schema_of("n int"), True)) == "UNSUPPORTED_OUTPUT_MODE"
    by_key = PystreamsDataSource({**source.options, "keyColumn": "key", "partitions": "2"})
    with pytest.raises(PystreamsError, match="Option 'keyColumn' is 'key', but the rows' columns are n"):
        by_key.writer(schema_of("n int"), False)
    assert raised(lambda: WriteSchema.of(schema_of("_id string"))) == "NO_FIELD_COLUMNS"


def test_what_a_server_refuses(site: Site) -> None:
    """A command that the server refuses is an error with the server's words."""
    with (
        pytest.raises(PystreamsError, match=r"NONESUCH.*unknown command") as caught,
        borrow(address.parse(site.url)) as link,
    ):
        link.command("NONESUCH")
    assert caught.value.condition == "UNKNOWN_COMMAND"


def test_an_engine_of_another_machine() -> None:
    """The embedded engine of a driver elsewhere is out of reach."""
    there = Address("redis://127.0.0.1:1", driver="elsewhere/1/1")
    assert raised(lambda: drivers.check_reach(there)) == "EMBEDDED_OUT_OF_REACH"


def test_streams_that_cannot_be_read(site: Site) -> None:
    """A name that is not text, a missing group, and no entries to infer from are separate errors."""
    there = address.parse(site.url)
    said = {"stream": "s", "group": "g", "startingOffsets": "group", "failOnMissingStream": "false"}
    batch = BatchReader(read_options(site, **said), ReadSchema.of(schema_of("n int")), there)
    assert raised(batch.partitions) == "NOTHING_FROM_GROUP"
    assert (
        raised(lambda: infer.schema(read_options(site, stream="s", inferSchema="true"), there)) == "CANNOT_INFER_SCHEMA"
    )
    site.client.xadd(b"\xff", {"n": 1})
    assert raised(Query(site.url, streamPattern="*").reader.initialOffset) == "STREAM_NAME_NOT_TEXT"


def test_a_field_name_that_is_no_text() -> None:
    """A map of strings cannot have such a name as a key; a map of binaries can."""
    page = decode_reference.ScalarPage([(b"1-1", [b"\xff", b"1"])])
    text, binary = (
        replace(ReadSchema.of(t.StructType().add("fields", t.MapType(kind, kind))), mode="FAILFAST")
        for kind in (t.StringType(), t.BinaryType())
    )
    assert raised(lambda: text.batch(page, "s")) == "FIELD_NAME_NOT_TEXT"
    assert binary.batch(page, "s").to_pylist() == [{"fields": [(b"\xff", b"1")]}]


def test_a_row_without_a_stream() -> None:
    """A null in `_stream` is an error with the row's position, if no option names the stream."""
    said = options.write_options({"url": "redis://127.0.0.1:1"})
    schema = WriteSchema.of(schema_of("_stream string, n int"))
    rows = pa.RecordBatch.from_pydict({"_stream": pa.array(["a", None]), "n": pa.array([1, 2])})
    assert raised(lambda: list(RowEncoder(said, schema).chunks(iter([rows])))) == "NO_STREAM_FOR_ROW"


def test_a_streaming_write_without_a_batch(connection: Connection) -> None:
    """A streaming write outside of a query has no batch ID to distinguish batches."""
    writer = sink.plan(
        Address("redis://127.0.0.1:1"),
        options.write_options({"stream": "s"}),
        WriteSchema.of(schema_of("n int")),
        True,
        False,
    )
    assert raised(lambda: writer.writer_id(connection)) == "NO_BATCH_IDENTITY"


def test_a_write_that_others_always_get_ahead_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction whose fence others change until the time for retries is over is an error."""
    writer, said = WriterId("query", 0, 0), options.write_options({"stream": "s"})
    send_raw = Link.send_raw

    def send_after_others(link: Link, *data: Any) -> bytes:
        site.client.hincrby(writer.fence_key(b"s"), "chunk", 1)
        return send_raw(link, *data)

    monkeypatch.setattr(Link, "send_raw", send_after_others)
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1])})
    connection = Connection(Address(site.url, retry_ms=0))
    sender = ExactlyOnceSender(connection, writer, said, lasting=False)
    (chunk,) = RowEncoder(said, WriteSchema.of(schema_of("n int"))).chunks([rows])
    sender.submit(chunk)
    assert raised(sender.finish) == "WRITE_CONTENDED"
    assert site.client.exists("s") == 0
    connection.close()
