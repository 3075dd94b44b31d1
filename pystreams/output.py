"""The output of a command: results to standard output, everything else to standard error.

`Form` lists the formats of results. A verb writes a table, or if the results are `structured`, a document or single
records, which are formatted here; `Lines` writes entries of streams. If the reader closes the pipe (`| head`),
`ReaderGoneError` ends the command without a message. This module does not depend on servers or commands.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from pystreams.errors import fail
from pystreams.values import fields as values
from pystreams.values import names
from pystreams.values.fields import IDS, OTHER, Decoding, Table, columns_of, csv_cells, id_cells
from pystreams.values.names import printable
from streamclient.errors import PystreamsError

T = TypeVar("T")

_WIDEST = 120  # maximum width to which the cells of a column are padded


class Form(StrEnum):
    """Format of a command's results."""

    #: Text with aligned columns.
    TABLE = "table"
    #: One JSON document. Verbs with an unbounded number of records write one document per record, each on its own line.
    JSON = "json"
    #: One line of JSON for each record.
    JSONL = "jsonl"
    #: A header, and one row for each record. Lists and maps are JSON in their cells. Null and an empty text are
    #: empty cells.
    CSV = "csv"


class ReaderGoneError(Exception):
    """The reader of standard output has closed it."""


@dataclass(frozen=True)
class Column:
    """A column of a table. `right`: whether it is right-aligned. `styles`: colours of cells by text, on terminals."""

    title: str
    right: bool = False
    styles: Mapping[str, str] | None = None


class _Console(Console):
    """A console that raises BrokenPipeError if its pipe is closed. The console of rich would end the process."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class Output:
    """Standard output and standard error of one command, opened when the command starts."""

    def __init__(self, form: Form = Form.TABLE) -> None:
        self.form = form
        self._header: list[str] = []  # the last CSV header that was written
        self._out: TextIO = sys.stdout
        self._errors = _Console(file=sys.stderr, highlight=False, markup=False, soft_wrap=True)

    @property
    def structured(self) -> bool:
        """Whether the results are for programs, as documents and records."""
        return self.form is not Form.TABLE

    @property
    def json(self) -> bool:
        """Whether results are JSON. If so, errors and warnings are also JSON, and notes are omitted."""
        return self.form in (Form.JSON, Form.JSONL)

    @property
    def on_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        return self._out.isatty()

    def write(self, text: str) -> None:
        """Write text. Characters that the encoding does not support are escaped.

        Control characters are also escaped if the text goes to a terminal.
        """
        if self.on_terminal:
            text = printable(text, "\n")
        with self._reachable():
            try:
                self._out.write(text)
            except UnicodeEncodeError:
                encoding = self._out.encoding or "ascii"
                self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        """Flush standard output."""
        with self._reachable():
            self._out.flush()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Convert errors of writing to standard output: ReaderGoneError for a closed pipe, otherwise FILE_UNUSABLE."""
        try:
            yield
        except OSError as cause:
            # Write to /dev/null from now on. Otherwise Python would fail at exit when it flushes the buffer.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())
            if isinstance(cause, BrokenPipeError):
                raise ReaderGoneError from None
            fail("FILE_UNUSABLE", file="standard output", reason=cause.strerror or type(cause).__name__)

    def line(self, text: str = "") -> None:
        """Write a line of text."""
        self.write(text + "\n")

    def document(self, value: dict[str, Any], records: str = "") -> None:
        """Write a document as one record.

        `records`: key of a list in the document. As JSON lines or CSV, each item of this list is a record instead.
        """
        if records and self.form in (Form.JSONL, Form.CSV):
            for each in value[records]:
                self.record(each)
        else:
            self.record(value)

    def record(self, value: dict[str, Any]) -> None:
        """Write one record on its own line. A verb may write any number of records."""
        if self.form is Form.CSV:
            self._row(value)
            return
        escaped = not (self._out.encoding or "utf-8").lower().startswith("utf")
        text = json.dumps(value, ensure_ascii=escaped, separators=(", ", ": "))
        if self.on_terminal and not text.isprintable():
            # Escape unprintable characters that JSON leaves unescaped, such as U+009B. They occur only in strings.
            text = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
        self.write(text + "\n")

    def _row(self, value: dict[str, Any]) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if list(value) != self._header:
            self._header = list(value)
            writer.writerow(self._header)
        writer.writerow(map(_cell, value.values()))
        self.write(text.getvalue())

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, empty: str = "") -> None:
        """Write rows under their titles, without truncating or wrapping cells. `empty`: note if there are no rows."""
        found = [list(map(printable, row)) for row in rows]
        if not found:
            self.note(empty)
            return
        # A wider cell is not truncated; it shifts the rest of its row.
        widths = [
            min(_WIDEST, max(cell_len(column.title), *(cell_len(row[at]) for row in found)))
            for at, column in enumerate(columns)
        ]
        titles = [column.title for column in columns]
        console = _Console(file=self._out, highlight=False, markup=False, soft_wrap=True) if self.on_terminal else None
        for row in (titles, *found):
            if console is None:
                self.line("  ".join(map(_padded, columns, row, widths)).rstrip())
                continue
            styles = [
                "bold" if row is titles else (column.styles or {}).get(cell, "")
                for column, cell in zip(columns, row, strict=True)
            ]
            cells = zip(map(_padded, columns, row, widths), styles, strict=True)
            with self._reachable():
                console.print(Text("  ").join(Text(cell, style) for cell, style in cells))

    def note(self, text: str) -> None:
        """Write a note to standard error, unless results are JSON."""
        if text and not self.json:
            self.flush()
            self._tell(Text(printable(text, "\n"), style="dim"))

    def warn(self, text: str) -> None:
        """Write a warning to standard error."""
        self.flush()
        self._say("warning", {"message": text}, text, "yellow")

    def failed(self, failure: PystreamsError) -> None:
        """Write the failure of the command to standard error."""
        text = str(failure)
        parameters = {"id": failure.condition, "message": text.removeprefix(f"[{failure.condition}] ")}
        self._say("error", parameters, text, "red")

    def refused(self, message: str) -> None:
        """Write a usage error to standard error."""
        self._say("error", {"id": "USAGE", "message": message}, message, "red")

    def _say(self, kind: str, document: dict[str, Any], text: str, style: str) -> None:
        if self.json:
            self._tell(Text(json.dumps({kind: document})))
        else:
            self._tell(Text.assemble((f"{kind}: ", f"bold {style}"), printable(text, "\n")))

    def _tell(self, text: Text) -> None:
        """Write a line to standard error. A closed standard error is ignored."""
        with suppress(OSError):
            self._errors.print(text)

    def progress(
        self, doing: str, items: Iterable[T], total: int | None = None, amount: Callable[[T], int] = lambda _: 1
    ) -> Iterator[T]:
        """Yield the items, and show progress if results are tables and standard error is a terminal.

        `amount`: number of things that an item counts for. `total`: number of all things, if it is known.
        """
        if self.structured or not self._errors.is_terminal:
            yield from items
            return
        columns = [SpinnerColumn(), TextColumn("{task.description}")]
        bar = (
            [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()] if total else [TextColumn("{task.completed:,}")]
        )
        with Progress(*columns, *bar, console=self._errors, transient=True) as shown:
            task = shown.add_task(doing, total=total)
            for item in items:
                yield item
                shown.advance(task, amount(item))


