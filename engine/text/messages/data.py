"""Messages of the commands for keys, expiry, DUMP and RESTORE, strings and hashes."""

from __future__ import annotations

# -- keys ---------------------------------------------------------------------------------------------------------
INVALID_CURSOR = b"ERR invalid cursor"
NOVALUES_OF_KEYS = b"ERR NOVALUES option can only be used in HSCAN"
SAME_OBJECT = b"ERR source and destination objects are the same"
SWAP_FIRST_INDEX = b"ERR invalid first DB index"
SWAP_SECOND_INDEX = b"ERR invalid second DB index"

# -- expiry -------------------------------------------------------------------------------------------------------
EXPIRE_NX = b"ERR NX and XX, GT or LT options at the same time are not compatible"
EXPIRE_GT_LT = b"ERR GT and LT options at the same time are not compatible"


def invalid_expire(command: bytes) -> bytes:
    """Return the error for an expiry time that is not positive, or too large."""
    return b"ERR invalid expire time in '%b' command" % command


def unsupported_option(word: bytes) -> bytes:
    """Return the error of an EXPIRE command for an unknown option."""
    return b"ERR Unsupported option %b" % word


# -- DUMP and RESTORE ---------------------------------------------------------------------------------------------
BAD_DUMP = b"ERR DUMP payload version or checksum are wrong"
BAD_DUMP_BODY = b"ERR Bad data format"
BUSY_KEY = b"BUSYKEY Target key name already exists."
RESTORE_TTL = b"ERR Invalid TTL value, must be >= 0"
RESTORE_IDLETIME = b"ERR Invalid IDLETIME value, must be >= 0"
RESTORE_FREQ = b"ERR Invalid FREQ value, must be >= 0 and <= 255"


def unsupported_value(kind: str) -> bytes:
    """Return RESTORE's error for a value of this type, which the engine does not store."""
    return b"ERR unsupported value: this engine stores streams; %b need Redis or Valkey" % kind.encode()


# -- strings and hashes -------------------------------------------------------------------------------------------
DIGEST_LENGTH = b"ERR must be exactly 16 hexadecimal characters"
OVERFLOW = b"ERR increment or decrement would overflow"
DECREMENT_OVERFLOW = b"ERR decrement would overflow"
NOT_FINITE = b"ERR increment would produce NaN or Infinity"
STRING_TOO_LONG = b"ERR string exceeds maximum allowed size (proto-max-bulk-len)"
HASH_NOT_AN_INTEGER = b"ERR hash value is not an integer"
HASH_NOT_A_FLOAT = b"ERR hash value is not a float"
INCREMENT_NOT_FINITE = b"ERR value is NaN or Infinity"
FIELD_COUNT_DIFFERS = b"ERR The `numfields` parameter must match the number of arguments"
