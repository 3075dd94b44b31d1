"""Entries of streams: a line of text, JSON or CSV for each."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pystreams.output.console import Form, Output
from pystreams.values import fields as values
from pystreams.values import names
from pystreams.values.fields import IDS, OTHER, Decoding, Table, columns_of, csv_cells, id_cells


class Lines:
    """Writes entries in a format that may differ from the format of other results (`export` to standard output).

    `fields`: names of the fields to write, in this order; None for all. `columns`: columns of CSV, by default `fields`
    or the fields of the first entry. Other fields are in the column `_other`, as in an export. `several`: whether
    entries belong to several streams, so that each line names the stream. `decoding`: decodes values; None writes them
    unchanged.
    """

    def __init__(
        self,
        out: Output,
        form: Form,
        fields: Sequence[bytes] | None,
        *,
        several: bool,
        columns: Sequence[str] | None = None,
        decoding: Decoding | None = None,
    ) -> None:
        self._out = out
        self._form = form
        self._fields = fields
        self._several = several
        self._columns = columns
        self._decoding = decoding
        self._table: Table | None = None

    def write(self, stream: bytes, entry_id: bytes, words: Sequence[bytes]) -> None:
        """Write one entry."""
        if self._fields is not None:
            chosen = [pair for name in self._fields for pair in values.pairs(words) if pair[0] == name]
            words = [word for pair in chosen for word in pair]
        if self._decoding is not None and self._form in (Form.TABLE, Form.CSV):
            words = self._decoding.as_texts(words)
        if self._form is Form.CSV:
            self._csv(stream, entry_id, words)
            return
        if self._form is not Form.TABLE:
            where = {"stream": names.as_json(stream)} if self._several else {}
            as_json = values.as_json if self._decoding is None else self._decoding.as_json
            self._out.json_line({**where, "id": entry_id.decode(), "fields": as_json(words)})
            return
        pairs = (
            f"{names.shown(name)}={names.shown(value)}" for name, value in zip(words[0::2], words[1::2], strict=True)
        )
        self._out.line("  ".join([entry_id.decode(), *([names.shown(stream)] if self._several else []), *pairs]))

    def _csv(self, stream: bytes, entry_id: bytes, words: Sequence[bytes]) -> None:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if self._table is None:
            columns = self._columns
            if columns is None and self._fields is not None:
                columns = [*map(names.to_shell, self._fields)]
            self._table = Table(columns_of([(entry_id, list(words))]) if columns is None else columns)
            writer.writerow([*IDS, *(["_stream"] if self._several else []), *self._table.columns, OTHER])
        where = [names.shown(stream)] if self._several else []
        writer.writerow([*id_cells(entry_id), *where, *csv_cells(self._table, words)])
        self._out.write(buffer.getvalue().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
