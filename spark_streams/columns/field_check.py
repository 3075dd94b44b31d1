"""Detection of columns that are null in all rows of a task, which suggests a misspelt name or a wrong type.

Tasks of batch reads, and of the first batch after a query's start, look for such columns. With the option
`requireFields`, a task raises an error. Otherwise each worker process logs one warning per list of columns.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pyarrow as pa

from spark_streams.columns import json_reference
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.errors import error
from streamclient.codec.reply import Page
from streamwire.lazy import difflib

_log = logging.getLogger("spark_streams")
_SAMPLE = 100  # number of entries from which the message takes field names
_MOST = 12  # maximum number of columns, and of fields, in the message
_COMPARED = 1000  # maximum number of field names that are compared with the name of a missing column
_warned: set[str] = set()


class FieldCheck:
    """Check of one task: `see` records each page, and `finish` reports columns that never had a value."""

    def __init__(self, schema: ReadSchema) -> None:
        self._schema = schema
        names = Counter(schema.field_columns())
        self._empty = [name for name, count in names.items() if count == 1]  # a duplicate name identifies no column
        self._rows = 0
        self._fields: set[str] = set()

    def see(self, page: Page, batch: Any) -> None:
        """Record a page and the record batch made from it."""
        if not self._empty or not batch.num_rows:
            return
        if not self._rows:
            self._fields = self._names(page)
        self._rows += batch.num_rows
        self._empty = [name for name in self._empty if batch.column(name).null_count == batch.num_rows]

    def finish(self, streams: list[str]) -> None:
        """Raise or log FIELDS_MISSING or FIELDS_UNREADABLE for columns without any value. Call this after all rows."""
        if not self._empty or not self._rows:
            return
        known = sorted(self._fields)
        missing = [name for name in self._empty if name not in self._fields]
        unreadable = [name for name in self._empty if name in self._fields]
        if missing:
            near = [difflib.get_close_matches(name, known[:_COMPARED], n=1) for name in missing[:_MOST]]
            nearest = _listed([name for (name, *_) in filter(None, near)]) or "none"
            self._report("FIELDS_MISSING", missing, streams, fields=_first(known), nearest=nearest)
        if unreadable:
            self._report("FIELDS_UNREADABLE", unreadable, streams)

    def _report(self, condition: str, columns: list[str], streams: list[str], **further: str) -> None:
        named = _first(columns)
        problem = error(condition, columns=named, rows=self._rows, streams=_listed(streams), **further)
        if self._schema.requires_fields:
            raise problem
        if named not in _warned:
            _warned.add(named)
            _log.warning("%s", problem)

    def _names(self, page: Page) -> set[str]:
        """Return the field names in the page's first entries.

        If one value contains all columns, return the names of the JSON members in the first entry's value instead.
        """
        objects = self._schema.objects(page)
        if objects is not None:
            found = json_reference.object_in(objects[0].as_py())
            return {name.encode("utf-8", "replace").decode() for name in found or {}}
        offsets, names, _ = page.fields()
        last = offsets[min(_SAMPLE, page.count)].as_py()
        return {name.decode("utf-8", "replace") for name in pa.array(names.slice(0, last)).unique().to_pylist()}


def _first(names: list[str]) -> str:
    return _listed(names[:_MOST]) + (", ..." if len(names) > _MOST else "")


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
