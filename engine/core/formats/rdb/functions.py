"""Libraries of functions in Redis's RDB format: each a code and the library's own text."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.formats.rdb.primitives import BadFormatError, Reader, string

#: The code before a library.
FUNCTION = 0xF5


def written(codes: Iterable[bytes]) -> bytes:
    """Libraries as a file and a payload have them."""
    return b"".join(bytes((FUNCTION,)) + string(code) for code in codes)


def read(data: bytes) -> list[bytes] | None:
    """The libraries of a payload; None where it has something else."""
    reader, codes = Reader(data), []
    try:
        while reader.at < len(data):
            if reader.byte() != FUNCTION:
                return None
            codes.append(reader.string())
    except (BadFormatError, LookupError, ValueError):
        return None
    return codes
