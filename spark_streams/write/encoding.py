"""Encoding of rows: columns as fields, each row's stream, the commands that write the rows, and the XTRIMs that follow.

`WriteSchema` checks that every column can be written, and converts a record batch to fields. `RowEncoder` chooses each
row's stream and divides the rows into chunks. The stream is that of the options, the value of `_stream`, or one of N
streams by a key. A row's fields and its own ID never depend on the clock. So the digest of the rows (`records`)
distinguishes a replay from other rows. For the same reason XTRIM is separate from the rows' XADDs; the server trims
only once per chunk. A server that has PS.ADD gets rows as columns, instead of one command per row.

Rows with their own IDs are separated from other rows and checked before they are sent.
"""

from __future__ import annotations

import time
from binascii import crc_hqx
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import conversion, json_writer
from spark_streams.columns.conversion import (
    FIELDS,
    ID,
    RESERVED,
    STREAM,
    check_reserved,
    has_text,
    is_fields_map,
    is_nested,
    nullable,
)
from spark_streams.config import time_zones
from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.records import row_hashes
from streamclient.codec.encode import Column, encode_adds
from streamclient.connection import Command, Connection
from streamwire.lazy import compute as pc
from streamwire.stream_id import StreamId

# -- columns as fields -------------------------------------------------------------------------------------------------


class ValueWriter(Protocol):
    """Encodes each row as one value."""

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row."""


@dataclass(frozen=True)
class WriteSchema:
    """The columns of a write. `fields`: names of the columns that become fields.

    `has_map`: whether the entries of the map column `fields` become fields (never with `row_field`). `has_id`,
    `has_stream`: whether the columns `_id` and `_stream` exist. `null_value`: text for nulls; None omits them.
    `row_field`: the field whose value contains all columns; None if each column is a field. `writer`: encoder of this
    value; None for a JSON object. `zone`: zone of written times.
    """

    fields: tuple[str, ...]
    has_map: bool
    has_id: bool
    has_stream: bool
    null_value: str | None = None
    row_field: str | None = None
    zone: str = time_zones.UTC
    writer: ValueWriter | None = None

    @classmethod
    def of(
        cls,
        schema: spark.StructType,
        null_value: str | None = None,
        row_field: str | None = None,
        zone: str | None = None,
    ) -> WriteSchema:
        """Return the schema. Without a zone, times are written in UTC.

        Raises DUPLICATE_COLUMN, RESERVED_COLUMN or UNSUPPORTED_TYPE if a column cannot be written, and NO_FIELD_COLUMNS
        if no column becomes a field.
        """
        _check_names(schema)
        names: list[str] = []
        has_map = False
        for field in schema.fields:
            kind = field.dataType
            if field.name in RESERVED:  # not a field of the entry
                check_reserved(field)
            elif is_fields_map(field) and row_field is None:
                has_map = True
            elif isinstance(kind, spark.NullType):
                continue  # a column without values
            elif has_text(kind):
                names.append(field.name)
            else:
                fail("UNSUPPORTED_TYPE", column=field.name, type=kind.simpleString(), done="written to a field")
        if not names and not has_map:
            fail("NO_FIELD_COLUMNS", columns=", ".join(schema.fieldNames()) or "(none)")
        given = schema.fieldNames()
        return cls(tuple(names), has_map, ID in given, STREAM in given, null_value, row_field, zone or time_zones.UTC)

    def columns(self, batch: Any) -> list[Column]:
        """Return the fields made of columns: each field's name, and a binary array of its texts."""
        if self.row_field is not None:
            columns = [conversion.array_in(batch.column(name), self.zone) for name in self.fields]
            rows = json_writer.rows if self.writer is None else self.writer.values
            return [(self.row_field.encode(), rows(list(self.fields), columns, batch.num_rows))]
        return [(name.encode(), self._filled(to_text(batch.column(name), self.zone))) for name in self.fields]

    def _filled(self, texts: Any) -> Any:
        if self.null_value is None or not texts.null_count:
            return texts
        return pc.fill_null(texts, self.null_value.encode())

    def pairs(self, batch: Any) -> tuple[Any, Any, Any] | None:
        """Return the fields in the map column of all rows as offsets, names and values; None if there is no map column.

        Null values become `null_value`, or are omitted if `null_value` is None.
        """
        if not self.has_map:
            return None
        column = batch.column(FIELDS)
        if column.null_count:
            column = pc.if_else(column.is_null(), pa.scalar([], column.type), column)
        bounds = column.offsets.to_numpy()
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        bounds, names, texts = bounds - first, column.keys.slice(first, count), column.items.slice(first, count)
        if texts.null_count and self.null_value is None:
            is_there = texts.is_valid()
            bounds = np.concatenate(([0], np.cumsum(np.asarray(is_there))))[bounds]
            names, texts = names.filter(is_there), texts.filter(is_there)
        return pa.array(bounds, pa.int32()), conversion.to_text(names), self._filled(conversion.to_text(texts))


