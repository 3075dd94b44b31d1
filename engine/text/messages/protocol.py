"""Texts of the parser: errors that end a connection, because its bytes are not a request."""

from __future__ import annotations

MULTIBULK_LENGTH = b"ERR Protocol error: invalid multibulk length"
MULTIBULK_LENGTH_NO_AUTH = b"ERR Protocol error: unauthenticated multibulk length"
BULK_LENGTH = b"ERR Protocol error: invalid bulk length"
BULK_LENGTH_NO_AUTH = b"ERR Protocol error: unauthenticated bulk length"
BIG_MULTIBULK_COUNT = b"ERR Protocol error: too big mbulk count string"
BIG_BULK_COUNT = b"ERR Protocol error: too big bulk count string"
BIG_INLINE = b"ERR Protocol error: too big inline request"
UNBALANCED_QUOTES = b"ERR Protocol error: unbalanced quotes in request"


def expected_bulk(got: bytes) -> bytes:
    """An array of a request contains an element other than a bulk string; ``got`` is its first byte."""
    return b"ERR Protocol error: expected '$', got '%b'" % got
