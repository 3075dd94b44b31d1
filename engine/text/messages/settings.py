"""Messages of CONFIG, and about rejected values of directives.

Messages about values are str, because errors at startup quote them too.
"""

from __future__ import annotations

# -- rejected values ----------------------------------------------------------------------------------------------
WRONG_NUMBER = "wrong number of arguments"
NOT_AN_INTEGER = "argument couldn't be parsed into an integer"
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
UNBALANCED_QUOTES = "Unbalanced quotes in configuration line"
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


INVALID_MASTER_PORT = "Invalid master port"
NO_CLUSTER = "the engine is not a node of a cluster"
