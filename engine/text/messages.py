"""Error messages and some other replies to clients, by subject.

Error replies are bytes that start with the error code, without the leading ``-``. Functions return the messages that
contain values. Messages about the values of directives are str, because errors at startup quote them too.
"""

from __future__ import annotations

SYNTAX = b"ERR syntax error"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
NOT_A_FLOAT = b"ERR value is not a valid float"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NO_SUCH_KEY = b"ERR no such key"
INTERNAL_ERROR = b"ERR internal error"

# -- ranges -------------------------------------------------------------------------------------------------------
OUT_OF_RANGE = b"ERR value is out of range"
NOT_POSITIVE = b"ERR value is out of range, must be positive"


def out_of_range(low: int, high: int) -> bytes:
    """Return the error for a number outside the command's range."""
    return b"ERR value is out of range, value must between %d and %d" % (low, high)


OUT_OF_I32 = out_of_range(-(1 << 31), (1 << 31) - 1)
OUT_OF_0_1 = out_of_range(0, 1)
DB_INDEX_RANGE = b"ERR DB index is out of range"

# -- timeouts -----------------------------------------------------------------------------------------------------
TIMEOUT_NOT_INTEGER = b"ERR timeout is not an integer or out of range"
TIMEOUT_NEGATIVE = b"ERR timeout is negative"
TIMEOUT_RANGE = b"ERR timeout is out of range"

# -- commands called incorrectly ----------------------------------------------------------------------------------


def wrong_arity(full_name: bytes) -> bytes:
    """Return the error for a wrong number of arguments. ``full_name``: ``command`` or ``container|subcommand``."""
    return b"ERR wrong number of arguments for '%b' command" % full_name


