"""Errors for damaged or unsupported bytes, independent of their format."""

from __future__ import annotations


class DamagedError(Exception):
    """The bytes are damaged, or contain something unknown.

    ``offset`` is the start of the damaged item, in bytes from the start of the file.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


class ForeignError(DamagedError):
    """The bytes are intact, but contain something that the engine does not support, so a retry would not help."""
