"""Messages of the commands for keys, expiry, DUMP and RESTORE, strings, hashes, sets, sorted sets and lists."""

from __future__ import annotations

# -- keys ---------------------------------------------------------------------------------------------------------
INVALID_CURSOR = b"ERR invalid cursor"
NOVALUES_OF_KEYS = b"ERR NOVALUES option can only be used in HSCAN"
SAME_OBJECT = b"ERR source and destination objects are the same"
SWAP_FIRST_INDEX = b"ERR invalid first DB index"
SWAP_SECOND_INDEX = b"ERR invalid second DB index"
LFU = (
    b"ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching "
    b"between policies at runtime LRU and LFU data will take some time to adjust."
)
NO_LFU = (
    b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
    b"between policies at runtime LRU and LFU data will take some time to adjust."
)

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

# -- strings and hashes -------------------------------------------------------------------------------------------
DIGEST_LENGTH = b"ERR must be exactly 16 hexadecimal characters"
CONDITION_ON_STRING = b"ERR Key should be of string type if conditions are specified"
INVALID_CONDITION = b"ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
NUMKEYS_INVALID = b"ERR invalid numkeys value"
PAIRS_MISSING = b"ERR wrong number of key-value pairs"
OVERFLOW = b"ERR increment or decrement would overflow"
DECREMENT_OVERFLOW = b"ERR decrement would overflow"
NOT_FINITE = b"ERR increment would produce NaN or Infinity"
OFFSET_RANGE = b"ERR offset is out of range"
STRING_TOO_LONG = b"ERR string exceeds maximum allowed size (proto-max-bulk-len)"
HASH_NOT_AN_INTEGER = b"ERR hash value is not an integer"
HASH_NOT_A_FLOAT = b"ERR hash value is not a float"
INCREMENT_NOT_FINITE = b"ERR value is NaN or Infinity"

# -- fields of hashes that expire ---------------------------------------------------------------------------------
FIELDS_MISSING = b"ERR Mandatory argument FIELDS is missing or not at the right position"
FIELD_COUNT = b"ERR Number of fields must be a positive integer"
FIELD_COUNT_DIFFERS = b"ERR The `numfields` parameter must match the number of arguments"
NUM_FIELDS = b"ERR Parameter `numFields` should be greater than 0"
NUM_FIELDS_INVALID = b"ERR invalid number of fields"
FIELDS_TWICE = b"ERR FIELDS keyword specified multiple times"
FIELDS_TOO_FEW = b"ERR FIELDS requires at least numfields and one field argument"
FIELD_ARGUMENTS = b"ERR wrong number of arguments"
EXPIRE_TIME_MISSING = b"ERR missing expire time"
UNKNOWN_ARGUMENT = b"ERR unknown argument"
FIELD_CONDITIONS = b"ERR Multiple condition flags specified"
FIELD_EXPIRY_NEGATIVE = b"ERR invalid expire time, must be >= 0"
FNX_FXX = b"ERR Only one of FXX or FNX arguments can be specified"


def several_times(last: bytes) -> bytes:
    """Return the error of a command on fields with several expiry options. ``last``: the last option to list."""
    return b"ERR Only one of EX, PX, EXAT, PXAT or %b arguments can be specified" % last


def unknown_argument(word: bytes) -> bytes:
    """Return the error of a command on fields for an unknown option."""
    return b"ERR unknown argument: %b" % word


# -- sets ---------------------------------------------------------------------------------------------------------
NUMKEYS = b"ERR numkeys should be greater than 0"
NUMKEYS_TOO_MANY = b"ERR Number of keys can't be greater than number of args"
LIMIT_NEGATIVE = b"ERR LIMIT can't be negative"

# -- SORT ---------------------------------------------------------------------------------------------------------
NOT_A_SCORE = b"ERR One or more scores can't be converted into double"
SORT_BY_DENIED = b"ERR BY option of SORT denied due to insufficient ACL permissions."
SORT_GET_DENIED = b"ERR GET option of SORT denied due to insufficient ACL permissions."

# -- sorted sets --------------------------------------------------------------------------------------------------
XX_AND_NX = b"ERR XX and NX options at the same time are not compatible"
GT_LT_NX = b"ERR GT, LT, and/or NX options at the same time are not compatible"
INCR_PAIRS = b"ERR INCR option supports a single increment-element pair"
SCORE_NAN = b"ERR resulting score is not a number (NaN)"
SCORE_BOUND = b"ERR min or max is not a float"
MEMBER_BOUND = b"ERR min or max not valid string range item"
LIMIT_OF_RANKS = b"ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
SCORES_BY_LEX = b"ERR syntax error, WITHSCORES not supported in combination with BYLEX"
WEIGHT = b"ERR weight value is not a float"


def no_input_keys(command: bytes) -> bytes:
    """Return the error of a command on several sorted sets that is called without keys."""
    return b"ERR at least 1 input key is needed for '%b' command" % command


# -- lists --------------------------------------------------------------------------------------------------------
INDEX_RANGE = b"ERR index out of range"
RANK_ZERO = (
    b"ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from "
    b"the end of the list"
)
POP_COUNT = b"ERR count should be greater than 0"
COUNT_NEGATIVE = b"ERR COUNT can't be negative"
MAXLEN_BELOW_ZERO = b"ERR MAXLEN can't be negative"
