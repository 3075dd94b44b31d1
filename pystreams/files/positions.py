"""Positions of groups in a file: CSV with a header, or JSON lines, as `groups ls -o csv` and `-o jsonl` write them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pystreams.errors import fail
from pystreams.files.rows import form_of
from pystreams.values import names
from streamwire.stream_id import StreamId

_NEEDED = ("stream", "group", "position")


def read(file: Path) -> dict[tuple[bytes, bytes], StreamId]:
    """Return the position of each stream and group: the last entry that the group has read. Raises MALFORMED_ROW."""
    found: dict[tuple[bytes, bytes], StreamId] = {}
    number = 0
    with file.open(encoding="utf-8", errors="surrogateescape", newline="") as source:
        rows: Iterable[Any] = source if form_of(str(file)) == "jsonl" else csv.DictReader(source)
        try:
            for row in rows:
                number += 1
                record = json.loads(row) if isinstance(row, str) else row
                stream, group, position = (_value(record, name) for name in _NEEDED)
                found[stream, group] = StreamId.parse(position)
        except (ValueError, TypeError) as cause:
            fail("MALFORMED_ROW", file=file, row=number, reason=cause)
    return found


def _value(row: Any, name: str) -> bytes:
    value = row.get(name) if isinstance(row, dict) else None
    if value is None:
        raise ValueError(f"it has no '{name}'")
    return names.from_cell(value) if isinstance(value, str) else names.from_json(value)
