"""Entries as rows of a table: the fields that are columns, and the rest of an entry."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pystreams.values import fields
from pystreams.values.fields import Entry
from pystreams.values.names import from_shell
from streamwire.stream_id import StreamId

ID, OTHER = "_id", "_other"
#: Columns of the ID: its text, and its two numbers, by which rows can be sorted.
IDS = (ID, "_ms", "_seq")


def columns_of(page: Sequence[Entry]) -> list[str]:
    """Return the field names of these entries that can be columns, in the order of their first occurrence."""
    found: dict[bytes, None] = {}
    for _, words in page:
        found.update(dict.fromkeys(words[0::2]))
    return [name.decode() for name in found if is_text(name) and name and name.decode() not in (*IDS, OTHER)]


def is_text(value: bytes) -> bool:
    """Return whether the value is UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class Table:
    """Splits an entry into columns and other fields. Fields that do not fit a column are other fields."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._at = {from_shell(name): at for at, name in enumerate(columns)}

    def split(self, words: Sequence[bytes], *, empty: bool) -> tuple[list[str | None], list[tuple[bytes, bytes]]]:
        """Return the values of the columns, and the other fields. `empty`: whether columns may contain
        empty strings and line breaks.
        """
        cells: list[str | None] = [None] * len(self.columns)
        others: list[tuple[bytes, bytes]] = []
        for name, value in fields.pairs(words):
            at = self._at.get(name)
            fits = at is not None and cells[at] is None and is_text(value) and (empty or _fits_a_line(value))
            if at is not None and fits:
                cells[at] = value.decode()
            else:
                others.append((name, value))
        return cells, others


def _fits_a_line(value: bytes) -> bool:
    """Return whether a value fits into a CSV cell: no line break, and not empty (which means no field)."""
    return bool(value) and b"\n" not in value and b"\r" not in value


def id_cells(entry_id: bytes) -> tuple[str, int, int]:
    """Return the values of the columns `IDS`."""
    found = StreamId.parse(entry_id)
    return entry_id.decode(), found.ms, found.seq


def csv_cells(table: Table, words: Sequence[bytes]) -> list[str]:
    """Return an entry's cells in CSV: its columns, then the other fields as JSON. A missing value is an empty cell."""
    cells, others = table.split(words, empty=False)
    left = [word for pair in others for word in pair]
    return [*(cell or "" for cell in cells), json.dumps(fields.as_json(left), ensure_ascii=False) if left else ""]
