"""Every text that goes over the wire, as bytes, error code first, without the leading ``-``.

Functions make the texts that carry names. Nothing else of the engine spells an error out.
"""

from __future__ import annotations

# -- general --------------------------------------------------------------------------------------------------------
SYNTAX = b"ERR syntax error"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
NOT_A_FLOAT = b"ERR value is not a valid float"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NO_SUCH_KEY = b"ERR no such key"
TIMEOUT_NOT_INTEGER = b"ERR timeout is not an integer or out of range"
TIMEOUT_NEGATIVE = b"ERR timeout is negative"
TIMEOUT_RANGE = b"ERR timeout is out of range"

# -- dispatch and transactions --------------------------------------------------------------------------------------
NO_AUTH = b"NOAUTH Authentication required."
EXEC_ABORT = b"EXECABORT Transaction discarded because of previous errors."
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."
UNBLOCKED = b"UNBLOCKED client unblocked via CLIENT UNBLOCK"

# -- streams --------------------------------------------------------------------------------------------------------
INVALID_ID = b"ERR Invalid stream ID specified as stream command argument"
INVALID_RANGE_START = b"ERR invalid start ID for the interval"
INVALID_RANGE_END = b"ERR invalid end ID for the interval"
ID_ZERO = b"ERR The ID specified in XADD must be greater than 0-0"
ID_TOO_SMALL = b"ERR The ID specified in XADD is equal or smaller than the target stream top item"
ID_EXHAUSTED = b"ERR The stream has exhausted the last possible ID, unable to add more items"
ENTRY_TOO_LARGE = b"ERR Elements are too large to be stored"
TRIM_TWICE = b"ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
TRIM_MISSING = b"ERR syntax error, XTRIM must be called with a trimming strategy"
MAXLEN_NEGATIVE = b"ERR The MAXLEN argument must be >= 0."
LIMIT_NEGATIVE = b"ERR The LIMIT argument must be >= 0."
LIMIT_WITHOUT_TRIM = b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
LIMIT_WITHOUT_APPROX = b"ERR syntax error, LIMIT cannot be used without the special ~ option"
SETID_BELOW_TOP = b"ERR The ID specified in XSETID is smaller than the target stream top item"
SETID_BELOW_GIVEN_DELETED = b"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
SETID_BELOW_DELETED = b"ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
SETID_ADDED_TOO_SMALL = b"ERR The entries_added specified in XSETID is smaller than the target stream length"
ENTRIES_ADDED_NEGATIVE = b"ERR entries_added must be positive"
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

# -- consumer groups ------------------------------------------------------------------------------------------------
GROUP_EXISTS = b"BUSYGROUP Consumer Group name already exists"
GROUP_NEEDS_KEY = (
    b"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM "
    b"option to create an empty stream automatically."
)
ENTRIES_READ_NEGATIVE = b"ERR value for ENTRIESREAD must be positive or -1"
CLAIM_MIN_IDLE = b"ERR Invalid min-idle-time argument for XCLAIM"
CLAIM_IDLE = b"ERR Invalid IDLE option argument for XCLAIM"
CLAIM_TIME = b"ERR Invalid TIME option argument for XCLAIM"
CLAIM_RETRYCOUNT = b"ERR Invalid RETRYCOUNT option argument for XCLAIM"
AUTOCLAIM_MIN_IDLE = b"ERR Invalid min-idle-time argument for XAUTOCLAIM"
AUTOCLAIM_COUNT = b"ERR COUNT must be > 0"


def exec_refused(reason: bytes) -> bytes:
    """EXEC itself was refused, which ends its transaction."""
    return b"EXECABORT Transaction discarded because of: %b" % reason.removeprefix(b"ERR ")


def wrong_arity(full_name: bytes) -> bytes:
    """A command, or ``container|subcommand``, called with the wrong number of words."""
    return b"ERR wrong number of arguments for '%b' command" % full_name


def in_subscription(name: bytes) -> bytes:
    """A command that a RESP2 client may not call while it is subscribed."""
    return (
        b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
        b"context" % name
    )


