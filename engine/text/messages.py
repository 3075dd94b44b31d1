"""Error messages of several commands, and long ones, by subject. Code that alone raises a message contains it.

Error replies are bytes that start with the error code, without the leading ``-``. Functions return the messages that
contain values. Messages about the values of directives are str, because errors at startup quote them too.
"""

from __future__ import annotations

SYNTAX = b"ERR syntax error"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NO_SUCH_KEY = b"ERR no such key"
INTERNAL_ERROR = b"ERR internal error"
MULTIBULK_LENGTH_NO_AUTH = b"ERR Protocol error: unauthenticated multibulk length"

# -- ranges -------------------------------------------------------------------------------------------------------


def out_of_range(low: int, high: int) -> bytes:
    """Return the error for a number outside the command's range."""
    return b"ERR value is out of range, value must between %d and %d" % (low, high)


OUT_OF_I32 = out_of_range(-(1 << 31), (1 << 31) - 1)
DB_INDEX_RANGE = b"ERR DB index is out of range"


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


# -- keys ---------------------------------------------------------------------------------------------------------
INVALID_CURSOR = b"ERR invalid cursor"
SAME_OBJECT = b"ERR source and destination objects are the same"
SWAP_FIRST_INDEX = b"ERR invalid first DB index"
SWAP_SECOND_INDEX = b"ERR invalid second DB index"

# -- expiry -------------------------------------------------------------------------------------------------------


def invalid_expire(command: bytes) -> bytes:
    """Return the error for an expiry time that is not positive, or too large."""
    return b"ERR invalid expire time in '%b' command" % command


# -- DUMP and RESTORE ---------------------------------------------------------------------------------------------
BAD_DUMP = b"ERR DUMP payload version or checksum are wrong"
BAD_DUMP_BODY = b"ERR Bad data format"


# -- strings and hashes -------------------------------------------------------------------------------------------
OVERFLOW = b"ERR increment or decrement would overflow"


# -- entries ------------------------------------------------------------------------------------------------------
INVALID_ID = b"ERR Invalid stream ID specified as stream command argument"
ID_TOO_SMALL = b"ERR The ID specified in XADD is equal or smaller than the target stream top item"
ID_EXHAUSTED = b"ERR The stream has exhausted the last possible ID, unable to add more items"


# -- XREAD and XREADGROUP -----------------------------------------------------------------------------------------
READ_UNBALANCED = b"ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
READGROUP_UNBALANCED = (
    b"ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
)
READ_GREATER = b"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
_MEANINGLESS = (
    b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty result set."
)
READGROUP_DOLLAR = _MEANINGLESS % (b"$", b"$")
READGROUP_PLUS = _MEANINGLESS % (b"+", b"+")
MAXCOUNT_NOT_POSITIVE = b"ERR MAXCOUNT must be a positive integer"
MAXSIZE_NOT_POSITIVE = b"ERR MAXSIZE must be a positive integer"


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
GROUP_NEEDS_KEY = (
    b"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM "
    b"option to create an empty stream automatically."
)


def no_group(key: bytes, group: bytes) -> bytes:
    """Return the error of a claiming or listing command if the key or the group does not exist."""
    return b"NOGROUP No such key '%b' or consumer group '%b'" % (key, group)


def no_group_for_key(group: bytes, key: bytes) -> bytes:
    """Return the error of XGROUP and XINFO CONSUMERS if the key has no such group."""
    return b"NOGROUP No such consumer group '%b' for key name '%b'" % (group, key)


# -- claiming -----------------------------------------------------------------------------------------------------
AUTOCLAIM_COUNT = b"ERR COUNT must be > 0"


# -- XDELEX, XACKDEL, XNACK ---------------------------------------------------------------------------------------
NUMIDS_NOT_POSITIVE = b"ERR Number of IDs must be a positive integer"
NACK_NUMIDS = b"ERR numids must be a positive integer"
NACK_RETRYCOUNT = b"ERR Invalid RETRYCOUNT value, must be >= 0"


# -- extensions ---------------------------------------------------------------------------------------------------
BAD_COLUMNS = (
    b"ERR a column must be a field, count + 1 ascending 32-bit positions that start at 0, and values that end at the "
    b"last position"
)


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
PASSWORD_HASH = b"The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"


def rule_refused(rule: bytes, reason: bytes) -> bytes:
    """Return the error of ACL SETUSER for an invalid rule."""
    return b"ERR Error in ACL SETUSER modifier '%b': %b" % (rule, reason)


# -- the ACL command ----------------------------------------------------------------------------------------------
USER_NAME = b"ERR Usernames can't contain spaces or null characters"
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


