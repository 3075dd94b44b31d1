"""Files of an export. An interrupted export to JSON lines or CSV can continue after the last complete entry.

Before entries are appended to an existing file of JSON lines or CSV, an incomplete last line is removed. A Parquet file
cannot be continued. `pystreams.files.rows` reads the files and describes the formats.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pystreams.errors import fail
from pystreams.values import fields
from pystreams.values.fields import ID, IDS, OTHER, Entry, Table, columns_of, csv_cells, id_cells, is_text
from pystreams.values.names import from_shell

_TAIL = 1 << 16  # number of bytes first read from the end of a file, to find its last line


class Archive(Protocol):
    """Destination of an export. `last`: ID of its last entry; None if the archive is new."""

    last: bytes | None

    def write(self, page: Sequence[Entry]) -> None:
        """Add entries. The first entries determine the columns of a new archive."""
        ...

    def close(self, *, whole: bool) -> None:
        """Close the archive. `whole`: whether all entries were written."""
        ...


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Convert errors of the file system in the block to FILE_UNUSABLE."""
    try:
        yield
    except OSError as cause:
        fail("FILE_UNUSABLE", file=path, reason=cause.strerror or type(cause).__name__)


def open_archive(path: Path, form: str, columns: Sequence[str] | None, *, resume: bool) -> Archive:
    """Return a new archive at the path, or with `resume` the existing archive if there is one.

    `columns`: columns of CSV and Parquet; None uses the fields of the first entries. Raises FILE_EXISTS, MALFORMED_ROW,
    and INVALID_VALUE for unsuitable column names, and to resume a Parquet file.
    """
    if form == "parquet" and resume:
        fail("INVALID_VALUE", name="FILE", value=path, expected="--resume requires JSON lines or CSV")
    if path.exists() and not resume:
        fail("FILE_EXISTS", file=path)
    names = columns or ()
    once = len({*IDS, OTHER, *names}) == len(names) + len(IDS) + 1
    if not once or not all(is_text(from_shell(name)) for name in names):
        expected = f"it must list distinct field names in UTF-8, other than {', '.join(IDS)} and {OTHER}"
        fail("INVALID_VALUE", name="--columns", value=",".join(names), expected=expected)
    if form == "jsonl":
        return JsonLines(path)
    if form == "csv":
        return Csv(path, columns)
    return Parquet(path, columns)


class _Lines:
    """A file with one entry per line. `begin`: start of its first line.

    An incomplete last line is removed after a check that the file is an export. `last_line` is None if the file has no
    complete line.
    """

    begin: bytes

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b")
        self._size = self._file.seek(0, os.SEEK_END)
        self.last_line, self._end = self._find_last()
        try:
            self._go_on()
        except BaseException:
            self._file.close()
            raise

    def _go_on(self) -> None:
        """Prepare to write after the last complete line. Raises MALFORMED_ROW without changing the file."""
        self._file.seek(0)
        begin = self._file.read(len(self.begin))
        if begin != self.begin[: max(len(begin), len(self.begin) if self._end else 0)]:
            fail("MALFORMED_ROW", file=self._path, row=1, reason="it is not an export of this format")
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _find_last(self) -> tuple[bytes | None, int]:
        """Return the last complete line, and the offset of its end."""
        known = _TAIL
        while True:
            self._file.seek(max(0, self._size - known))
            tail = self._file.read()
            end = tail.rfind(b"\n")
            begin = tail.rfind(b"\n", 0, max(end, 0))
            if begin >= 0 or known >= self._size:
                return tail[begin + 1 : end] if end >= 0 else None, self._size - len(tail) + end + 1
            known *= 4

    def _append(self, text: str) -> None:
        self._file.write(text.encode("utf-8", "surrogateescape"))

    def close(self, *, whole: bool) -> None:
        del whole
        self._file.close()


