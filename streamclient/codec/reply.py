"""Parts of an XRANGE reply: the first line, and the interface of a page of entries.

Depends only on bytes. `streamclient.codec.decode` and the modules that it uses implement pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

#: All entries of a page.
ALL = slice(None)


class ReplyError(Exception):
    """The server replied with an error; its text is the argument."""


def array_header(buffer: bytes | bytearray, position: int = 0) -> tuple[int, int]:
    """Return the number of elements of the array that begins at `position` (-1: null), and the start of the first one.

    Raises `ReplyError` for an error reply and ValueError for anything that is not an array.
    """
    end = buffer.find(b"\r\n", position)
    if end < 0:
        raise ValueError("a reply that ends before its first line does")
    kind, text = bytes(buffer[position : position + 1]), bytes(buffer[position + 1 : end])
    if kind == b"-":
        raise ReplyError(text.decode("utf-8", "replace"))
    if kind != b"*":
        raise ValueError(f"an array was expected, but the reply begins with {kind + text[:40]!r}")
    return int(text), end + 2


def last_of(names: Sequence[bytes]) -> dict[bytes, int]:
    """Return the index of each name's last field, in ascending order. If a name occurs twice, its last field counts."""
    last = {name: number for number, name in enumerate(names)}
    return last if len(last) == len(names) else dict(sorted(last.items(), key=lambda item: item[1]))


class Page(Protocol):
    """The entries of one reply, as columns: `pyarrow.BinaryArray`s of `count` values unless stated otherwise."""

    #: Number of entries.
    count: int

    def parts(self, most: int) -> Sequence[Page]:
        """Return the same entries as pages of at most `most` bytes of values, or of one entry. A page whose bytes fit
        one Arrow array may be one part.
        """
        del most
        return [self]

    def last_id(self) -> bytes:
        """Return the last entry's ID. The page must not be empty."""
        ...

    def ids(self) -> Any: ...

    def id_texts(self, rows: slice = ALL) -> list[bytes]:
        """Return the IDs of these entries."""
        ...

    def milliseconds(self) -> Any:
        """Return an int64 array: the first half of each ID; null if it is not below 2**63."""
        ...

    def sequences(self) -> Any:
        """Return an int64 array: the second half of each ID; null if it is not below 2**63."""
        ...

    def column(self, name: bytes) -> Any:
        """Return the values of one field; null for entries that do not have it."""
        ...

    def integers(self, name: bytes) -> Any:
        """Return the values of one field as an int32 array; None if the caller must parse the texts."""
        del name

    def floats(self, name: bytes) -> Any:
        """Return the values of one field as a float64 array; None if the caller must parse the texts."""
        del name

    def fields(self) -> tuple[Any, Any, Any]:
        """Return all fields: int32 offsets (count + 1), names, values."""
        ...
