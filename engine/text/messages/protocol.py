"""Messages of the parser: errors for invalid input. The connection is closed after such an error."""

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
    """Return the error for a request with an element other than a bulk string; ``got``: first byte of the element."""
    return b"ERR Protocol error: expected '$', got '%b'" % got
