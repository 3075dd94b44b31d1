"""Errors for damaged or unsupported bytes, independent of their format."""

from __future__ import annotations


class DamagedError(Exception):
    """The bytes are damaged, or contain something unknown.

    ``offset`` is the start of the damaged item, in bytes from the start of the file.
    """

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


class ForeignError(DamagedError):
    """The bytes are intact, but contain something that the engine does not support, so a retry would not help."""
