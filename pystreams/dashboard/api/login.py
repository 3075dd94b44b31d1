"""Logins, as a user of the server or with the dashboard's token, and the data that a page needs at the start."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from pystreams import measures
from pystreams.dashboard.api.reading import AUTOMATIC, Decoders
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.security.masks import NOTHING, Masks
from pystreams.dashboard.security.sessions import Session, Sessions, same
from streamclient.config.address import Address
from streamclient.connection import BROKEN, Connection
from streamclient.errors import PystreamsError

_RETRY_MS = 1500  # time for which connecting is tried
_ANSWER_SECONDS = 10.0  # timeout of a reply
TOKEN_USER = "token"  # noqa: S105 - a user name, not a secret


@dataclass(frozen=True)
class Rules:
    """Rules for logins. `open_here`: whether a user whose password the server does not check may log in."""

    address: Address
    token: str
    changes: bool
    open_here: bool
    #: Name of the server's profile; empty if the server has no profile.
    name: str = ""
    masks: Masks = NOTHING
    decoders: Decoders = AUTOMATIC
    audit: Audit | None = None

    @property
    def shown(self) -> str:
        """The name of the server in lists and in the audit log."""
        return self.name or self.address.shown


class RefusedError(Exception):
    """A refused login. `status`: HTTP status."""

    def __init__(self, status: int, condition: str, message: str) -> None:
        super().__init__(message)
        self.status, self.condition = status, condition


def check_token(rules: Rules, sessions: Sessions, host: str, token: str) -> bool:
    """Return whether this is the dashboard's token. The right token is accepted even after many failures.

    Raises RefusedError for a wrong token after too many failures from `host`, the client's address.
    """
    if same(token, rules.token):
        return True
    if not sessions.may_try(host, TOKEN_USER):
        raise _too_many()
    return False


def by_token(rules: Rules, sessions: Sessions, host: str, token: str) -> tuple[str, Session]:
    """Return a session of the dashboard's own user. `host`: the client's address."""
    if not check_token(rules, sessions, host, token):
        raise RefusedError(
            403, "LOGIN_REFUSED", "The token is wrong. 'pystreams ui' prints the right token when it starts."
        )
    return sessions.start(rules.address, TOKEN_USER, whole=True)


def by_password(rules: Rules, sessions: Sessions, host: str, user: str, password: str) -> tuple[str, Session]:
    """Return a session of a user of the server.

    Raises RefusedError, and errors of the connection. Failures are counted per user and client address (`host`), so
    other users and addresses are not locked out.
    """
    if not sessions.may_try(host, user):
        raise _too_many()
    address = _address(rules.address, user, password)
    try:
        let_in = _may(address)
    except BaseException:
        sessions.succeeded(host, user)  # not a failed login: the server did not check the password
        raise
    if not let_in:
        raise RefusedError(403, "LOGIN_REFUSED", "The server refuses this user and password.")
    if not rules.open_here and _needs_no_password(rules.address, user):
        message = (
            "The server accepts any password for this user, so the password proves nothing. Log in with the token."
        )
        raise RefusedError(403, "PASSWORD_PROVES_NOTHING", message)
    sessions.succeeded(host, user)
    dashboard_user = rules.address.login.username or "default"
    return sessions.start(address, user or "default", whole=(user or "default") == dashboard_user)


def _too_many() -> RefusedError:
    return RefusedError(429, "TOO_MANY_LOGINS", "Too many logins have failed. Try again in a minute.")


def _address(address: Address, user: str, password: str) -> Address:
    given = replace(address.credentials, username=user or None, password=password or None)
    return replace(
        address, url=_without_login(address.url), credentials=given, retry_ms=_RETRY_MS, answer_seconds=_ANSWER_SECONDS
    )


def _without_login(url: str) -> str:
    """Return the URL without user and password."""
    parts = urlsplit(url)
    query = urlencode([(key, value) for key, value in parse_qsl(parts.query) if key not in ("username", "password")])
    return SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, "").geturl()


def _may(address: Address) -> bool:
    """Return whether the server accepts the user and password. Raises NOT_PERMITTED for a user who may not ECHO."""
    try:
        connection = Connection(address)
    except PystreamsError as failure:
        if failure.condition == "LOGIN_REFUSED":
            return False
        raise
    try:
        reply = connection.pipeline([("PING",)])[0]
        return not str(reply).startswith("NOAUTH")
    except BROKEN as cause:
        raise connection.unreachable(cause) from cause
    finally:
        connection.close()


def _needs_no_password(address: Address, user: str) -> bool:
    """Return whether the server accepts this user with a random password."""
    return _may(_address(address, user or "default", secrets.token_urlsafe(24)))


def facts(rules: Rules, session: Session | None) -> dict[str, Any]:
    """Return the data that a page needs at the start."""
    if session is None:
        return {"session": None, "server": rules.address.shown}
    return {
        "session": {"user": session.user, "csrf": session.csrf, "whole": session.whole},
        "server": rules.address.shown,
        "name": rules.name,
        "changes": rules.changes and session.operator,
        "operator": session.operator,
        "audit": rules.audit is not None,
        "masked": bool(rules.masks),
        "columns": {kind: measures.columns(view) for kind, view in measures.IN_BROWSER.items()},
    }
