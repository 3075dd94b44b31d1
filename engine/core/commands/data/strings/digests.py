"""Conditions on what a string is now: its value, or the digest of its value, XXH3 of 64 bits as Redis computes it."""

from __future__ import annotations

import xxhash

from engine.core.protocol.replies import CommandError
from engine.text.messages import data

_DIGITS = 16
#: The options, each with the condition that a string which is not there meets.
CONDITIONS = {b"IFEQ": False, b"IFNE": True, b"IFDEQ": False, b"IFDNE": True}


def digest(value: bytes | bytearray) -> bytes:
    """The digest of a value, as 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(value).encode()


def is_met(condition: bytes, wanted: bytes, value: bytes | bytearray | None) -> bool:
    """Whether ``value`` meets a condition; None stands for a key that is not there."""
    if value is None:
        return CONDITIONS[condition]
    if condition in (b"IFEQ", b"IFNE"):
        return (value == wanted) is (condition == b"IFEQ")
    if len(wanted) != _DIGITS:
        raise CommandError(data.DIGEST_LENGTH)
    return (digest(value) == wanted.lower()) is (condition == b"IFDEQ")
