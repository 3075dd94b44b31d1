"""Refusals and failures of a server: their classification, pauses before another attempt, and errors with advice.

This module depends on the texts of servers' replies. It sends nothing.
"""

from __future__ import annotations

import enum
import random
import socket
import time
from collections.abc import Iterable
from typing import Any

from streamclient.commands import ENGINE_RULES
from streamclient.config.address import Address
from streamclient.errors import LoginRefusedError, PystreamsError, ResponseError, error
from streamwire.lazy import ssl

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5  # seconds


class Refusal(enum.Enum):
    """Category of an error reply.

    A refusal `LATER` is temporary and retried. A refusal of the `ROW` is permanent. A refusal by the `SERVER` may end
    when the server's state or the user's rights change.
    """

    LATER = "not now or not here: the command was not executed, and may succeed later or at another node"
    SERVER = "the server's state, the user's rights or a script: the command's arguments were not checked"
    ROW = "the command's arguments or its key: the same command is refused again"


#: First words of temporary refusals, and of refusals of the row unless a part of `_OF_SERVER` follows. Other words mean
#: `SERVER`.
_LATER = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "NOREPLICAS", "BUSY", "OOM")
_OF_ROW = ("ERR", "WRONGTYPE", "NOGROUP")

#: Texts about a missing permission within a script: of Redis 7.0, and of later releases and Valkey.
_FORBIDDEN_IN_SCRIPT = ("The user executing the script can't run", "ACL failure in script")

#: Parts of replies that begin with ERR and do not depend on the command's arguments.
_OF_SERVER = (
    *("unknown command", "Unknown Redis command", "unknown subcommand", *_FORBIDDEN_IN_SCRIPT),
    *("running script", "compiling script", "not allowed from script", "Script killed", "user_script:"),
)

#: Part of the refusal of a blocked command whose server has become a replica. Other texts with UNBLOCKED are final.
_DEMOTED = "instance state changed"

#: Precedes the reason when EXEC is refused: the server's state has changed since the commands were queued.
_ABORTED = "EXECABORT Transaction discarded because of: "


class Budget:
    """The remaining time for retries: `milliseconds` from now, with pauses that grow from 5 ms to half a second."""

    def __init__(self, milliseconds: float) -> None:
        self._end = time.monotonic() + milliseconds / 1000
        self._pause = _FIRST_PAUSE

    def pause(self) -> bool:
        """Sleep before the next attempt. Return False without sleeping if no time remains."""
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, self._pause * random.uniform(0.5, 1.0)))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def reason_of(reply: object) -> str:
    """Return the text of an error reply. For a refused EXEC, return only the reason in it."""
    return str(reply).removeprefix(_ABORTED)


def refusal_of(reply: object) -> Refusal:
    """Return the category of an error reply, or of its text."""
    text = reason_of(reply)
    word = text.partition(" ")[0]
    if word == "UNBLOCKED" and _DEMOTED in text:
        return Refusal.LATER
    if word in _LATER:
        return Refusal.LATER
    if word == "ERR" and any(part in text for part in _OF_SERVER):
        return Refusal.SERVER
    # Without a code, it is the connector's own text about a row.
    return Refusal.ROW if word in _OF_ROW or not word.isupper() else Refusal.SERVER


def is_transient(reply: Any) -> bool:
    """Return whether the reply is a temporary error: the same command may succeed later, or at another node."""
    return isinstance(reply, ResponseError) and refusal_of(reply) is Refusal.LATER


def redirection(replies: Iterable[Any]) -> str | None:
    """Return the ASK redirection among replies, which is to be followed; None if there is none, or if the keys are
    still on different nodes.
    """
    # Only errors become text: a reply of XINFO contains entries, which may have many megabytes.
    errors = [str(each) for each in replies if isinstance(each, ResponseError)]
    if any(each.startswith("TRYAGAIN") for each in errors):
        return None
    return next((each for each in errors if each.startswith("ASK ")), None)


def is_forbidden(reply: Any) -> bool:
    """Return whether the reply is an error about the user's rights."""
    if not isinstance(reply, ResponseError):
        return False
    text = reason_of(reply)
    return text.startswith("NOPERM") or (text.startswith("ERR") and any(part in text for part in _FORBIDDEN_IN_SCRIPT))