def _check_names(kind: spark.DataType) -> None:
    """Raise DUPLICATE_COLUMN if two columns or two members of a struct have the same name."""
    if isinstance(kind, spark.StructType):
        for name, count in Counter(kind.fieldNames()).items():
            if count > 1:
                fail("DUPLICATE_COLUMN", column=name)
        for field in kind:
            _check_names(field.dataType)
    elif isinstance(kind, spark.ArrayType):
        _check_names(kind.elementType)
    elif isinstance(kind, spark.MapType):
        _check_names(kind.valueType)


def to_text(column: Any, zone: str = time_zones.UTC) -> Any:
    """Return a binary array of the column's texts, with nested values as JSON."""
    column = conversion.array_in(column, zone)
    if is_nested(column.type):
        return pc.cast(json_writer.column(column), pa.binary())
    return conversion.to_text(column)


# -- rows with their own IDs -------------------------------------------------------------------------------------------


def check_ids(rows: EncodedRows, last: StreamId, address: object) -> None:
    """Raise ROW_REFUSED if the server would refuse a row's own ID. `last`: the stream's last ID before these rows."""
    for at, text in enumerate(rows.ids or ()):
        reason = ""
        try:
            last, before = _own_id(text or b"*", last), last
            if last <= before:
                entry_id = (text or b"").decode("utf-8", "backslashreplace")
                reason = f"the ID {entry_id} is not larger than the stream's last ID, {before}. {OWN_IDS}"
        except ValueError as problem:
            reason = f"{str(problem).rstrip('.')}. {OWN_IDS}"
        if reason:
            fail("ROW_REFUSED", row=int(rows.rows[at]), address=address, reason=reason.rstrip(". "))


def _own_id(text: bytes, last: StreamId) -> StreamId:
    """Return the ID of an entry that is added with the ID `text` after `last`."""
    ms, dash, seq = text.partition(b"-")
    if dash and seq == b"*":
        given = StreamId.parse(ms).ms
        return StreamId(given, last.seq + 1) if given == last.ms else StreamId(given, 0)
    return StreamId.parse(text)


def runs(together: Sequence[EncodedRows]) -> list[list[EncodedRows]]:
    """Return the rows in order, divided so that rows with their own IDs are separate from other rows.

    Otherwise an own ID could follow an ID that the server chooses, and could not be checked in advance.
    """
    if all(rows.ids is None for rows in together):
        return [list(together)]
    found: list[list[EncodedRows]] = []
    for rows in together:
        if rows.ids is None:
            found.append([rows])
            continue
        chosen = [each is not None and each != b"*" for each in rows.ids]
        cuts = [0, *(i for i in range(1, len(chosen)) if chosen[i] != chosen[i - 1]), len(chosen)]
        for first, end in pairwise(cuts):
            part = rows.part(first, end)
            if not chosen[first]:
                part = part.without_ids()
            found.append([part])
    return found


# -- rows as commands --------------------------------------------------------------------------------------------------

_CHUNK_BYTES = 4 << 20  # maximum size of a chunk's values in Arrow
_COMMAND_BYTES = 32 << 20  # maximum size of a chunk's commands, which repeat the field names in each row
_AROUND = 14  # bytes of a field in a command, without its name and value

#: Explanation for a refused ID.
OWN_IDS = (
    "The column '_id' gives the entries their IDs. With the option keepIds=false, the server chooses the IDs. To write "
    "the column as a field, rename it."
)


