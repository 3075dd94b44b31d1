"""Texts of the commands on the server itself: memory, COMMAND, DEBUG, slow commands, features that are missing."""

from __future__ import annotations

from engine.text.messages.general import help_lines

# -- memory -------------------------------------------------------------------------------------------------------
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."
MEMORY_REPORT_EMPTY = b"This server does not measure its memory."
MEMORY_HELP = help_lines(
    "MEMORY",
    "DOCTOR",
    " A report on memory, for people.",
    "MALLOC-STATS",
    " The allocator's own report.",
    "PURGE",
    " Return free memory to the system.",
    "STATS",
    " Memory use by category.",
    "USAGE <key> [SAMPLES <count>]",
    " The bytes that a key and its value take; of a hash or a list, estimated from",
    " so many of its elements (5 unless told; 0: all).",
)

# -- COMMAND ------------------------------------------------------------------------------------------------------
GETKEYS_UNKNOWN = b"ERR Invalid command specified"
GETKEYS_NO_KEYS = b"ERR The command has no key arguments"
GETKEYS_ARITY = b"ERR Invalid number of arguments specified for command"
GETKEYS_NOT_FOUND = b"ERR Invalid arguments specified for command"
COMMAND_HELP = help_lines(
    "COMMAND",
    "(no subcommand)",
    " Details of all commands.",
    "COUNT",
    " How many commands there are.",
    "DOCS [<name> ...]",
    " The documentation of commands.",
    "GETKEYS <command>",
    " The keys in a whole command.",
    "GETKEYSANDFLAGS <command>",
    " The keys in a whole command, with their flags.",
    "INFO [<name> ...]",
    " Details of commands.",
    "LIST [FILTERBY (MODULE|ACLCAT|PATTERN) <word>]",
    " Names of commands.",
)

# -- MONITOR, SLOWLOG, LATENCY ------------------------------------------------------------------------------------
MONITOR_WITHOUT_KEYS = b"ERR Replica can't interact with the keyspace"
SLOWLOG_COUNT = b"ERR count should be greater than or equal to -1"
SLOWLOG_HELP = help_lines(
    "SLOWLOG",
    "GET [<count>]",
    " The newest entries (10 unless told; -1: all), each with its number, its time, the microseconds",
    " that it took, the command's words, and the client's address and name.",
    "LEN",
    " How many entries there are.",
    "RESET",
    " Delete all of them.",
)


def no_latency_samples(event: bytes) -> bytes:
    """LATENCY GRAPH of an event without samples."""
    return b"ERR No samples available for event '%b'" % event


LATENCY_OFF = (
    b"No latency is monitored. CONFIG SET latency-monitor-threshold MILLISECONDS makes every command (and every other "
    b"piece of work) that takes so long an event."
)
LATENCY_NONE = b"Nothing has taken as long as latency-monitor-threshold yet."
LATENCY_HELP = help_lines(
    "LATENCY",
    "DOCTOR",
    " A report on the events, for people.",
    "GRAPH <event>",
    " A chart of the samples of an event.",
    "HISTORY <event>",
    " The samples of an event: seconds since the epoch, and milliseconds.",
    "LATEST",
    " Each event with its latest and its longest sample.",
    "RESET [<event> ...]",
    " Delete these events, or all.",
    "HISTOGRAM [<command> ...]",
    " The latency distribution of each command.",
)

# -- DEBUG --------------------------------------------------------------------------------------------------------
DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a '
    b"local connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
DEBUG_PROTOCOL = (
    b"ERR Wrong protocol type name. Please use one of the following: "
    b"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
)
DEBUG_HELP = help_lines(
    "DEBUG",
    "CHANGE-REPL-ID, DICT-RESIZING, JMAP, QUICKLIST-PACKED-THRESHOLD, REPLYBUFFER, STRINGMATCH-LEN",
    " Accepted, without any effect.",
    "DIGEST",
    " A digest of all keys.",
    "DIGEST-VALUE <key> [<key> ...]",
    " Digests of values.",
    "ERROR <text>",
    " Reply with this error.",
    "LOADAOF",
    " Replace all data with those of the append-only file.",
    "LOG <text>",
    " Write a line to the log.",
    "OBJECT <key>",
    " How a value is stored.",
    "POPULATE <count> [<prefix>] [<size>]",
    " Create string keys.",
    "PROTOCOL <type>",
    " Reply with a value of a type.",
    "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
    " Write a snapshot and load it.",
    "SET-ACTIVE-EXPIRE <0|1>",
    " Whether keys expire without being accessed.",
    "SLEEP <seconds>",
    " Block the server for so long.",
)

# -- replication and cluster --------------------------------------------------------------------------------------
NO_CLUSTER = b"ERR This instance has cluster support disabled"
INVALID_MASTER_PORT = b"ERR Invalid master port"
NO_REPLICATION = b"ERR the engine cannot be a replica of another server"
NO_REPLICAS_TO_FAIL_OVER_TO = b"ERR FAILOVER requires connected replicas."

# -- scripts, functions, modules ----------------------------------------------------------------------------------
NOT_BUSY = b"NOTBUSY No scripts in execution right now."
NO_SCRIPTS = b"ERR the engine runs no scripts and no functions"
LIBRARY_NOT_FOUND = b"ERR Library not found"
FUNCTION_FLUSH = b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
SCRIPT_FLUSH = b"ERR SCRIPT FLUSH only support SYNC|ASYNC option"
SCRIPT_HELP = help_lines(
    "SCRIPT",
    "EXISTS <sha1> [<sha1> ...]",
    " Whether scripts exist; none does.",
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
    " The running function, and how many there are.",
)
MODULE_HELP = help_lines("MODULE", "LIST", " All modules: none.")
