"""What is raised where bytes are not what was written, whatever their format is."""

from __future__ import annotations


class DamagedError(Exception):
    """Bytes that cannot be what was written, or hold what is not known here.

    ``offset`` is where the damaged thing begins, in bytes from the file's beginning.
    """

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


class ForeignError(DamagedError):
    """The bytes are what was written, but hold what the engine does not have: reading them again would not help."""