class EncodedRows:
    """Rows for one stream.

    Row i is `commands[bounds[i]:bounds[i + 1]]`, an XADD. `rows[i]` is its number among the task's rows, from 0.
    `ids[i]` is the row's own ID, or None if the server chooses it. `ids` is None if the server chooses all IDs.
    `columns`: all fields of the rows as columns; None if values are missing, or if the rows have own IDs or fields from
    a map. The commands are made from the columns when they are first needed.
    """

    def __init__(
        self,
        stream: bytes,
        rows: Any,
        ids: list[bytes | None] | None,
        hashes: Callable[[], Any],
        *,
        columns: tuple[Column, ...] | None = None,
        encoded: tuple[memoryview, Any] | None = None,
    ) -> None:
        self.stream = stream
        self.rows = rows
        self.ids = ids
        self.columns = columns
        self._hashes = hashes
        self._given = encoded

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def hashes(self) -> Any:
        """Hash of each row."""
        return self._hashes()

    @cached_property
    def _encoded(self) -> tuple[memoryview, Any]:
        if self._given is not None:
            return self._given
        assert self.columns is not None
        return _bytes_of(encode_adds(self.stream, None, self.columns, None, len(self)))

    @property
    def commands(self) -> memoryview:
        """The rows' commands."""
        return self._encoded[0]

    @property
    def bounds(self) -> Any:
        """Start of each row's command, and the end of the last one."""
        return self._encoded[1]

    @property
    def makes_commands(self) -> bool:
        """Whether the commands must still be made from the columns."""
        return self._given is None and "_encoded" not in self.__dict__

    def part(self, first: int, end: int) -> EncodedRows:
        """Return the rows [first, end), without copying."""
        hashes = self.hashes[first:end]
        columns = self.columns
        if columns is not None:
            columns = tuple((name, values.slice(first, end - first)) for name, values in columns)
        encoded = None
        if not self.makes_commands:
            begin = int(self.bounds[first])
            encoded = self.commands[begin : int(self.bounds[end])], self.bounds[first : end + 1] - begin
        ids = None if self.ids is None else self.ids[first:end]
        return EncodedRows(self.stream, self.rows[first:end], ids, lambda: hashes, columns=columns, encoded=encoded)

    def pick(self, indexes: Sequence[int]) -> EncodedRows:
        """Return a copy of the rows at these indexes."""
        commands = [bytes(self.commands[int(self.bounds[at]) : int(self.bounds[at + 1])]) for at in indexes]
        bounds = np.concatenate(([0], np.cumsum([len(command) for command in commands])))
        ids = None if self.ids is None else [self.ids[at] for at in indexes]
        encoded = memoryview(b"".join(commands)), bounds
        return EncodedRows(self.stream, self.rows[indexes], ids, lambda: self.hashes[indexes], encoded=encoded)

    def without_ids(self) -> EncodedRows:
        """Return the same rows, with IDs chosen by the server."""
        return EncodedRows(
            self.stream, self.rows, None, lambda: self.hashes, columns=self.columns, encoded=self._encoded
        )


def _bytes_of(values: Any) -> tuple[memoryview, Any]:
    """Return the bytes of the values in a binary array without nulls, and the bounds of each value."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    begin, end = int(bounds[0]), int(bounds[-1])
    view = memoryview(data)[begin:end] if data is not None else memoryview(b"")
    return view, bounds - begin


@dataclass(frozen=True)
class RowEncoder:
    """Encodes rows according to the options and the schema."""

    options: WriteOptions
    schema: WriteSchema

    def chunks(self, batches: Iterable[Any]) -> Iterator[list[EncodedRows]]:
        """Yield the rows of a task's record batches in chunks. A chunk has at most one `EncodedRows` per stream.

        With writeMode=atomic, all rows are one chunk. Raises NO_FIELDS and NO_STREAM_FOR_ROW.
        """
        row, is_atomic = 0, self.options.mode == "atomic"
        if is_atomic and (batches := list(batches)):
            batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
        names = sum(len(name.encode()) + _AROUND for name in self.schema.fields)
        for batch in batches:
            row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
            most = min(_CHUNK_BYTES // row_bytes, _COMMAND_BYTES // (row_bytes + names))
            step = max(1, batch.num_rows if is_atomic else min(self.options.chunk_size, most))
            for at in range(0, batch.num_rows, step):
                columns = [each.cast(nullable(each.type)) for each in batch.slice(at, step).columns]
                chunk = pa.RecordBatch.from_arrays(columns, batch.schema.names)
                yield self._by_stream(chunk, row)
                row += chunk.num_rows

    def _by_stream(self, chunk: Any, row: int) -> list[EncodedRows]:
        """Return a chunk's rows, encoded and separated by stream. `row` is the number of the first row."""
        rows = np.arange(row, row + chunk.num_rows)
        if self.options.stream is not None and self.options.partitions is None:
            return [self._encode(self.options.stream.encode(), chunk, rows)]
        streams = self._streams(chunk, row).dictionary_encode()
        if len(streams.dictionary) == 1:
            return [self._encode(streams.dictionary[0].as_py(), chunk, rows)]
        codes = streams.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(streams.dictionary) + 1))
        sorted_rows = pa.RecordBatch.from_arrays(
            [column.take(pa.array(order)) for column in chunk.columns], schema=chunk.schema
        )
        return [
            self._encode(name, sorted_rows.slice(begin, end - begin), rows[order[begin:end]])
            for name, begin, end in zip(
                streams.dictionary.to_pylist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True
            )
        ]

    def _streams(self, chunk: Any, row: int) -> Any:
        """Return each row's stream as a binary array."""
        if self.options.partitions is not None:
            keys = to_text(chunk.column(self.options.key_column)).dictionary_encode()
            name, count = (self.options.stream or "").encode(), self.options.partitions
            targets = [b"%b:{%d}" % (name, crc_hqx(key, 0) % count) for key in keys.dictionary.to_pylist()]
            if keys.null_count:  # a null key counts as an empty key
                targets.append(b"%b:{%d}" % (name, 0))
            at = pc.fill_null(keys.indices, len(keys.dictionary))
            return pa.array(targets, pa.binary()).take(at)
        names = pc.cast(chunk.column(STREAM), pa.binary())
        if names.null_count:
            fail("NO_STREAM_FOR_ROW", row=row + pc.index(names.is_null(), True).as_py())
        return names

    def _encode(self, stream: bytes, chunk: Any, rows: Any) -> EncodedRows:
        has_ids = self.schema.has_id and self.options.keep_ids
        ids = pc.cast(chunk.column(ID), pa.binary()) if has_ids else None
        columns, pairs = self.schema.columns(chunk), self.schema.pairs(chunk)
        hashes = partial(row_hashes, columns, pairs, ids, chunk.num_rows)
        plain = ids is None and pairs is None and not any(values.null_count for _, values in columns)
        if plain:
            return EncodedRows(stream, rows, None, hashes, columns=tuple(columns))
        commands = encode_adds(stream, ids, columns, pairs, chunk.num_rows)
        if commands.null_count:
            fail("NO_FIELDS", row=int(rows[pc.index(commands.is_null(), True).as_py()]))
        row_ids = None if ids is None else ids.to_pylist()
        return EncodedRows(stream, rows, row_ids, hashes, encoded=_bytes_of(commands))


