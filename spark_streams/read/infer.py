"""`inferSchema`: reads the first entries of the streams and infers a schema from them."""

from __future__ import annotations

import itertools

from pyspark.sql.types import StructType

from spark_streams.columns import inference
from spark_streams.columns.inference import Entry
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.read.query.selection import streams_of
from streamclient.codec.reply import Page
from streamclient.config.address import Address
from streamclient.pool import borrow
from streamclient.streams.pages import pages
from streamclient.streams.stream_server import open_server
from streamwire.stream_id import LAST, ZERO


def schema(options: ReadOptions, address: Address) -> StructType:
    """Return the schema of the first `samplingSize` entries of each stream.

    Raises CANNOT_INFER_SCHEMA if there are no entries.
    """
    entries: list[Entry] = []
    with borrow(address) as connection:
        streams = streams_of(options, open_server(connection))
        for stream in streams:
            for page in pages(connection, stream, ZERO, LAST, options.page_size, limit=options.samples or 0):
                entries += _entries(page)
    if not entries:
        fail("CANNOT_INFER_SCHEMA", streams=options.pattern or ", ".join(streams))
    return inference.schema(entries, options.row_field, options.null_value)


def _entries(page: Page) -> list[Entry]:
    offsets, names, texts = (part.to_pylist() for part in page.fields())
    return [dict(zip(names[first:last], texts[first:last], strict=True)) for first, last in itertools.pairwise(offsets)]
