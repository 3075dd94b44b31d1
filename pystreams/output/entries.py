"""Entries as they come: a line of text, of JSON or of CSV for each."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pystreams.output.out import Output
from pystreams.values import fields as values
from pystreams.values import names

FORMATS = ("table", "json", "csv")


class Lines:
    """Writes entries. `fields`: the only ones to write, in this order; CSV without them takes those of the first entry.

    `several`: whether entries of several streams come, so that each names its own.
    """

    def __init__(self, out: Output, form: str, fields: Sequence[bytes] | None, *, several: bool) -> None:
        self._out = out
        self._form = "json" if out.json else form
        self._fields = fields
        self._several = several
        self._begun = False

    def write(self, stream: bytes, entry_id: bytes, words: Sequence[bytes]) -> None:
        """Write one entry."""
        if self._form == "csv":
            self._csv(stream, entry_id, words)
            return
        if self._fields is not None:
            wanted = dict(zip(words[0::2], words[1::2], strict=True))
            words = [word for name in self._fields if name in wanted for word in (name, wanted[name])]
        if self._form == "json":
            where = {"stream": names.as_json(stream)} if self._several else {}
            self._out.document({**where, "id": entry_id.decode(), "fields": values.as_json(words)})
            return
        pairs = (
            f"{names.shown(name)}={names.shown(value)}" for name, value in zip(words[0::2], words[1::2], strict=True)
        )
        self._out.line("  ".join([entry_id.decode(), *([names.shown(stream)] if self._several else []), *pairs]))

    def _csv(self, stream: bytes, entry_id: bytes, words: Sequence[bytes]) -> None:
        if self._fields is None:
            self._fields = list(dict.fromkeys(words[0::2]))
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if not self._begun:
            self._begun = True
            writer.writerow(["_id", *(["_stream"] if self._several else []), *map(names.shown, self._fields)])
        values = dict(zip(words[0::2], words[1::2], strict=True))
        texts = [values[name].decode("utf-8", "backslashreplace") if name in values else "" for name in self._fields]
        writer.writerow([entry_id.decode(), *([names.shown(stream)] if self._several else []), *texts])
        self._out.write(buffer.getvalue())