def unknown_command(argv: list[bytes]) -> bytes:
    """Return the error for an unknown command, which quotes its first arguments, up to 128 bytes in total."""
    if len(argv) == 1:
        return b"ERR unknown command '%b'" % argv[0][:128]
    shown = b""
    for word in argv[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%b' " % word[: 128 - len(shown)]
    return b"ERR unknown command '%b', with args beginning with: %b" % (argv[0][:128], shown)


def left_out(name: bytes, family: bytes) -> bytes:
    """Return the error for a Redis command that the engine lacks. The text starts like that for an unknown command."""
    text = b"ERR unknown command '%b': this engine stores streams; %b need Redis or Valkey"
    return text % (name[:128].replace(b"|", b" "), family)


def unknown_subcommand(container: bytes, word: bytes) -> bytes:
    """Return the error for an unknown subcommand."""
    return b"ERR unknown subcommand '%b'. Try %b HELP." % (word[:128], container.upper())


def subcommand_arguments(container: bytes, word: bytes) -> bytes:
    """Return the error for an unknown subcommand, or for wrong arguments of a subcommand."""
    return b"ERR unknown subcommand or wrong number of arguments for '%b'. Try %b HELP." % (
        word[:128],
        container.upper(),
    )


# -- HELP ---------------------------------------------------------------------------------------------------------


def help_lines(container: str, rows: list[tuple[str, str]]) -> list[bytes]:
    """Return the reply to ``container HELP``, in Redis's form. ``rows``: syntax and description of each subcommand."""
    lines = [f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for form, meaning in [*rows, ("HELP", "Print this help.")]:
        lines += [form.rstrip(), f"    {meaning}"]
    return [line.encode() for line in lines]


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


# -- rules --------------------------------------------------------------------------------------------------------
UNKNOWN = b"Unknown command or category name in ACL"
ACL_SYNTAX = b"Syntax error"
AFTER_ALL_KEYS = (
    b"Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try "
    b"'resetkeys' to start with an empty list of patterns"
)
AFTER_ALL_CHANNELS = (
    b"Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try "
    b"'resetchannels' to start with an empty list of channels"
)
FIRST_WORD_OF_SUBCOMMAND = b"Allowing first-arg of a subcommand is not supported"
NO_SUCH_PASSWORD = b"The password you are trying to remove from the user does not exist"
PASSWORD_HASH = b"The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"


def rule_refused(rule: bytes, reason: bytes) -> bytes:
    """Return the error of ACL SETUSER for an invalid rule."""
    return b"ERR Error in ACL SETUSER modifier '%b': %b" % (rule, reason)


def open_selector(start: bytes) -> bytes:
    """Return the error of ACL SETUSER for a selector without a closing parenthesis."""
    return b"ERR Unmatched parenthesis in acl selector starting at '%b'." % start


# -- the ACL command ----------------------------------------------------------------------------------------------
USER_NAME = b"ERR Usernames can't contain spaces or null characters"
DEFAULT_STAYS = b"ERR The 'default' user cannot be removed"
BITS = b"ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
NO_FILE = (
    b"ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    b"command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    b"users in the Redis configuration."
)
NOT_SAVED = b"ERR There was an error trying to save the ACLs. Please check the server logs for more information"
UNCHANGED = b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed"


def not_read(name: bytes, why: str) -> bytes:
    """Return the error of ACL LOAD for a file that cannot be read."""
    return b"ERR Error loading ACLs, opening file '%b': %b. %b" % (name, why.encode(), UNCHANGED)


def unknown_category(name: bytes) -> bytes:
    """Return the error of ACL CAT for an unknown category."""
    return b"ERR Unknown category '%b'" % name


def user_not_found(name: bytes) -> bytes:
    """Return the error of ACL DRYRUN for an unknown user."""
    return b"ERR User '%b' not found" % name


def command_not_found(name: bytes) -> bytes:
    """Return the error of ACL DRYRUN for an unknown command."""
    return b"ERR Command '%b' not found" % name


def would_refuse(user: bytes, reason: str, name: bytes) -> bytes:
    """Return the reply of ACL DRYRUN for a command that would be rejected."""
    action = b"run the '%b' command" if reason == "command" else b"access the '%%b' %b" % reason.encode()
    return b"User %b has no permissions to " % user + action % name


# -- permissions --------------------------------------------------------------------------------------------------
NO_KEY_PERMISSION = b"NOPERM No permissions to access a key"
NO_CHANNEL_PERMISSION = b"NOPERM No permissions to access a channel"
_NO_LONGER = (
    b"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
    b"no longer allowed for the following reason: "
)
NO_LONGER_ALLOWED = {
    "command": _NO_LONGER + b"no permission to execute the command or subcommand",
    "key": _NO_LONGER + b"no permission to touch the specified keys",
    "channel": _NO_LONGER + b"no permission to access one of the channels used as arguments to the command",
}


def no_command_permission(user: bytes, command: bytes) -> bytes:
    """Return the error for a command that the user may not call."""
    return b"NOPERM User %b has no permissions to run the '%b' command" % (user, command)


# -- connecting ---------------------------------------------------------------------------------------------------
MAX_CLIENTS = b"ERR max number of clients reached"
PROTECTED_MODE = (
    b"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
    b"default user. In this mode connections are only accepted from the loopback interface. To accept other "
    b"machines, set a password for the default user (requirepass, or ACL SETUSER), or, on a trusted network, set "
    b"protected-mode no."
)
NO_AUTH = b"NOAUTH Authentication required."
WRONG_PASSWORD = b"WRONGPASS invalid username-password pair or user is disabled."
NO_PASSWORD_SET = (
    b"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    b"is correct?"
)
HELLO_NO_AUTH = (
    b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
    b"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
)
NO_PROTO = b"NOPROTO unsupported protocol version"
PROTOCOL_VERSION_NOT_INTEGER = b"ERR Protocol version is not an integer or out of range"


def hello_option(word: bytes) -> bytes:
    """Return the error of HELLO for an unknown option."""
    return b"ERR Syntax error in HELLO option '%b'" % word


# -- transactions -------------------------------------------------------------------------------------------------
MULTI_NESTED = b"ERR MULTI calls can not be nested"
EXEC_WITHOUT_MULTI = b"ERR EXEC without MULTI"
DISCARD_WITHOUT_MULTI = b"ERR DISCARD without MULTI"
WATCH_IN_MULTI = b"ERR WATCH inside MULTI is not allowed"
SSUBSCRIBE_IN_EXEC = b"ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"
NOT_IN_MULTI = b"ERR Command not allowed inside a transaction"
EXEC_ABORT = b"EXECABORT Transaction discarded because of previous errors."


def exec_refused(reason: bytes) -> bytes:
    """Return the error of a rejected EXEC, whose transaction is discarded."""
    return b"EXECABORT Transaction discarded because of: %b" % reason.removeprefix(b"ERR ")


# -- waiting ------------------------------------------------------------------------------------------------------
UNBLOCKED = b"UNBLOCKED client unblocked via CLIENT UNBLOCK"
UNBLOCK_REASON = b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"

# -- channels -----------------------------------------------------------------------------------------------------


def in_subscription(name: bytes) -> bytes:
    """Return the error for a command that a RESP2 client may not call while it is subscribed."""
    return (
        b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
        b"context" % name
    )


# -- CLIENT -------------------------------------------------------------------------------------------------------
NO_SUCH_CLIENT = b"ERR No such client"
CLIENT_ID_INVALID = b"ERR Invalid client ID"
CLIENT_ID_POSITIVE = b"ERR client-id should be greater than 0"
MAXAGE_NOT_INTEGER = b"ERR maxage is not an integer or out of range"
MAXAGE_POSITIVE = b"ERR maxage should be greater than 0"
CLIENT_NAME = b"ERR Client names cannot contain spaces, newlines or special characters."
PAUSE_MODE = b"ERR CLIENT PAUSE mode must be WRITE or ALL"


def unknown_client_type(word: bytes) -> bytes:
    """Return the error of CLIENT LIST or KILL for an unknown class of clients."""
    return b"ERR Unknown client type '%b'" % word


def no_such_user(name: bytes) -> bytes:
    """Return the error of CLIENT KILL for an unknown user."""
    return b"ERR No such user '%b'" % name


def unrecognized_client_option(word: bytes) -> bytes:
    """Return the error of CLIENT SETINFO for anything but the library's name and version."""
    return b"ERR Unrecognized option '%b'" % word


def client_info_characters(option: bytes) -> bytes:
    """Return the error of CLIENT SETINFO for a value that CLIENT LIST could not show."""
    return b"ERR %b cannot contain spaces, newlines or special characters." % option


# -- snapshots ----------------------------------------------------------------------------------------------------
NO_PERSISTENCE = b"ERR this server does not store data on disk"
SAVE_RUNNING = b"ERR Background save already in progress"
SAVE_STARTED = b"Background saving started"
SAVE_SCHEDULED = b"Background saving scheduled"
SAVE_BLOCKED = (
    b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)


def save_failed(why: str) -> bytes:
    """Return the error of SAVE, or of a command that saves first, if the file cannot be written."""
    return b"ERR the snapshot could not be written: " + why.encode()


# -- the log ------------------------------------------------------------------------------------------------------
REWRITE_RUNNING = b"ERR Background append only file rewriting already in progress"
REWRITE_STARTED = b"Background append only file rewriting started"
REWRITE_SCHEDULED = b"Background append only file rewriting scheduled"
WAITAOF_ON_REPLICA = (
    b"ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and "
    b"are not propagated."
)
WAITAOF_NO_LOG = b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."

# -- rejected writes ----------------------------------------------------------------------------------------------
MISCONF_SNAPSHOT = (
    b"MISCONF The last snapshot could not be written to disk (stop-writes-on-bgsave-error is set). Commands that "
    b"change data are disabled; the server's log contains the reason."
)


def misconf_log(why: str) -> bytes:
    """Return the error for a write command while the append-only file cannot be written."""
    return b"MISCONF Errors writing to the AOF file: " + why.encode()


# -- loading ------------------------------------------------------------------------------------------------------


def load_failed(why: str) -> bytes:
    """Return the error of DEBUG RELOAD and LOADAOF for files that cannot be loaded."""
    return b"ERR " + why.encode()


DEBUG_RELOAD_OPTIONS = b"ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."

# -- shutdown -----------------------------------------------------------------------------------------------------
SHUTDOWN_FAILED = b"ERR Errors trying to SHUTDOWN. Check logs."
SHUTTING_DOWN = b"ERR the server is shutting down"
NO_SHUTDOWN = b"ERR No shutdown in progress."


# -- memory -------------------------------------------------------------------------------------------------------
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."

# -- COMMAND ------------------------------------------------------------------------------------------------------
GETKEYS_UNKNOWN = b"ERR Invalid command specified"
GETKEYS_NO_KEYS = b"ERR The command has no key arguments"
GETKEYS_ARITY = b"ERR Invalid number of arguments specified for command"
GETKEYS_NOT_FOUND = b"ERR Invalid arguments specified for command"

# -- MONITOR, SLOWLOG, LATENCY ------------------------------------------------------------------------------------
MONITOR_WITHOUT_KEYS = b"ERR Replica can't interact with the keyspace"
MONITOR_IN_MULTI = b"ERR MONITOR isn't allowed for DENY BLOCKING client"
SLOWLOG_COUNT = b"ERR count should be greater than or equal to -1"

# -- DEBUG --------------------------------------------------------------------------------------------------------
DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a '
    b"local connection, otherwise you need to set this option in the configuration file, and then restart the server."
)

# -- replication and cluster --------------------------------------------------------------------------------------
NO_CLUSTER = b"ERR This instance has cluster support disabled"
INVALID_MASTER_PORT = b"ERR Invalid master port"
NO_REPLICATION = b"ERR this server neither has replicas nor can be one"
WAIT_ON_REPLICA = (
    b"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured "
    b"to be writable (which is not the default) writes to replicas are just local and are not propagated."
)
TOO_FEW_REPLICAS = b"NOREPLICAS Not enough good replicas to write."
MASTER_DOWN = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
LOADING = b"LOADING Redis is loading the dataset in memory"
NO_MASTER_LINK = b"NOMASTERLINK Can't SYNC while not connected with my master"
ALREADY_FOLLOWS = b"OK Already connected to specified master"
ROLE_CHANGED = b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
READONLY = b"READONLY You can't write against a read only replica."
FAILOVER_WITHOUT_REPLICAS = b"ERR FAILOVER requires connected replicas."
FAILOVER_ON_REPLICA = b"ERR FAILOVER is not valid when server is a replica."
FAILOVER_TIMEOUT = b"ERR FAILOVER timeout must be greater than 0"
FAILOVER_IS_ON = b"ERR FAILOVER already in progress."
NO_FAILOVER = b"ERR No failover in progress."
FAILOVER_FORCE = b"ERR FAILOVER with force option requires both a timeout and target HOST and IP."
NO_SUCH_REPLICA = b"ERR FAILOVER target HOST and PORT is not a replica."
REPLICA_NOT_ONLINE = b"ERR FAILOVER target replica is not online."
FAILING_OVER = b"ERR REPLICAOF not allowed while failing over."
HANDED_OVER_TO_MASTER = b"ERR PSYNC FAILOVER can't be sent to a master."
HANDED_OVER_BY_ANOTHER = b"ERR PSYNC FAILOVER replid must match my replid."
HANDED_OVER_TOO_EARLY = b"ERR PSYNC FAILOVER is rejected until this replica has all data of its master."


def unknown_replconf(option: bytes) -> bytes:
    """Return the error of REPLCONF for an unknown option."""
    return b"ERR Unrecognized REPLCONF option: " + option


# -- rejected values ----------------------------------------------------------------------------------------------
WRONG_NUMBER = "wrong number of arguments"
DIRECTIVE_NOT_AN_INTEGER = "argument couldn't be parsed into an integer"
NOT_OCTAL = "argument couldn't be parsed as an octal number"
NOT_MEMORY = "argument must be a memory value"
NOT_MEMORY_OR_PERCENT = "argument must be a memory or percent value"
NOT_YES_OR_NO = "argument must be 'yes' or 'no'"
EVENT_LETTERS = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."
SAVE_POINTS = "Invalid save parameters"
LIMIT_NUMBER = "Wrong number of arguments in buffer limit configuration."
LIMIT_CLASS = "Invalid client class specified in buffer limit configuration."
LIMIT_VALUES = "Error in hard, soft or soft_seconds setting in buffer limit configuration."
PERCENTILES = "Invalid latency-tracking-info-percentiles parameters"


def not_between(low: object, high: object) -> str:
    """Return the error for a number outside the directive's range."""
    return f"argument must be between {low} and {high} inclusive"


def not_one_of(choices: tuple[str, ...]) -> str:
    """Return the error for a word that is not one of ``choices``."""
    return "argument(s) must be one of the following: " + ", ".join(choices)


def not_a_name(directive: str, kind: str) -> str:
    """Return the error for a path instead of a name. ``kind``: "filename" or "dirname"."""
    return f"{directive} can't be a path, just a {kind}"


# -- rejected changes ---------------------------------------------------------------------------------------------
DIRECTIVE_UNBALANCED_QUOTES = "Unbalanced quotes in configuration line"
DUPLICATE = "duplicate parameter"
IMMUTABLE = "can't set immutable config"
PROTECTED = "can't set protected config"
IGNORED = "the directive has no effect on this engine"

# -- CONFIG -------------------------------------------------------------------------------------------------------
NO_CONFIG_FILE = b"ERR The server is running without a config file"


def too_many_clients(most: int) -> str:
    """Return the error of CONFIG SET maxclients if the process may not open as many files."""
    return f"The operating system is not able to handle the specified number of clients, try with {most}"


def unknown_option_for_config_set(name: bytes) -> bytes:
    """Return the error of CONFIG SET for an unknown directive."""
    return b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % name


def config_set_failed(name: bytes, why: str) -> bytes:
    """Return the error of CONFIG SET for a rejected value."""
    return b"ERR CONFIG SET failed (possibly related to argument '%b') - %b" % (name, why.encode())


def rewrite_failed(why: str) -> bytes:
    """Return the error of CONFIG REWRITE for a file that cannot be written."""
    return b"ERR Rewriting config file: %b" % why.encode()


DIRECTIVE_INVALID_MASTER_PORT = "Invalid master port"
DIRECTIVE_NO_CLUSTER = "the engine is not a node of a cluster"