def unknown_command(argv: list[bytes]) -> bytes:
    """A command that the table does not have; the first arguments are quoted, 128 bytes of them in all."""
    shown = b""
    for word in argv[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%b' " % word[: 128 - len(shown)]
    return b"ERR unknown command '%b', with args beginning with: %b" % (argv[0][:128], shown)


def unknown_subcommand(container: bytes, word: bytes) -> bytes:
    """A container called with a subcommand that it does not have."""
    return b"ERR unknown subcommand '%b'. Try %b HELP." % (word[:128], container.upper())


def subcommand_arguments(container: bytes, word: bytes) -> bytes:
    """A known subcommand with trailing words that it does not take."""
    return b"ERR unknown subcommand or wrong number of arguments for '%b'. Try %b HELP." % (
        word[:128],
        container.upper(),
    )


def read_only_with_group(option: bytes) -> bytes:
    """XREAD with an option that belongs to XREADGROUP."""
    return b"ERR The %b option is only supported by XREADGROUP. You called XREAD instead." % option


def no_group_read(key: bytes, group: bytes) -> bytes:
    """XREADGROUP without its key or group."""
    return b"NOGROUP No such key '%b' or consumer group '%b' in XREADGROUP with GROUP option" % (key, group)


def no_group(key: bytes, group: bytes) -> bytes:
    """A claiming or listing command without its key or group."""
    return b"NOGROUP No such key '%b' or consumer group '%b'" % (key, group)


def no_group_for_key(group: bytes, key: bytes) -> bytes:
    """XGROUP and XINFO CONSUMERS on a key that has no such group."""
    return b"NOGROUP No such consumer group '%b' for key name '%b'" % (group, key)


def unrecognized_claim_option(word: bytes) -> bytes:
    """XCLAIM with a word that is no option."""
    return b"ERR Unrecognized XCLAIM option '%b'" % word


# -- configuration --------------------------------------------------------------------------------------------------


def unknown_option_for_config_set(name: bytes) -> bytes:
    """CONFIG SET of a directive that there is not."""
    return b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % name


def config_set_failed(name: bytes, why: str) -> bytes:
    """CONFIG SET of a value that a directive does not take."""
    return b"ERR CONFIG SET failed (possibly related to argument '%b') - %b" % (name, why.encode())


# -- streams, 8.2 and later -----------------------------------------------------------------------------------------
NUMIDS_NOT_POSITIVE = b"ERR Number of IDs must be a positive integer"
NUMIDS_MISMATCH = b"ERR The `numids` parameter must match the number of arguments"
IDS_REQUIRED = b"ERR IDS option is required"
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
MAXCOUNT_NOT_POSITIVE = b"ERR MAXCOUNT must be a positive integer"
MAXSIZE_NOT_POSITIVE = b"ERR MAXSIZE must be a positive integer"
MAXCOUNT_BELOW_COUNT = b"ERR MAXCOUNT must be greater than or equal to COUNT"
MIN_IDLE_NOT_INTEGER = b"ERR min-idle-time is not an integer or out of range"
MIN_IDLE_NEGATIVE = b"ERR min-idle-time must be a positive integer"
NACK_MODE = b"ERR mode must be SILENT, FAIL, or FATAL"
NACK_NUMIDS = b"ERR numids must be a positive integer"
NACK_NUMIDS_MISMATCH = b"ERR number of IDs doesn't match numids"
NACK_RETRYCOUNT = b"ERR Invalid RETRYCOUNT value, must be >= 0"
NACK_IDS_EXPECTED = b"ERR syntax error, expected IDS keyword"


def unrecognized_nack_option(word: bytes) -> bytes:
    """XNACK with a word that is no option."""
    return b"ERR Unrecognized XNACK option '%b'" % word


# -- the protocol ---------------------------------------------------------------------------------------------------
PROTOCOL_MULTIBULK_LENGTH = b"ERR Protocol error: invalid multibulk length"
PROTOCOL_MULTIBULK_LENGTH_NO_AUTH = b"ERR Protocol error: unauthenticated multibulk length"
PROTOCOL_BULK_LENGTH = b"ERR Protocol error: invalid bulk length"
PROTOCOL_BULK_LENGTH_NO_AUTH = b"ERR Protocol error: unauthenticated bulk length"
PROTOCOL_BIG_MULTIBULK_COUNT = b"ERR Protocol error: too big mbulk count string"
PROTOCOL_BIG_BULK_COUNT = b"ERR Protocol error: too big bulk count string"
PROTOCOL_BIG_INLINE = b"ERR Protocol error: too big inline request"
PROTOCOL_UNBALANCED_QUOTES = b"ERR Protocol error: unbalanced quotes in request"


def protocol_expected_bulk(got: bytes) -> bytes:
    """An array of a request holds something else than a bulk string; ``got`` is its first byte."""
    return b"ERR Protocol error: expected '$', got '%b'" % got


# -- extensions -----------------------------------------------------------------------------------------------------
COUNT_NOT_POSITIVE = b"ERR count must be a positive integer"
PARTS_NOT_POSITIVE = b"ERR parts must be a positive integer"

# -- keys and expiry ------------------------------------------------------------------------------------------------
INVALID_CURSOR = b"ERR invalid cursor"
SAME_OBJECT = b"ERR source and destination objects are the same"
DB_INDEX_RANGE = b"ERR DB index is out of range"
SWAP_FIRST_INDEX = b"ERR invalid first DB index"
SWAP_SECOND_INDEX = b"ERR invalid second DB index"
EXPIRE_NX = b"ERR NX and XX, GT or LT options at the same time are not compatible"
EXPIRE_GT_LT = b"ERR GT and LT options at the same time are not compatible"
NO_LFU = (
    b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
    b"between policies at runtime LRU and LFU data will take some time to adjust."
)
BAD_DUMP = b"ERR DUMP payload version or checksum are wrong"
BAD_DUMP_BODY = b"ERR Bad data format"
BUSY_KEY = b"BUSYKEY Target key name already exists."
RESTORE_TTL = b"ERR Invalid TTL value, must be >= 0"
RESTORE_IDLETIME = b"ERR Invalid IDLETIME value, must be >= 0"
RESTORE_FREQ = b"ERR Invalid FREQ value, must be >= 0 and <= 255"
OBJECT_HELP = (
    b"OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"ENCODING <key>",
    b"    Return the kind of internal representation used in order to store the value",
    b"    associated with a <key>.",
    b"FREQ <key>",
    b"    Return the access frequency index of the <key>. The returned integer is",
    b"    proportional to the logarithm of the recent access frequency of the key.",
    b"IDLETIME <key>",
    b"    Return the idle time of the <key>, that is the approximated number of",
    b"    seconds elapsed since the last access to the key.",
    b"REFCOUNT <key>",
    b"    Return the number of references of the value associated with the specified",
    b"    <key>.",
    b"HELP",
    b"    Prints this help.",
)


def invalid_expire(command: bytes) -> bytes:
    """An expiry that is not positive where it must be, or that no clock will reach."""
    return b"ERR invalid expire time in '%b' command" % command


def unsupported_option(word: bytes) -> bytes:
    """EXPIRE and its kin with a word that is no option."""
    return b"ERR Unsupported option %b" % word


def out_of_range(low: int, high: int) -> bytes:
    """A number outside the range that the command states."""
    return b"ERR value is out of range, value must between %d and %d" % (low, high)


# -- strings and hashes ---------------------------------------------------------------------------------------------
OVERFLOW = b"ERR increment or decrement would overflow"
DECREMENT_OVERFLOW = b"ERR decrement would overflow"
NOT_FINITE = b"ERR increment would produce NaN or Infinity"
OFFSET_RANGE = b"ERR offset is out of range"
STRING_TOO_LONG = b"ERR string exceeds maximum allowed size (proto-max-bulk-len)"
HASH_NOT_AN_INTEGER = b"ERR hash value is not an integer"
HASH_NOT_A_FLOAT = b"ERR hash value is not a float"
INCREMENT_NOT_FINITE = b"ERR value is NaN or Infinity"
OUT_OF_RANGE = b"ERR value is out of range"

# -- lists ----------------------------------------------------------------------------------------------------------
NOT_POSITIVE = b"ERR value is out of range, must be positive"
INDEX_RANGE = b"ERR index out of range"
RANK_ZERO = (
    b"ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from "
    b"the end of the list"
)
COUNT_NEGATIVE = b"ERR COUNT can't be negative"
MAXLEN_BELOW_ZERO = b"ERR MAXLEN can't be negative"
TIMEOUT_NOT_FLOAT = b"ERR timeout is not a float or out of range"

# -- transactions ---------------------------------------------------------------------------------------------------
MULTI_NESTED = b"ERR MULTI calls can not be nested"
EXEC_WITHOUT_MULTI = b"ERR EXEC without MULTI"
DISCARD_WITHOUT_MULTI = b"ERR DISCARD without MULTI"
WATCH_IN_MULTI = b"ERR WATCH inside MULTI is not allowed"

# -- channels -------------------------------------------------------------------------------------------------------
PUBSUB_HELP = (
    b"PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"CHANNELS [<pattern>]",
    b"    Return the currently active channels matching a <pattern> (default: '*').",
    b"NUMPAT",
    b"    Return number of subscriptions to patterns.",
    b"NUMSUB [<channel> ...]",
    b"    Return the number of subscribers for the specified channels, excluding",
    b"    pattern subscriptions(default: no channels).",
    b"SHARDCHANNELS [<pattern>]",
    b"    Return the currently active shard level channels matching a <pattern> (default: '*').",
    b"SHARDNUMSUB [<shardchannel> ...]",
    b"    Return the number of subscribers for the specified shard level channel(s)",
    b"HELP",
    b"    Prints this help.",
)

# -- connections ----------------------------------------------------------------------------------------------------
MAX_CLIENTS = b"ERR max number of clients reached"
INTERNAL_ERROR = b"ERR internal error"
DB_OUT_OF_RANGE = b"ERR DB index is out of range"
NO_SUCH_CLIENT = b"ERR No such client"
CLIENT_ID_INVALID = b"ERR Invalid client ID"
CLIENT_ID_POSITIVE = b"ERR client-id should be greater than 0"
MAXAGE_NOT_INTEGER = b"ERR maxage is not an integer or out of range"
MAXAGE_POSITIVE = b"ERR maxage should be greater than 0"
CLIENT_NAME = b"ERR Client names cannot contain spaces, newlines or special characters."
UNBLOCK_REASON = b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
PAUSE_MODE = b"ERR CLIENT PAUSE mode must be WRITE or ALL"
OUT_OF_I32 = b"ERR value is out of range, value must between -2147483648 and 2147483647"
PROTOCOL_VERSION_NOT_INTEGER = b"ERR Protocol version is not an integer or out of range"
NO_PROTO = b"NOPROTO unsupported protocol version"
WRONG_PASSWORD = b"WRONGPASS invalid username-password pair or user is disabled."
NO_PASSWORD_SET = (
    b"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    b"is correct?"
)
HELLO_NO_AUTH = (
    b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option "
    b"can be used to authenticate the client and select the RESP protocol version at the same time"
)
NO_CONFIG_FILE = b"ERR The server is running without a config file"
NO_SHUTDOWN = b"ERR No shutdown in progress."
FUNCTION_FLUSH = b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
SCRIPT_FLUSH = b"ERR SCRIPT FLUSH only support SYNC|ASYNC option"
GETKEYS_UNKNOWN = b"ERR Invalid command specified"
GETKEYS_NO_KEYS = b"ERR The command has no key arguments"
GETKEYS_ARITY = b"ERR Invalid number of arguments specified for command"
GETKEYS_NOT_FOUND = b"ERR Invalid arguments specified for command"


def hello_option(word: bytes) -> bytes:
    """HELLO with a word that is no option."""
    return b"ERR Syntax error in HELLO option '%b'" % word


def unknown_client_type(word: bytes) -> bytes:
    """CLIENT LIST or KILL with a class of clients that there is not."""
    return b"ERR Unknown client type '%b'" % word


def no_such_user(name: bytes) -> bytes:
    """CLIENT KILL of a user whom nobody knows."""
    return b"ERR No such user '%b'" % name


def unrecognized_client_option(word: bytes) -> bytes:
    """CLIENT SETINFO of something else than the library's name and version."""
    return b"ERR Unrecognized option '%b'" % word


def client_info_characters(option: bytes) -> bytes:
    """CLIENT SETINFO of a value that CLIENT LIST could not show."""
    return b"ERR %b cannot contain spaces, newlines or special characters." % option


def rewrite_failed(why: str) -> bytes:
    """CONFIG REWRITE of a file that cannot be written."""
    return b"ERR Rewriting config file: %b" % why.encode()


def help_lines(container: str, *lines: str) -> list[bytes]:
    """The answer to ``container HELP``, as Redis frames it; a line that begins with a blank explains the one before."""
    head = f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    shown = [f"   {line}" if line.startswith(" ") else line for line in lines]
    return [line.encode() for line in (head, *shown, "HELP", "    Print this help.")]


CLIENT_HELP = help_lines(
    "CLIENT",
    "GETREDIR",
    " Where tracking messages go: nowhere, keys are not tracked.",
    "GETNAME",
    " The name of the current connection.",
    "ID",
    " The number of the current connection.",
    "INFO",
    " What LIST says of the current connection.",
    "KILL <ip:port>",
    " Close the connection from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    " Close all connections that fit all options:",
    " ADDR, LADDR (<ip:port>), TYPE (NORMAL|MASTER|REPLICA|PUBSUB), USER, ID, MAXAGE, SKIPME (YES|NO).",
    "LIST [TYPE <type> | ID <id> ...]",
    " All connections, or some.",
    "NO-EVICT (ON|OFF)",
    " Exempt the current connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    " Let the current connection's commands not count as use of keys.",
    "PAUSE <timeout> [WRITE|ALL]",
    " Hold back all commands, or those that write, for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    " Whether the current connection gets replies.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    " Say which library the current connection is of.",
    "SETNAME <name>",
    " Name the current connection.",
    "TRACKINGINFO",
    " Whether keys are tracked.",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    " Wake a blocked connection.",
    "UNPAUSE",
    " End PAUSE.",
)
CONFIG_HELP = help_lines(
    "CONFIG",
    "GET <pattern> [<pattern> ...]",
    " Names and values of the directives that match.",
    "SET <directive> <value> [<directive> <value> ...]",
    " Change directives, all or none.",
    "RESETSTAT",
    " Begin INFO's counts anew.",
    "REWRITE",
    " Write the values in force to the configuration file.",
)
COMMAND_HELP = help_lines(
    "COMMAND",
    "(no subcommand)",
    " Facts about all commands.",
    "COUNT",
    " How many commands there are.",
    "DOCS [<name> ...]",
    " The documentation of commands.",
    "GETKEYS <command>",
    " The keys in a whole command.",
    "GETKEYSANDFLAGS <command>",
    " The keys in a whole command, and what it does with them.",
    "INFO [<name> ...]",
    " Facts about commands.",
    "LIST [FILTERBY (MODULE|ACLCAT|PATTERN) <word>]",
    " Names of commands.",
)

# -- durability -----------------------------------------------------------------------------------------------------
NO_PERSISTENCE = b"ERR this server keeps nothing on a disk"
SAVE_RUNNING = b"ERR Background save already in progress"
SAVE_STARTED = b"Background saving started"
SAVE_SCHEDULED = b"Background saving scheduled"
SAVE_BLOCKED = (
    b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)
REWRITE_RUNNING = b"ERR Background append only file rewriting already in progress"
REWRITE_STARTED = b"Background append only file rewriting started"
REWRITE_SCHEDULED = b"Background append only file rewriting scheduled"
SHUTDOWN_FAILED = b"ERR Errors trying to SHUTDOWN. Check logs."
SHUTTING_DOWN = b"ERR the server is shutting down"
OUT_OF_0_1 = b"ERR value is out of range, value must between 0 and 1"
OUT_OF_POSITIVE = b"ERR value is out of range, must be positive"
WAITAOF_NO_LOG = b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a '
    b"local connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
DEBUG_RELOAD_OPTIONS = b"ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."
MISCONF_SNAPSHOT = (
    b"MISCONF The last snapshot could not be written to disk (stop-writes-on-bgsave-error is set). Commands that "
    b"change data are disabled; the server's log says what went wrong."
)


def misconf_log(why: str) -> bytes:
    """A command that writes, while the append-only file cannot be written."""
    return b"MISCONF Errors writing to the AOF file: " + why.encode()


def save_failed(why: str) -> bytes:
    """SAVE, and what saves first, where the disk refuses."""
    return b"ERR the snapshot could not be written: " + why.encode()


def load_failed(why: str) -> bytes:
    """DEBUG RELOAD and LOADAOF of files that cannot be loaded."""
    return b"ERR " + why.encode()


# -- access ---------------------------------------------------------------------------------------------------------
ACL_UNKNOWN = b"Unknown command or category name in ACL"
ACL_SYNTAX = b"Syntax error"
ACL_AFTER_ALL_KEYS = (
    b"Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try "
    b"'resetkeys' to start with an empty list of patterns"
)
ACL_AFTER_ALL_CHANNELS = (
    b"Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try "
    b"'resetchannels' to start with an empty list of channels"
)
ACL_FIRST_WORD_OF_SUBCOMMAND = b"Allowing first-arg of a subcommand is not supported"
ACL_NO_SUCH_PASSWORD = b"The password you are trying to remove from the user does not exist"
ACL_PASSWORD_HASH = b"The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
ACL_USER_NAME = b"ERR Usernames can't contain spaces or null characters"
ACL_DEFAULT_STAYS = b"ERR The 'default' user cannot be removed"
ACL_BITS = b"ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
ACL_NO_FILE = (
    b"ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    b"command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    b"users in the Redis configuration."
)
ACL_NOT_SAVED = b"ERR There was an error trying to save the ACLs. Please check the server logs for more information"
ACL_UNCHANGED = b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
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
    """A command that the user may not call."""
    return b"NOPERM User %b has no permissions to run the '%b' command" % (user, command)


def acl_rule_refused(rule: bytes, reason: bytes) -> bytes:
    """ACL SETUSER with a rule that cannot be taken."""
    return b"ERR Error in ACL SETUSER modifier '%b': %b" % (rule, reason)


def acl_open_selector(start: bytes) -> bytes:
    """ACL SETUSER with a selector that does not end."""
    return b"ERR Unmatched parenthesis in acl selector starting at '%b'." % start


def acl_not_read(name: bytes, why: str) -> bytes:
    """ACL LOAD of a file that cannot be read."""
    return b"ERR Error loading ACLs, opening file '%b': %b. %b" % (name, why.encode(), ACL_UNCHANGED)


def acl_unknown_category(name: bytes) -> bytes:
    """ACL CAT of a category that there is not."""
    return b"ERR Unknown category '%b'" % name


def acl_user_not_found(name: bytes) -> bytes:
    """ACL DRYRUN for a user that there is not."""
    return b"ERR User '%b' not found" % name


def acl_command_not_found(name: bytes) -> bytes:
    """ACL DRYRUN of a command that there is not."""
    return b"ERR Command '%b' not found" % name


def acl_would_refuse(user: bytes, reason: str, name: bytes) -> bytes:
    """What ACL DRYRUN answers for a command that would be refused."""
    what = b"run the '%b' command" if reason == "command" else b"access the '%%b' %b" % reason.encode()
    return b"User %b has no permissions to " % user + what % name


ACL_HELP = help_lines(
    "ACL",
    "CAT [<category>]",
    " The categories, or the commands of one.",
    "DELUSER <username> [<username> ...]",
    " Delete users; their connections are closed.",
    "DRYRUN <username> <command> [<arg> ...]",
    " Whether the user might run the command, which is not run.",
    "GENPASS [<bits>]",
    " A password drawn by chance, of 256 bits or as many as are wished.",
    "GETUSER <username>",
    " The rules of a user, one kind after the other.",
    "LIST",
    " All users with their rules, as they stand in a file.",
    "LOAD",
    " Take the users from the ACL file.",
    "LOG [<count> | RESET]",
    " What was refused lately; RESET forgets it.",
    "SAVE",
    " Write the users to the ACL file.",
    "SETUSER <username> [<rule> ...]",
    " Make a user, or change one.",
    "USERS",
    " The names of all users.",
    "WHOAMI",
    " The name of the current connection's user.",
)

# -- limits ---------------------------------------------------------------------------------------------------------
PROTECTED_MODE = (
    b"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
    b"default user. In this mode connections are only accepted from the loopback interface. To let other machines in, "
    b"set a password for the default user (requirepass, or ACL SETUSER), or, where the network itself is safe, "
    b"protected-mode no."
)

# -- looking at the server --------------------------------------------------------------------------------------------

MONITOR_WITHOUT_KEYS = b"ERR Replica can't interact with the keyspace"
SLOWLOG_COUNT = b"ERR count should be greater than or equal to -1"
NO_CLUSTER = b"ERR This instance has cluster support disabled"
INVALID_MASTER_PORT = b"ERR Invalid master port"
NO_REPLICATION = b"ERR the engine cannot be a replica of another server"
NO_REPLICAS_TO_FAIL_OVER_TO = b"ERR FAILOVER requires connected replicas."
NOT_BUSY = b"NOTBUSY No scripts in execution right now."
NO_SCRIPTS = b"ERR the engine runs no scripts and no functions"
LIBRARY_NOT_FOUND = b"ERR Library not found"
NO_TRACKING = b"ERR the engine does not track keys for clients"
NOT_TRACKING = (
    b"ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
)
DEBUG_PROTOCOL = (
    b"ERR Wrong protocol type name. Please use one of the following: "
    b"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
)


def no_latency_samples(event: bytes) -> bytes:
    """LATENCY GRAPH of what never happened."""
    return b"ERR No samples available for event '%b'" % event


MEMORY_REPORT_EMPTY = b"Memory is not watched by this server: no facts about the process are there."
LATENCY_OFF = (
    b"No latency is monitored. CONFIG SET latency-monitor-threshold MILLISECONDS makes every command (and every other "
    b"piece of work) that takes so long an event."
)
LATENCY_NONE = b"Nothing has taken as long as latency-monitor-threshold yet."

SLOWLOG_HELP = help_lines(
    "SLOWLOG",
    "GET [<count>]",
    " The newest entries (10 unless told; -1: all), each with its number, its time, the microseconds",
    " that it took, the command's words, and the client's address and name.",
    "LEN",
    " How many entries there are.",
    "RESET",
    " Forget all of them.",
)
LATENCY_HELP = help_lines(
    "LATENCY",
    "DOCTOR",
    " What can be said about the events, for people.",
    "GRAPH <event>",
    " The samples of an event, drawn.",
    "HISTORY <event>",
    " The samples of an event: seconds since the epoch, and milliseconds.",
    "LATEST",
    " Each event with its latest and its longest sample.",
    "RESET [<event> ...]",
    " Forget these events, or all.",
    "HISTOGRAM [<command> ...]",
    " For each command how many calls took how long.",
)
MEMORY_HELP = help_lines(
    "MEMORY",
    "DOCTOR",
    " What can be said about memory, for people.",
    "MALLOC-STATS",
    " What the allocator says of itself.",
    "PURGE",
    " Give back to the system what is free.",
    "STATS",
    " Where memory is.",
    "USAGE <key> [SAMPLES <count>]",
    " The bytes that a key and its value take; of a hash or a list, estimated from",
    " so many of its elements (5 unless told; 0: all).",
)
SCRIPT_HELP = help_lines(
    "SCRIPT",
    "EXISTS <sha1> [<sha1> ...]",
    " Whether scripts are there; none is.",
    "FLUSH [ASYNC|SYNC]",
    " Forget all scripts.",
    "KILL",
    " Stop the running script; none runs.",
)
FUNCTION_HELP = help_lines(
    "FUNCTION",
    "DELETE <library>",
    " Delete a library; there is none.",
    "FLUSH [ASYNC|SYNC]",
    " Delete all libraries.",
    "KILL",
    " Stop the running function; none runs.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
    " All libraries: none.",
    "STATS",
    " What runs, and what there is.",
)
MODULE_HELP = help_lines("MODULE", "LIST", " All modules: none.")
DEBUG_HELP = help_lines(
    "DEBUG",
    "CHANGE-REPL-ID, DICT-RESIZING, JMAP, QUICKLIST-PACKED-THRESHOLD, REPLYBUFFER, STRINGMATCH-LEN",
    " Accepted, without any effect.",
    "DIGEST",
    " A digest of all keys.",
    "DIGEST-VALUE <key> [<key> ...]",
    " Digests of values.",
    "ERROR <text>",
    " Answer with this error.",
    "LOADAOF",
    " Load the append-only file in place of what is there.",
    "LOG <text>",
    " Write a line to the log.",
    "OBJECT <key>",
    " How a value is kept.",
    "POPULATE <count> [<prefix>] [<size>]",
    " Make string keys.",
    "PROTOCOL <type>",
    " Answer with a value of a type.",
    "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
    " Write a snapshot and load it.",
    "SET-ACTIVE-EXPIRE <0|1>",
    " Whether keys that nobody asks for expire by themselves.",
    "SLEEP <seconds>",
    " Serve nobody for so long.",
)
