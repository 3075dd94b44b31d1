"""Libraries of functions in Redis's RDB format: an opcode and the source code for each library."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.formats.rdb.primitives import BadFormatError, Reader, string

#: The opcode of a library.
FUNCTION = 0xF5


def written(codes: Iterable[bytes]) -> bytes:
    """Encode libraries for files and payloads."""
    return b"".join(bytes((FUNCTION,)) + string(code) for code in codes)


def read(data: bytes) -> list[bytes] | None:
    """Return the libraries of a payload; None if it contains anything else."""
    reader, codes = Reader(data), []
    try:
        while reader.at < len(data):
            if reader.byte() != FUNCTION:
                return None
            codes.append(reader.string())
    except (BadFormatError, LookupError, ValueError):
        return None
    return codes
