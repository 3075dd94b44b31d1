"""Fields of entries: as JSON and strings, as rows of a table, and decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pystreams.values import names
from pystreams.values.names import from_shell
from streamclient.formats.decoder import Decoder
from streamclient.formats.schemas import UndecodableError
from streamwire.stream_id import StreamId

#: An entry's ID, and its alternating field names and values.
Entry = tuple[bytes, list[bytes]]


def pairs(words: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return alternating names and values as pairs."""
    return list(zip(words[0::2], words[1::2], strict=True))


def as_json(words: Sequence[bytes], value_of: Callable[[bytes], Any] = names.as_json) -> Any:
    """Return alternating names and values as an object, or as a list of pairs if a name occurs twice or is not UTF-8.

    `value_of`: conversion of a value to JSON.
    """
    found = [(names.as_json(name), value_of(value)) for name, value in pairs(words)]
    keys = [key for key, _ in found]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        return dict(found)
    return [list(pair) for pair in found]


def as_text(words: Sequence[bytes]) -> dict[str, str]:
    """Return fields as strings, for conditions. If a name occurs twice, the last field wins."""
    return {names.shown(name): value.decode("utf-8", "replace") for name, value in pairs(words)}


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
        for name, value in pairs(words):
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
    return [*(cell or "" for cell in cells), json.dumps(as_json(left), ensure_ascii=False) if left else ""]


class Decoding:
    """Decodes values of fields. Values that cannot be decoded stay unchanged."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def as_json(self, words: Sequence[bytes]) -> Any:
        """Return alternating names and values as an object, as `as_json` does, with decoded values."""
        return as_json(words, self._or_bytes)

    def as_texts(self, words: Sequence[bytes]) -> list[bytes]:
        """Return alternating names and values, with decoded values as JSON."""
        found = list(words)
        for at, (_, value) in enumerate(pairs(words)):
            decoded = self._decoded(value)
            if decoded is not None:
                text = json.dumps(decoded[0], ensure_ascii=False, separators=(",", ":"))
                found[2 * at + 1] = text.encode("utf-8", "backslashreplace")
        return found

    def members(self, words: Sequence[bytes]) -> Members:
        """Return the fields and the members of decoded objects as strings, for conditions."""
        return Members(words, self._decoded)

    def _or_bytes(self, value: bytes) -> Any:
        decoded = self._decoded(value)
        return names.as_json(value) if decoded is None else decoded[0]

    def _decoded(self, value: bytes) -> tuple[Any] | None:
        try:
            return (self._decoder.decode(value).value,)
        except UndecodableError:
            return None


class Members:
    """Fields of an entry as strings, and the members of decoded objects by name or path.

    Fields take precedence over members. `card.number` is found in the value of the field `card`, and in a member
    `card` of another field's value. Values are decoded when `get` is first called with a name that is not a field.
    """

    def __init__(self, words: Sequence[bytes], decoded: Callable[[bytes], tuple[Any] | None]) -> None:
        self._words, self._decoded = words, decoded
        self._fields = as_text(words)
        self._objects: list[dict[str, Any]] | None = None

    def get(self, name: str) -> str | None:
        """Return the value of a field or member as a string; None if the entry has neither."""
        found = self._fields.get(name)
        if found is not None:
            return found
        if self._objects is None:
            self._objects = self._decode()
        value = next((value for each in self._objects if (value := _member(each, name)) is not None), None)
        return None if value is None else _text(value)

    def _decode(self) -> list[dict[str, Any]]:
        """Return the objects to search: all decoded objects by field name, then each of them, last field first."""
        named: dict[str, Any] = {}
        for name, value in pairs(self._words):
            decoded = self._decoded(value)
            if decoded is not None and isinstance(decoded[0], dict):
                named[names.shown(name)] = decoded[0]
        return [named, *reversed(named.values())]


def _member(value: Any, path: str) -> Any:
    """Return the member of nested objects at a path, or None. Names of members may contain dots."""
    if not isinstance(value, dict):
        return None
    found = value.get(path)
    at = path.find(".")
    while found is None and at >= 0:
        found = _member(value.get(path[:at]), path[at + 1 :])
        at = path.find(".", at + 1)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
