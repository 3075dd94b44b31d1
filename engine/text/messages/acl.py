"""Messages about ACLs: rejected rules, the ACL command, and commands that a user may not call."""

from __future__ import annotations

# -- rules --------------------------------------------------------------------------------------------------------
UNKNOWN = b"Unknown command or category name in ACL"
SYNTAX = b"Syntax error"
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
