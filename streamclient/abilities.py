"""Which commands a server has beside Redis's: asked once a connection (COMMAND INFO), forgotten if refused."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from streamclient.connection import Connection

_known: WeakKeyDictionary[Connection, dict[tuple[str, ...], bool]] = WeakKeyDictionary()


def has_commands(connection: Connection, *names: str) -> bool:
    """Whether the server has all of these. One that refuses to answer is treated as one without them."""
    known = _known.setdefault(connection, {})
    if names not in known:
        (reply,) = connection.pipeline([("COMMAND", "INFO", *names)])
        known[names] = isinstance(reply, list) and len(reply) == len(names) and all(reply)
    return known[names]


def is_refused(refusal: str) -> bool:
    """Whether a command was refused that the server had: another server answers now, or the user's rights changed."""
    return "unknown command" in refusal or refusal.startswith("NOPERM")


def forget(connection: Connection, *names: str) -> None:
    """The server refuses these from now on."""
    _known.setdefault(connection, {})[names] = False