# -- trimming ---------------------------------------------------------------------------------------------------------


def trim_commands(stream: bytes, options: WriteOptions, clock: Callable[[], float] = time.time) -> list[Command]:
    """Return the XTRIMs according to the options. `clock` returns seconds since 1970."""
    wanted: list[tuple[str, int]] = []
    if options.maxlen is not None:
        wanted.append(("MAXLEN", options.maxlen))
    if options.retention is not None:
        wanted.append(("MINID", max(0, int(clock() * 1000) - options.retention)))
    # Without LIMIT 0, each XTRIM removes a limited number of entries, and a large chunk may add more than that.
    how: tuple[str, ...] = ("~",) if options.approximate else ("=",)
    limit: tuple[str | int, ...] = ("LIMIT", 0) if options.approximate else ()
    return [("XTRIM", stream, strategy, *how, threshold, *limit) for strategy, threshold in wanted]


# -- rows as columns ---------------------------------------------------------------------------------------------------

#: Maximum bytes of the entries of one command. A command blocks the server's other clients while it is executed.
_COLUMNS_BYTES = 64 << 20
_ENTRY_BYTES, _FIELD_BYTES = 80, 48  # maximum overhead of an entry, and of each of its fields


def accepts_columns(connection: Connection) -> bool:
    """Return whether the server has PS.ADD; False for a cluster. Requested once per connection."""
    return not connection.topology.is_cluster and connection.capabilities.has("PS.ADD")


def are_columns(rows: EncodedRows) -> bool:
    """Return whether the rows can be sent as columns and have not been converted to commands."""
    if rows.columns is None or not rows.makes_commands:
        return False
    size = sum(values.nbytes + len(rows) * (len(name) + _FIELD_BYTES) for name, values in rows.columns)
    return bool(size + len(rows) * (len(rows.stream) + _ENTRY_BYTES) <= _COLUMNS_BYTES)


def as_columns(rows: EncodedRows) -> list[bytes | memoryview]:
    """Return the command that adds the rows, as a list of buffers."""
    assert rows.columns is not None
    words: list[bytes | memoryview] = [b"PS.ADD", rows.stream, b"%d" % len(rows)]
    for name, values in rows.columns:
        view, bounds = _bytes_of(values)
        words += [name, bounds.astype("<i4").tobytes(), view]
    return _bulks(words)


def _bulks(words: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = [b"*%d\r\n" % len(words)]
    for word in words:
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return parts