class JsonLines(_Lines):
    """One line `{"id": ..., "fields": {...}}` for each entry; lossless."""

    begin = b'{"id": "'

    def __init__(self, path: Path) -> None:
        self.last: bytes | None = None
        super().__init__(path)

    def _go_on(self) -> None:
        if self.last_line is not None:
            try:
                self.last = str(json.loads(self.last_line)["id"]).encode()
            except (ValueError, KeyError, TypeError, RecursionError):
                fail("MALFORMED_ROW", file=self._path, row="last", reason="it is not an entry of an export")
        super()._go_on()

    def write(self, page: Sequence[Entry]) -> None:
        self._append(
            "".join(
                json.dumps({"id": entry_id.decode(), "fields": fields.as_json(words)}, ensure_ascii=False) + "\n"
                for entry_id, words in page
            )
        )


class Csv(_Lines):
    """A header and one line for each entry. `_other` contains the fields without a column, as JSON."""

    begin = ID.encode() + b","

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self.last: bytes | None = None
        self._table = None if columns is None else Table(columns)
        super().__init__(path)

    def _go_on(self) -> None:
        if self.last_line is not None:
            with self._path.open(encoding="utf-8", errors="surrogateescape", newline="") as source:
                header = next(csv.reader(source))
            if header[: len(IDS)] != [*IDS] or header[-1:] != [OTHER]:
                fail("MALFORMED_ROW", file=self._path, row=1, reason="it is not the header of an export")
            self._table = Table(header[len(IDS) : -1])
            cells = next(csv.reader([self.last_line.decode("utf-8", "surrogateescape")]), header[:0])
            if not cells:
                fail("MALFORMED_ROW", file=self._path, row="last", reason="it is not an entry of an export")
            self.last = None if cells == header else from_shell(cells[0])
        super()._go_on()

    def write(self, page: Sequence[Entry]) -> None:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if self.last_line is None:
            self._table = self._table or Table(columns_of(page))
            writer.writerow([*IDS, *self._table.columns, OTHER])
            self.last_line = b"header"
        assert self._table is not None
        for entry_id, words in page:
            writer.writerow([*id_cells(entry_id), *csv_cells(self._table, words)])
        self._append(buffer.getvalue())


class Parquet:
    """A Parquet file: columns of the ID, a text column for each field, and `_other` for fields without a column.

    Up to `most_entries` or `most_bytes` are buffered, and written as a row group. The file is readable after it is
    closed, and removed if not all entries were written.
    """

    most_entries, most_bytes = 10_000, 8 << 20

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        import pyarrow  # noqa: F401, PLC0415 - slow to import; fails before the first entry if it is missing

        self._path = path
        self._table = None if columns is None else Table(columns)
        self._rows: list[tuple[tuple[str, int, int], list[str | None], list[tuple[bytes, bytes]]]] = []
        self._bytes = 0
        self._writer: Any = None
        self.last: bytes | None = None

    def write(self, page: Sequence[Entry]) -> None:
        self._table = self._table or Table(columns_of(page))
        for entry_id, words in page:
            self._rows.append((id_cells(entry_id), *self._table.split(words, empty=True)))
            self._bytes += sum(map(len, words))
            if len(self._rows) >= self.most_entries or self._bytes >= self.most_bytes:
                self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - slow to import
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        names = [] if self._table is None else self._table.columns
        rows, self._rows, self._bytes = self._rows, [], 0
        arrays = [pa.array([ids[0] for ids, _, _ in rows], pa.string())]
        arrays += [
            pa.array([each if each < 2**63 else None for each in numbers], pa.int64())
            for numbers in ([ids[1] for ids, _, _ in rows], [ids[2] for ids, _, _ in rows])
        ]
        arrays += [pa.array([cells[at] for _, cells, _ in rows], pa.string()) for at in range(len(names))]
        arrays.append(pa.array([others or None for _, _, others in rows], pa.map_(pa.binary(), pa.binary())))
        table = pa.table(arrays, names=[*IDS, *names, OTHER])
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)

    def close(self, *, whole: bool) -> None:
        if whole and (self._rows or self._writer is None):
            self._write_group()
        if self._writer is not None:
            self._writer.close()
        if not whole:
            self._path.unlink(missing_ok=True)