def would_refuse(user: bytes, reason: str, name: bytes) -> bytes:
    """Return the reply of ACL DRYRUN for a command that would be rejected."""
    action = b"run the '%b' command" if reason == "command" else b"access the '%%b' %b" % reason.encode()
    return b"User %b has no permissions to " % user + action % name


# -- permissions --------------------------------------------------------------------------------------------------
_NO_LONGER = (
    b"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
    b"no longer allowed for the following reason: "
)
NO_LONGER_ALLOWED = {
    "command": _NO_LONGER + b"no permission to execute the command or subcommand",
    "key": _NO_LONGER + b"no permission to touch the specified keys",
    "channel": _NO_LONGER + b"no permission to access one of the channels used as arguments to the command",
}


# -- connecting ---------------------------------------------------------------------------------------------------
PROTECTED_MODE = (
    b"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
    b"default user. In this mode connections are only accepted from the loopback interface. To accept other "
    b"machines, set a password for the default user (requirepass, or ACL SETUSER), or, on a trusted network, set "
    b"protected-mode no."
)
NO_PASSWORD_SET = (
    b"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    b"is correct?"
)
HELLO_NO_AUTH = (
    b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
    b"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
)


# -- waiting ------------------------------------------------------------------------------------------------------
UNBLOCKED = b"UNBLOCKED client unblocked via CLIENT UNBLOCK"

# -- channels -----------------------------------------------------------------------------------------------------


def in_subscription(name: bytes) -> bytes:
    """Return the error for a command that a RESP2 client may not call while it is subscribed."""
    return (
        b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
        b"context" % name
    )


# -- CLIENT -------------------------------------------------------------------------------------------------------
CLIENT_ID_POSITIVE = b"ERR client-id should be greater than 0"


# -- snapshots ----------------------------------------------------------------------------------------------------
NO_PERSISTENCE = b"ERR this server does not store data on disk"
SAVE_RUNNING = b"ERR Background save already in progress"
SAVE_BLOCKED = (
    b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)


def save_failed(why: str) -> bytes:
    """Return the error of SAVE, or of a command that saves first, if the file cannot be written."""
    return b"ERR the snapshot could not be written: " + why.encode()


# -- the log ------------------------------------------------------------------------------------------------------
REWRITE_SCHEDULED = b"Background append only file rewriting scheduled"

# -- rejected writes ----------------------------------------------------------------------------------------------
MISCONF_SNAPSHOT = (
    b"MISCONF The last snapshot could not be written to disk (stop-writes-on-bgsave-error is set). Commands that "
    b"change data are disabled; the server's log contains the reason."
)


# -- shutdown -----------------------------------------------------------------------------------------------------
SHUTDOWN_FAILED = b"ERR Errors trying to SHUTDOWN. Check logs."
SHUTTING_DOWN = b"ERR the server is shutting down"
NO_SHUTDOWN = b"ERR No shutdown in progress."


# -- MONITOR, SLOWLOG, LATENCY ------------------------------------------------------------------------------------
SLOWLOG_COUNT = b"ERR count should be greater than or equal to -1"

# -- DEBUG --------------------------------------------------------------------------------------------------------
DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a '
    b"local connection, otherwise you need to set this option in the configuration file, and then restart the server."
)

# -- replication and cluster --------------------------------------------------------------------------------------
NO_REPLICATION = b"ERR this server neither has replicas nor can be one"
WAIT_ON_REPLICA = (
    b"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured "
    b"to be writable (which is not the default) writes to replicas are just local and are not propagated."
)
ROLE_CHANGED = b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
READONLY = b"READONLY You can't write against a read only replica."
FAILOVER_WITHOUT_REPLICAS = b"ERR FAILOVER requires connected replicas."
NO_FAILOVER = b"ERR No failover in progress."


# -- rejected values ----------------------------------------------------------------------------------------------
WRONG_NUMBER = "wrong number of arguments"
SAVE_POINTS = "Invalid save parameters"
LIMIT_VALUES = "Error in hard, soft or soft_seconds setting in buffer limit configuration."


def not_between(low: object, high: object) -> str:
    """Return the error for a number outside the directive's range."""
    return f"argument must be between {low} and {high} inclusive"


# -- CONFIG -------------------------------------------------------------------------------------------------------
NO_CONFIG_FILE = b"ERR The server is running without a config file"


def config_set_failed(name: bytes, why: str) -> bytes:
    """Return the error of CONFIG SET for a rejected value."""
    return b"ERR CONFIG SET failed (possibly related to argument '%b') - %b" % (name, why.encode())


DIRECTIVE_NO_CLUSTER = "the engine is not a node of a cluster"
