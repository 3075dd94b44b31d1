"""Messages about connections: connecting, login, transactions, waiting, channels, CLIENT."""

from __future__ import annotations

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
