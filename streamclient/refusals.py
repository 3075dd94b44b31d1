"""Conversion of a server's error replies to conditions with advice.

This module depends on the texts of servers' replies. `streamclient.retry` decides which replies are retried.
"""

from __future__ import annotations

from typing import Any

from streamclient.commands import ENGINE_RULES
from streamclient.config.address import Address
from streamclient.errors import PystreamsError, ResponseError, error
from streamclient.retry import Refusal, is_forbidden, reason_of, refusal_of

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
