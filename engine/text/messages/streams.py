"""Messages of the stream commands, including the extensions (PS.*)."""

from __future__ import annotations

# -- entries ------------------------------------------------------------------------------------------------------
INVALID_ID = b"ERR Invalid stream ID specified as stream command argument"
INVALID_RANGE_START = b"ERR invalid start ID for the interval"
INVALID_RANGE_END = b"ERR invalid end ID for the interval"
ID_ZERO = b"ERR The ID specified in XADD must be greater than 0-0"
ID_TOO_SMALL = b"ERR The ID specified in XADD is equal or smaller than the target stream top item"
ID_EXHAUSTED = b"ERR The stream has exhausted the last possible ID, unable to add more items"
ENTRY_TOO_LARGE = b"ERR Elements are too large to be stored"

# -- trimming -----------------------------------------------------------------------------------------------------
TRIM_TWICE = b"ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
TRIM_MISSING = b"ERR syntax error, XTRIM must be called with a trimming strategy"
MAXLEN_NEGATIVE = b"ERR The MAXLEN argument must be >= 0."
LIMIT_NEGATIVE = b"ERR The LIMIT argument must be >= 0."
LIMIT_WITHOUT_TRIM = b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
LIMIT_WITHOUT_APPROX = b"ERR syntax error, LIMIT cannot be used without the special ~ option"

# -- XSETID -------------------------------------------------------------------------------------------------------
SETID_BELOW_TOP = b"ERR The ID specified in XSETID is smaller than the target stream top item"
SETID_BELOW_GIVEN_DELETED = b"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
SETID_BELOW_DELETED = b"ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
SETID_ADDED_TOO_SMALL = b"ERR The entries_added specified in XSETID is smaller than the target stream length"
ENTRIES_ADDED_NEGATIVE = b"ERR entries_added must be positive"

# -- XREAD and XREADGROUP -----------------------------------------------------------------------------------------
READ_UNBALANCED = b"ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
READGROUP_UNBALANCED = (
    b"ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
)
READGROUP_NO_GROUP_OPTION = b"ERR Missing GROUP option for XREADGROUP"
READ_GREATER = b"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
_MEANINGLESS = (
    b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty result set."
)
READGROUP_DOLLAR = _MEANINGLESS % (b"$", b"$")
READGROUP_PLUS = _MEANINGLESS % (b"+", b"+")
MAXCOUNT_NOT_POSITIVE = b"ERR MAXCOUNT must be a positive integer"
MAXSIZE_NOT_POSITIVE = b"ERR MAXSIZE must be a positive integer"
MAXCOUNT_BELOW_COUNT = b"ERR MAXCOUNT must be greater than or equal to COUNT"
MIN_IDLE_NOT_INTEGER = b"ERR min-idle-time is not an integer or out of range"
MIN_IDLE_NEGATIVE = b"ERR min-idle-time must be a positive integer"


def read_only_with_group(option: bytes) -> bytes:
    """Return the error of XREAD for an option of XREADGROUP."""
    return b"ERR The %b option is only supported by XREADGROUP. You called XREAD instead." % option


def no_group_read(key: bytes, group: bytes) -> bytes:
    """Return the error of XREADGROUP if the key or the group does not exist."""
    return b"NOGROUP No such key '%b' or consumer group '%b' in XREADGROUP with GROUP option" % (key, group)


# -- streams on the disk ------------------------------------------------------------------------------------------
def unreadable(details: str) -> bytes:
    """Return the error for a part of a stream that cannot be read from disk. ``details``: location and reason."""
    text = details.encode("utf-8", "surrogateescape").replace(b"\r", b" ").replace(b"\n", b" ")
    return b"IOERR a part of a stream cannot be read: %b" % text


def unreadable_in(error: bytes, keys: list[bytes]) -> bytes:
    """Return the error of ``unreadable`` with the command's keys added."""
    shown = b", ".join(b"'%b'" % key.replace(b"\r", b" ").replace(b"\n", b" ") for key in keys[:5])
    return b"%b (while reading %b)" % (error, shown)


# -- consumer groups ----------------------------------------------------------------------------------------------
GROUP_EXISTS = b"BUSYGROUP Consumer Group name already exists"
GROUP_NEEDS_KEY = (
    b"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM "
    b"option to create an empty stream automatically."
)
ENTRIES_READ_NEGATIVE = b"ERR value for ENTRIESREAD must be positive or -1"


