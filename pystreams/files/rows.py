"""Rows of files as entries: field names and values, and an ID if the file has one.

    jsonl    one object per line. `tail -o json` and `export` write entries as `{"id": ..., "fields": ...}`. In any
             other object each member that is not null is a field, and `_id` is the ID
    csv      a header with field names. `_id` is the ID; an empty value means that the entry does not have the field
    parquet  a column for each field. `_id` is the ID; null means that the entry does not have the field
    lines    each line is the value of the field `line`

The columns `_ms` and `_seq`, which repeat the numbers of the ID, are skipped. The column `_other` contains the fields
without a column, as pairs of name and value: in CSV as JSON, in Parquet as a map of bytes.

`read_positions` reads positions of groups, as `groups ls` writes them: CSV with a header, or JSON lines.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pystreams.errors import fail
from pystreams.values import names
from pystreams.values.fields import ID, IDS, OTHER
from streamwire.stream_id import StreamId

FORMS = ("jsonl", "csv", "parquet", "lines")
_PARQUET_ROWS = 1000  # rows converted to Python objects at a time
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
csv.field_size_limit((1 << 31) - 1)  # the default limit is 128 KiB, but values may have 512 MiB


@dataclass(frozen=True)
class Row:
    """An entry of a file. `words`: alternating field names and values."""

    id: bytes | None
    words: list[bytes]


def form_of(path: str) -> str | None:
    """Return the format that a file's name implies, or None."""
    return _SUFFIXES.get(Path(path).suffix.lower())


def read(source: BinaryIO, form: str, name: str) -> Iterator[Row]:
    """Yield the rows of an open file of any format except Parquet. Raises MALFORMED_ROW with the row's number."""
    if form == "lines":
        for line in source:
            yield Row(None, [b"line", line.rstrip(b"\r\n")])
    elif form == "jsonl":
        for number, line in enumerate(source, 1):
            if line.strip():
                yield _of_json(line, name, number)
    else:
        yield from _of_csv(source, name)


class _Number(str):
    """A JSON number with its original digits: 12.50 stays 12.50, and 1e400 does not become infinite."""

    __slots__ = ()


def _loads(text: bytes | str) -> Any:
    """Return a parsed JSON document, with numbers as `_Number`."""
    return json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def _dumps(value: Any) -> str:
    """Return a document of `_loads` as JSON on one line without spaces."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_dumps, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_dumps(name)}:{_dumps(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _of_json(line: bytes, name: str, number: int) -> Row:
    try:
        value = _loads(line)
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        if set(value) >= {"id", "fields"} and set(value) <= {"id", "fields", "stream"}:
            return Row(str(value["id"]).encode(), _words(value["fields"]))
        entry_id, *_ = [value.pop(name, None) for name in IDS]
        words = [word for field, each in value.items() if each is not None for word in (field.encode(), _value(each))]
        return Row(None if entry_id is None else str(entry_id).encode(), words)
    except RecursionError:
        return fail("MALFORMED_ROW", file=name, row=number, reason="it is nested too deeply")
    except ValueError as cause:
        return fail("MALFORMED_ROW", file=name, row=number, reason=str(cause))


def _value(value: Any) -> bytes:
    """Return a member's value as bytes. Objects and lists become JSON; an object with only `base64` is decoded."""
    if isinstance(value, list) or (isinstance(value, dict) and set(value) != {"base64"}):
        return _dumps(value).encode()
    return names.from_json(value)


def _words(fields: Any) -> list[bytes]:
    if isinstance(fields, dict):
        return [word for name, value in fields.items() for word in (name.encode(), names.from_json(value))]
    if isinstance(fields, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in fields):
        return [names.from_json(word) for pair in fields for word in pair]
    raise ValueError("'fields' is neither an object nor a list of pairs")


def _of_csv(source: BinaryIO, name: str) -> Iterator[Row]:
    reader = csv.reader(names.to_shell(line.removeprefix(b"\xef\xbb\xbf")) for line in source)
    try:
        header = next(reader, None)
        if header is None:
            return
        for number, cells in enumerate(reader, 2):
            if not cells:
                continue
            if len(cells) != len(header):
                fail(
                    "MALFORMED_ROW",
                    file=name,
                    row=number,
                    reason=f"it has {len(cells)} values instead of {len(header)}",
                )
            entry_id, words, other = None, [], ""
            for field, cell in zip(header, cells, strict=True):
                if field == ID:
                    entry_id = names.from_shell(cell) or None
                elif field == OTHER:
                    other = cell
                elif cell and field not in IDS:
                    words += [names.from_shell(field), names.from_shell(cell)]
            try:
                words += _words(_loads(other)) if other else []
            except (ValueError, RecursionError) as cause:
                fail("MALFORMED_ROW", file=name, row=number, reason=f"its {OTHER} cannot be read: {cause}")
            yield Row(entry_id, words)
    except csv.Error as cause:
        fail("MALFORMED_ROW", file=name, row=reader.line_num, reason=str(cause))


def read_parquet(path: Path) -> Iterator[Row]:
    """Yield the rows of a Parquet file, or of all files in a directory by name. Raises MALFORMED_ROW."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import; only Parquet needs it
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    path.stat()  # raises an error that names the file, unlike pyarrow's error
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(_PARQUET_ROWS):
                    yield from _of_batch(batch.column_names, [column.to_pylist() for column in batch.columns])
        except (pa.ArrowException, OSError) as cause:
            fail("MALFORMED_ROW", file=file, row=1, reason=str(cause).splitlines()[0])


def _of_batch(columns: Sequence[str], values: Sequence[list[Any]]) -> Iterator[Row]:
    for cells in zip(*values, strict=True):
        entry_id, words = None, []
        for name, cell in zip(columns, cells, strict=True):
            if cell is None:
                continue
            if name == ID:
                entry_id = _bytes(cell)
            elif name == OTHER and isinstance(cell, list):
                words += [_bytes(word) for pair in cell for word in pair]
            elif name not in IDS:
                words += [name.encode(), _bytes(cell)]
        yield Row(entry_id, words)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).encode()
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str).encode()
    return str(value).encode()


def read_positions(file: Path) -> dict[tuple[bytes, bytes], StreamId]:
    """Return the ID of the last entry that each group has read, by stream and group. Raises MALFORMED_ROW."""
    found: dict[tuple[bytes, bytes], StreamId] = {}
    form = form_of(str(file)) or "csv"
    with file.open("rb") as source:
        for number, row in enumerate(read(source, form, str(file)), 2 if form == "csv" else 1):
            cells = dict(zip(row.words[0::2], row.words[1::2], strict=True))
            try:
                stream, group = (names.from_cell(names.to_shell(cells[name])) for name in (b"stream", b"group"))
                position = StreamId.parse(cells[b"position"])
                if found.setdefault((stream, group), position) != position:
                    raise ValueError("an earlier row has a different position for the same group")
            except KeyError as missing:
                fail("MALFORMED_ROW", file=file, row=number, reason=f"it has no '{missing.args[0].decode()}'")
            except ValueError as cause:
                fail("MALFORMED_ROW", file=file, row=number, reason=cause)
    return found