def _cell(value: Any) -> str:
    """Return a value of a record as a cell of CSV."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _padded(column: Column, cell: str, width: int) -> str:
    """Pad a cell to the width of its column. Some characters are two cells wide on a terminal."""
    space = " " * (width - cell_len(cell))
    return space + cell if column.right else cell + space


class Lines:
    """Writes entries. As CSV, the columns are the fields of the first entry; other fields are in the column `_other`,
    as in an export.

    `several`: whether entries belong to several streams, so that each line names the stream. `decoding`: decodes
    values; None writes them unchanged.
    """

    def __init__(self, out: Output, *, several: bool = False, decoding: Decoding | None = None) -> None:
        self._out = out
        self._several = several
        self._decoding = decoding
        self._table: Table | None = None

    def write(self, stream: bytes, entry_id: bytes, words: Sequence[bytes]) -> None:
        """Write one entry."""
        if self._out.json:
            where = {"stream": names.as_json(stream)} if self._several else {}
            as_json = values.as_json if self._decoding is None else self._decoding.as_json
            self._out.record({**where, "id": entry_id.decode(), "fields": as_json(words)})
            return
        if self._decoding is not None:
            words = self._decoding.as_texts(words)
        where_shown = [names.shown(stream)] if self._several else []
        if self._out.form is Form.CSV:
            self._csv(where_shown, entry_id, words)
            return
        pairs = (f"{names.shown(name)}={names.shown(value)}" for name, value in values.pairs(words))
        self._out.line("  ".join([entry_id.decode(), *where_shown, *pairs]))

    def _csv(self, where: list[str], entry_id: bytes, words: Sequence[bytes]) -> None:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if self._table is None:
            self._table = Table(columns_of([(entry_id, list(words))]))
            writer.writerow([*IDS, *(["_stream"] if self._several else []), *self._table.columns, OTHER])
        writer.writerow([*id_cells(entry_id), *where, *csv_cells(self._table, words)])
        self._out.write(buffer.getvalue().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