def no_group(key: bytes, group: bytes) -> bytes:
    """Return the error of a claiming or listing command if the key or the group does not exist."""
    return b"NOGROUP No such key '%b' or consumer group '%b'" % (key, group)


def no_group_for_key(group: bytes, key: bytes) -> bytes:
    """Return the error of XGROUP and XINFO CONSUMERS if the key has no such group."""
    return b"NOGROUP No such consumer group '%b' for key name '%b'" % (group, key)


# -- claiming -----------------------------------------------------------------------------------------------------
CLAIM_MIN_IDLE = b"ERR Invalid min-idle-time argument for XCLAIM"
CLAIM_IDLE = b"ERR Invalid IDLE option argument for XCLAIM"
CLAIM_TIME = b"ERR Invalid TIME option argument for XCLAIM"
CLAIM_RETRYCOUNT = b"ERR Invalid RETRYCOUNT option argument for XCLAIM"
AUTOCLAIM_MIN_IDLE = b"ERR Invalid min-idle-time argument for XAUTOCLAIM"
AUTOCLAIM_COUNT = b"ERR COUNT must be > 0"


def unrecognized_claim_option(word: bytes) -> bytes:
    """Return the error of XCLAIM for an unknown option."""
    return b"ERR Unrecognized XCLAIM option '%b'" % word.partition(b"\0")[0]


# -- XDELEX, XACKDEL, XNACK ---------------------------------------------------------------------------------------
NUMIDS_NOT_POSITIVE = b"ERR Number of IDs must be a positive integer"
NUMIDS_MISMATCH = b"ERR The `numids` parameter must match the number of arguments"
IDS_REQUIRED = b"ERR IDS option is required"
NACK_MODE = b"ERR mode must be SILENT, FAIL, or FATAL"
NACK_NUMIDS = b"ERR numids must be a positive integer"
NACK_NUMIDS_MISMATCH = b"ERR number of IDs doesn't match numids"
NACK_RETRYCOUNT = b"ERR Invalid RETRYCOUNT value, must be >= 0"
NACK_IDS_EXPECTED = b"ERR syntax error, expected IDS keyword"


def unrecognized_nack_option(word: bytes) -> bytes:
    """Return the error of XNACK for an unknown option."""
    return b"ERR Unrecognized XNACK option '%b'" % word


# -- idempotent producers -----------------------------------------------------------------------------------------
IDMP_TWICE = b"ERR syntax error, IDMP/IDMPAUTO specified multiple times"
IDMPAUTO_NO_PRODUCER = b"ERR syntax error, IDMPAUTO requires a non-empty producer ID"
IDMP_NO_PRODUCER = b"ERR syntax error, IDMP requires a non-empty producer ID"
IDMP_NO_IID = b"ERR syntax error, IDMP requires a non-empty idempotent ID"
IDMP_EXPLICIT_ID = b"ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"
IDMP_DURATION_TWICE = b"ERR IDMP-DURATION specified multiple times"
IDMP_DURATION_RANGE = b"ERR IDMP-DURATION must be between 1 and 86400 seconds"
IDMP_MAXSIZE_TWICE = b"ERR IDMP-MAXSIZE specified multiple times"
IDMP_MAXSIZE_RANGE = b"ERR IDMP-MAXSIZE must be between 1 and 10000 entries"
CFGSET_EMPTY = b"ERR At least one parameter must be specified"
RECORD_NO_PRODUCER = b"ERR producer ID must be non-empty"
RECORD_NO_IID = b"ERR idempotent ID must be non-empty"
RECORD_NO_ENTRY = b"ERR No such message in stream"
RECORD_CONFLICT = b"ERR IID already exists for this producer with a different stream ID"

# -- extensions ---------------------------------------------------------------------------------------------------
COUNT_NOT_POSITIVE = b"ERR count must be a positive integer"
BYTES_NOT_POSITIVE = b"ERR bytes must be a positive integer"
PARTS_NOT_POSITIVE = b"ERR parts must be a positive integer"
NOTHING_TO_APPEND = b"ERR no such hash or field"
BAD_COUNT = b"ERR count must be an integer from 0 to 16777216"
COLUMNS_TOO_LARGE = b"ERR the entries would have more than 512 megabytes"
BAD_COLUMNS = (
    b"ERR a column must be a field, count + 1 ascending 32-bit positions that start at 0, and values that end at the "
    b"last position"
)
NO_ADDS_TO_APPEND = b"ERR the field must contain only commands XADD key * field value ... for that key"
