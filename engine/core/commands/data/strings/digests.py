"""Conditions on a string's current value or on its digest, which is a 64-bit XXH3 as in Redis."""

from __future__ import annotations

import xxhash

from engine.core.protocol.replies import CommandError
from engine.text.messages import data

_DIGITS = 16
#: The options, each with its result for a missing key.
CONDITIONS = {b"IFEQ": False, b"IFNE": True, b"IFDEQ": False, b"IFDNE": True}


def digest(value: bytes | bytearray) -> bytes:
    """Return the digest of a value as 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(value).encode()


def is_met(condition: bytes, wanted: bytes, value: bytes | bytearray | None) -> bool:
    """Return whether ``value`` (None: the key is missing) meets a condition."""
    if value is None:
        return CONDITIONS[condition]
    if condition in (b"IFEQ", b"IFNE"):
        return (value == wanted) is (condition == b"IFEQ")
    if len(wanted) != _DIGITS:
        raise CommandError(data.DIGEST_LENGTH)
    return (digest(value) == wanted.lower()) is (condition == b"IFDEQ")
