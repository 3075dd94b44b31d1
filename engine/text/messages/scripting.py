"""Messages about scripts and functions."""

from __future__ import annotations

NO_LUA = (
    b"ERR scripts need Lua, which this Python installation lacks: pip install 'pystreams[lua]' "
    b"(lupa is not available for every platform)"
)

# -- scripts ------------------------------------------------------------------------------------------------------
NO_SCRIPT = b"NOSCRIPT No matching script. Please use EVAL."
NOT_BUSY = b"NOTBUSY No scripts in execution right now."
UNKILLABLE = (
    b"UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script "
    b"termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)
BUSY_SCRIPT = b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
BUSY_FUNCTION = b"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
LOAD_TIMEOUT = b"ERR FUNCTION LOAD timeout"
KILLED = b"ERR Script killed by user with SCRIPT KILL..."
SCRIPT_FLUSH = b"ERR SCRIPT FLUSH only support SYNC|ASYNC option"
NO_DEBUGGER = b"ERR the engine has no script debugger"
NEGATIVE_KEYS = b"ERR Number of keys can't be negative"
TOO_MANY_KEYS = b"ERR Number of keys can't be greater than number of args"
BAD_SHEBANG = b"ERR Invalid script shebang"
WRITES_UNDER_RO = b"ERR Can not execute a script with write flag using *_ro command."


def compile_failed(wrong: bytes) -> bytes:
    """Return the error for a script that is not valid Lua."""
    return b"ERR Error compiling script (new function): " + wrong


def unexpected_engine(word: bytes) -> bytes:
    """Return the error for a script whose first line names another language."""
    return b"ERR Unexpected engine in script shebang: " + word


def unknown_option(word: bytes) -> bytes:
    """Return the error for a script whose first line has an unknown option."""
    return b"ERR Unknown lua shebang option: " + word


def unexpected_flag(word: bytes) -> bytes:
    """Return the error for a script whose first line has an unknown flag."""
    return b"ERR Unexpected flag in script shebang: " + word


def failed(text: bytes, name: bytes, source: bytes, line: int) -> bytes:
    """Return the error of a failed script, with the line of the failure."""
    return b"%b script: %b, on %b:%d." % (text, name, source, line)


# -- commands called by a script ----------------------------------------------------------------------------------
NO_ARGUMENTS = b"ERR Please specify at least one argument for this redis lib call"
BAD_ARGUMENTS = b"ERR Lua redis lib command arguments must be strings or integers"
UNKNOWN_COMMAND = b"ERR Unknown Redis command called from script"
WRONG_ARITY = b"ERR Wrong number of args calling Redis command from script"
NOT_FROM_SCRIPT = b"ERR This Redis command is not allowed from script"
STALE = b"ERR Can not execute the command on a stale replica"
READ_ONLY = b"ERR Write commands are not allowed from read-only scripts."
MEMORY_FULL = b"OOM command not allowed when used memory > 'maxmemory'."
OUT_OF_MEMORY = b"ERR not enough memory"
DENIED = {
    "command": b"ERR The user executing the script can't run this command or subcommand",
    "key": b"ERR The user executing the script can't access at least one of the keys mentioned in the command "
    b"arguments",
    "channel": b"ERR The user executing the script can't publish to the channel mentioned in the command",
}
ACL_CHECK = b"ERR Invalid command passed to redis.acl_check_cmd()"
ACL_CHECK_ARITY = b"ERR Wrong number of args for redis.acl_check_cmd()"
ARGUMENT_COUNT = b"ERR wrong number of arguments"
LOG_ARGUMENTS = b"ERR redis.log() requires two arguments or more."
LOG_LEVEL_NUMBER = b"ERR First argument must be a number (log level)."
LOG_LEVEL = b"ERR Invalid log level."
SETRESP_ARGUMENTS = b"ERR redis.setresp() requires one argument."
SETRESP_VERSION = b"ERR RESP version must be 2 or 3."
SET_REPL_ARGUMENTS = b"ERR redis.set_repl() requires one argument."
SET_REPL_FLAGS = b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."


# -- functions ----------------------------------------------------------------------------------------------------
FUNCTION_NOT_FOUND = b"ERR Function not found"
BAD_KEY_COUNT = b"ERR Bad number of keys provided"
LIBRARY_NOT_FOUND = b"ERR Library not found"
FUNCTION_FLUSH = b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
NO_METADATA = b"ERR Missing library metadata"
BAD_METADATA = b"ERR Invalid library metadata"
NAME_TWICE = b"ERR Invalid metadata value, name argument was given multiple times"
NO_NAME = b"ERR Library name was not given"
BAD_NAME = (
    b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
)
NO_FUNCTIONS = b"ERR No functions registered"
LIST_NAME = b"ERR library name argument was not given"
BAD_POLICY = b"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
BAD_PAYLOAD = b"ERR DUMP payload version or checksum are wrong"
BAD_PAYLOAD_BODY = b"ERR given type is not a function"


def bad_metadata(word: bytes) -> bytes:
    """Return the error for a library whose first line has an unknown word."""
    return b"ERR Invalid metadata value given: " + word


def engine_not_found(name: bytes) -> bytes:
    """Return the error for a library in another language."""
    return b"ERR Engine '%b' not found" % name


def library_exists(name: bytes) -> bytes:
    """Return the error of FUNCTION LOAD without REPLACE for an existing library."""
    return b"ERR Library '%b' already exists" % name


def restored_exists(name: bytes) -> bytes:
    """Return the error of FUNCTION RESTORE without REPLACE for an existing library."""
    return b"ERR Library %b already exists" % name


def function_exists(name: bytes) -> bytes:
    """Return the error for a function that another library defines."""
    return b"ERR Function %b already exists" % name


def library_compile_failed(wrong: bytes) -> bytes:
    """Return the error for a library that is not valid Lua."""
    return b"ERR Error compiling function: " + wrong


def registering_failed(wrong: bytes) -> bytes:
    """Return the error for a library whose code fails while it is loaded."""
    return b"ERR Error registering functions: " + wrong


def unknown_argument(word: bytes) -> bytes:
    """Return the error of FUNCTION LIST for an unknown argument."""
    return b"ERR Unknown argument " + word


def unknown_load_option(word: bytes) -> bytes:
    """Return the error of FUNCTION LOAD for an unknown option."""
    return b"ERR Unknown option given: " + word
