"""Positions of groups in a file, as `groups ls` writes them: CSV with a header, JSON lines, or a JSON document."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from pystreams.errors import fail
from pystreams.files.rows import form_of
from pystreams.values import names
from streamwire.stream_id import StreamId

_NEEDED = ("stream", "group", "position")


def read(file: Path) -> dict[tuple[bytes, bytes], StreamId]:
    """Return the ID of the last entry that each group has read, by stream and group. Raises MALFORMED_ROW."""
    found: dict[tuple[bytes, bytes], StreamId] = {}
    number = 0
    with file.open(encoding="utf-8", errors="surrogateescape", newline="") as source:
        try:
            for record in _records(source, file):
                number += 1
                stream, group, position = (_value(record, name) for name in _NEEDED)
                entry_id = StreamId.parse(position)
                if found.setdefault((stream, group), entry_id) != entry_id:
                    raise ValueError("an earlier row has a different position for the same group")
        except RecursionError:
            fail("MALFORMED_ROW", file=file, row=number + 1, reason="it is nested too deeply")
        except (ValueError, TypeError, csv.Error) as cause:
            fail("MALFORMED_ROW", file=file, row=max(number, 1), reason=cause)
    return found


def _records(source: TextIO, file: Path) -> Iterator[Any]:
    if form_of(str(file)) == "jsonl":
        text = source.read()
        try:
            document = json.loads(text)
        except ValueError:
            document = map(json.loads, filter(str.strip, text.splitlines()))
        if isinstance(document, dict):
            document = document.get("groups", [document])
        yield from document
    else:
        table = csv.DictReader(source)
        for name in _NEEDED:
            if name not in (table.fieldnames or ()):
                raise ValueError(f"it has no '{name}'")
        yield from table


def _value(row: Any, name: str) -> bytes:
    value = row.get(name) if isinstance(row, dict) else None
    if value is None:
        raise ValueError(f"it has no '{name}'")
    return names.from_cell(value) if isinstance(value, str) else names.from_json(value)