def is_permanent(cause: BaseException) -> bool:
    """Return whether the failure is permanent: a wrong password, an unknown host, or a refused certificate."""
    seen: BaseException | None = cause
    while seen is not None:
        if isinstance(seen, (LoginRefusedError, socket.gaierror, ssl.SSLCertVerificationError)):
            return True
        if isinstance(seen, ssl.SSLError) and ("certificate" in str(seen).lower() or "alert" in str(seen).lower()):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


#: Advice by the first word of a refusal.
_MEANINGS = {
    "READONLY": "this server is a replica: name its primary, or the Sentinels",
    "OOM": "it has reached its maxmemory",
    "MISCONF": "it cannot save its data",
    "NOREPLICAS": "fewer replicas are connected than min-replicas-to-write requires",
}


class RefusedForNowError(Exception):
    """A temporary refusal: the same request may succeed later, at another server, or with other commands.

    The text is the server's error reply.
    """


def refused(
    address: Address, command: bytes | str | int, reason: Any, key: bytes | str | None = None
) -> PystreamsError:
    """Return the error for a refused command: SERVER_REFUSED, or a more specific condition.

    `key`: the key of the command, for the message, since the server's reply does not name it.
    """
    text = reason_of(reason).rstrip(". ")
    shown = command.decode("utf-8", "replace") if isinstance(command, bytes) else str(command)
    if text.startswith(("NOAUTH", "WRONGPASS")):
        return login_refused(address, text)
    if is_forbidden(ResponseError(text)):
        name = address.login.username or "default"
        needs = address.needs or "~... +..."
        needs += f" {ENGINE_RULES}" if shown.startswith("PS.") else ""
        if key is not None and "key" in text:
            named = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
            shown += f" with the key '{named}'"
            needs = needs if "~" in address.needs else f"~{named} {address.needs or '+...'}"
        return error("NOT_PERMITTED", address=address.shown, user=name, command=shown, reason=text, needs=needs)
    if text.startswith("MOVED ") and address.kind == "single":
        return error("CLUSTER_NODE", address=address.shown, reason=text, url=_url(address, "+cluster"))
    if "cluster support disabled" in text:
        return error("NOT_A_CLUSTER", address=address.shown, reason=text, url=_url(address, ""))
    if "unknown command" in text.lower():
        if shown.upper() == "SENTINEL":
            return error("NOT_A_SENTINEL", address=address.shown, reason=text, url=_url(address, ""))
        return error("UNKNOWN_COMMAND", address=address.shown, command=shown, reason=text)
    meaning = _MEANINGS.get(text.partition(" ")[0])
    return error(
        "SERVER_REFUSED",
        address=address.shown,
        command=shown,
        reason=text,
        meaning=f" ({meaning})" if meaning else "",
    )


def row_refused(address: Address, row: int, reason: Any, command: str = "XADD") -> PystreamsError:
    """Return the error for a refused row: ROW_REFUSED if the row is the reason, otherwise the error of `refused`."""
    if refusal_of(reason) is not Refusal.ROW:
        return refused(address, command, reason)
    return error("ROW_REFUSED", row=row, address=address.shown, reason=str(reason).rstrip(". "))


def login_refused(address: Address, reason: Any) -> PystreamsError:
    """Return the error for a wrong or missing user or password."""
    login = address.login
    given = f"user '{login.username or 'default'}'" if login.password or login.username else "no user and no password"
    if login.password_file is not None:
        given = f"user '{login.username or 'default'}' and the password in the file {login.password_file}"
    if login.provider is not None:
        given = f"the credentials of {login.provider}"
    return error("LOGIN_REFUSED", address=address.shown, given=given, reason=str(reason).rstrip(". "))


def tls_mismatch(address: Address, *, encrypted: bool) -> PystreamsError:
    """Return the error for a connection with TLS on only one side. `encrypted`: whether the server uses TLS."""
    condition = "TLS_NEEDED" if encrypted else "TLS_NOT_SPOKEN"
    scheme, _, rest = address.shown.partition("://")
    plain = scheme.replace("rediss", "redis")
    url = f"{plain.replace('redis', 'rediss') if encrypted else plain}://{rest}"
    return error(condition, address=address.shown, url=url)


def _url(address: Address, kind: str) -> str:
    """Return a URL with the address's hosts, without a password. `kind`: "+cluster", or empty for one server."""
    scheme = "rediss" if address.encrypted else "redis"
    hosts = ",".join(map(str, address.endpoints)) if kind else str(address.endpoints[0])
    return f"{scheme}{kind}://{hosts}"
