"""Logins, as a user of the server or with the dashboard's token, and the sessions that they start.

The commands of a session run as the Redis user who logged in or, after a login by token, as the dashboard's own user.
The browser stores only a random number in a cookie. Passwords are kept only in memory, until the session ends.

A session has a few connections as its own user, which are lent to the threads that answer requests. If a session may
see less than the dashboard's own user, each name on a page is checked at the server. The results are cached for half a
minute.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from pystreams import measures
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.reading import AUTOMATIC, NOTHING, Decoders, Masks
from streamclient.config.address import Address
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError, ResponseError, error

IDLE_SECONDS = 8 * 3600
LONGEST_SECONDS = 7 * 24 * 3600
MOST_SESSIONS = 500
_FAILURES = 8  # maximum number of failed logins of one user from one address
_FAILURES_OF_ADDRESS = 100  # maximum number of failed logins of all users from one address
_FAILURES_SECONDS = 60.0  # period within which failed logins are counted
_MOST_FAILURES = 20_000  # maximum number of failed logins that are counted, of all users and addresses
_MOST_PLANS, _PLAN_SECONDS = 20, 600.0  # maximum number of a session's unconfirmed changes, and maximum age of each


class Refusal(Exception):  # noqa: N818 - a response rather than a fault
    """A request that the dashboard refuses. `status`: HTTP status; `condition`: the ID of the error."""

    def __init__(self, status: int, condition: str, message: str) -> None:
        super().__init__(message)
        self.status, self.condition = status, condition


NOT_LOGGED_IN = 401, "NOT_LOGGED_IN", "Log in first."

_RETRY_MS = 1000  # time for which connecting is tried
_MOST_CONNECTIONS = 4  # maximum number of connections of a session
_PATIENCE = 10.0  # timeout in seconds for a free connection, and for a reply
_KNOWN_SECONDS = 30.0  # time for which the result of a check of a name is cached
_MOST_KNOWN = 20_000  # maximum number of cached results


class Access:
    """Access to the server for one session.

    `whole`: whether the session may see all streams that the dashboard's own user may see. `is_refused`: whether the
    server no longer accepts the user.
    """

    def __init__(self, address: Address, *, whole: bool) -> None:
        self._address = replace(address, retry_ms=_RETRY_MS, answer_seconds=_PATIENCE)
        self.whole, self.is_refused = whole, False
        self._idle: deque[Connection] = deque()
        self._permits = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._known: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection. It is closed after a failure, but not after an error reply."""
        if not self._permits.acquire(timeout=_PATIENCE):
            raise error("SERVER_UNREACHABLE", address=self._address.shown, reason="its replies take too long")
        try:
            connection = self._opened()
            try:
                yield connection
            except BROKEN as cause:
                connection.close()
                raise connection.unreachable(cause) from cause
            except PystreamsError as failure:
                if failure.condition in ("SERVER_UNREACHABLE", "CONNECTION_BROKEN"):
                    connection.close()
                else:
                    self._give_back(connection)
                raise
            except BaseException:
                connection.close()  # a reply may still be outstanding
                raise
            self._give_back(connection)
        finally:
            self._permits.release()

    def _opened(self) -> Connection:
        while (connection := self._pop_idle()) is not None:
            if connection.usable():
                return connection
            connection.close()
        try:
            return Connection(self._address)
        except PystreamsError as failure:
            self.is_refused = failure.condition == "LOGIN_REFUSED"
            if self.is_refused:
                raise Refusal(*NOT_LOGGED_IN) from failure
            raise

    def _pop_idle(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _give_back(self, connection: Connection) -> None:
        connection.mark_idle()
        self._idle.append(connection)
        if self._closed:
            # Another thread closed the access while the connection was lent, so it has not closed this connection.
            self.close()

    def close(self) -> None:
        """Close the idle connections. Lent connections are closed when they are returned."""
        self._closed = True
        while (connection := self._pop_idle()) is not None:
            connection.close()

    def visible(self, names: Sequence[bytes]) -> set[bytes]:
        """Return the names that the session's user may read."""
        if self.whole:
            return set(names)
        now = time.monotonic()
        asked = [
            name for name in dict.fromkeys(names) if now - self._known.get(name, (False, -1e9))[1] > _KNOWN_SECONDS
        ]
        if asked:
            commands: list[Command] = [("XLEN", name) for name in asked]
            with self.lend() as connection:
                replies = connection.pipeline(commands)
            for name, reply in zip(asked, replies, strict=True):
                refused = isinstance(reply, ResponseError) and str(reply).startswith("NOPERM")
                self._known[name] = (not refused, now)
                self._known.move_to_end(name)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return {name for name in names if self._known.get(name, (False, 0.0))[0]}


@dataclass
class Proposed:
    """A change that was shown and awaits confirmation. `given`: parameters of the request; `plan`: the planned change.

    `at`: time in seconds; `record`: ID in the audit log, empty until the change starts.
    """

    action: str
    given: dict[str, Any]
    plan: Any
    at: float
    record: str = ""


@dataclass
class Session:
    """A login. `csrf`: token required with every change, in a header that other sites cannot send.

    Times are on the clock of `Sessions`.
    """

    access: Access = field(repr=False)
    user: str
    began: float
    used: float
    #: Whether the user may make changes, if the dashboard allows changes.
    operator: bool = True
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    plans: OrderedDict[str, Proposed] = field(default_factory=OrderedDict, repr=False)

    @property
    def whole(self) -> bool:
        """Whether the session may see all streams that the dashboard's own user may see."""
        return self.access.whole

    def propose(self, proposed: Proposed) -> str:
        """Store a change that is shown to the user. Returns the number that confirms it within ten minutes."""
        number = secrets.token_urlsafe(16)
        self.plans[number] = proposed
        while len(self.plans) > _MOST_PLANS:
            self.plans.popitem(last=False)
        return number

    def confirmed(self, number: str, action: str, given: Mapping[str, Any], now: float) -> Proposed | None:
        """Return the change that was shown with this number.

        Returns None if the number is unknown, belongs to a change with another action or other parameters, or belongs
        to a plan older than ten minutes.
        """
        found = self.plans.get(number)
        if found is None or (found.action, found.given) != (action, dict(given)) or now - found.at > _PLAN_SECONDS:
            return None
        return found


class Sessions:
    """All sessions, and the counts of failed logins. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._failures: deque[tuple[float, str, str]] = deque(maxlen=_MOST_FAILURES)
        self._lock = threading.Lock()

    def start(self, address: Address, user: str, *, whole: bool, operator: bool = True) -> tuple[str, Session]:
        """Start a session. Returns the number for its cookie, and the session."""
        now = self._clock()
        session = Session(Access(address, whole=whole), user, now, now, operator)
        number = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[_hidden(number)] = session
            evicted = [self._sessions.popitem(last=False)[1] for _ in range(len(self._sessions) - MOST_SESSIONS)]
        for each in evicted:
            each.access.close()
        return number, session

    def find(self, number: str) -> Session | None:
        """Return the session with the number in a cookie; None if it has ended."""
        now = self._clock()
        with self._lock:
            session = self._sessions.get(_hidden(number))
            if session is None:
                return None
            if (
                not session.access.is_refused
                and now - session.used <= IDLE_SECONDS
                and now - session.began <= LONGEST_SECONDS
            ):
                session.used = now
                self._sessions.move_to_end(_hidden(number))
                return session
        self.end(number)
        return None

    def end(self, number: str) -> None:
        """End the session with the number in a cookie, if it exists."""
        with self._lock:
            session = self._sessions.pop(_hidden(number), None)
        if session is not None:
            session.access.close()

    def close(self) -> None:
        """Close the connections of all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.access.close()

    def may_try(self, address: str, user: str) -> bool:
        """Return whether this user may try to log in from this address; False after many failures within a minute.

        The attempt counts as a failure until `succeeded` is called, so concurrent attempts are limited too.
        """
        now = self._clock()
        with self._lock:
            while self._failures and now - self._failures[0][0] >= _FAILURES_SECONDS:
                self._failures.popleft()
            of_address = [each for _, host, each in self._failures if host == address]
            if of_address.count(user) >= _FAILURES or len(of_address) >= _FAILURES_OF_ADDRESS:
                return False
            self._failures.append((now, address, user))
            return True

    def succeeded(self, address: str, user: str) -> None:
        """Remove the last failure of this user from this address, since the login succeeded or was not checked."""
        with self._lock:
            last = next((failure for failure in reversed(self._failures) if failure[1:] == (address, user)), None)
            if last is not None:
                self._failures.remove(last)


def _hidden(number: str) -> str:
    """Return the key under which a number is stored.

    The key is a hash, so that lookup times reveal nothing about numbers.
    """
    return hashlib.sha256(number.encode()).hexdigest()


def same(given: str, wanted: str) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


TOKEN_USER = "token"  # noqa: S105 - a user name, not a secret


@dataclass(frozen=True)
class Rules:
    """Rules for logins. `open_here`: whether a user whose password the server does not check may log in."""

    address: Address
    token: str
    changes: bool
    open_here: bool
    masks: Masks = NOTHING
    decoders: Decoders = AUTOMATIC
    audit: Audit | None = None


def by_token(rules: Rules, sessions: Sessions, host: str, token: str) -> tuple[str, Session]:
    """Return a session of the dashboard's own user. `host`: the client's address.

    The right token is accepted even after many failures.
    """
    if same(token, rules.token):
        return sessions.start(rules.address, TOKEN_USER, whole=True)
    if not sessions.may_try(host, TOKEN_USER):
        raise _too_many()
    raise Refusal(403, "LOGIN_REFUSED", "The token is wrong. 'pystreams ui' prints the right token when it starts.")


def by_password(rules: Rules, sessions: Sessions, host: str, user: str, password: str) -> tuple[str, Session]:
    """Return a session of a user of the server.

    Raises Refusal, and errors of the connection. Failures are counted per user and client address (`host`), so
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
        raise Refusal(403, "LOGIN_REFUSED", "The server refuses this user and password.")
    if not rules.open_here and _needs_no_password(rules.address, user):
        message = (
            "The server accepts any password for this user, so the password proves nothing. Log in with the token."
        )
        raise Refusal(403, "PASSWORD_PROVES_NOTHING", message)
    sessions.succeeded(host, user)
    dashboard_user = rules.address.login.username or "default"
    return sessions.start(address, user or "default", whole=(user or "default") == dashboard_user)


def _too_many() -> Refusal:
    return Refusal(429, "TOO_MANY_LOGINS", "Too many logins have failed. Try again in a minute.")


def _address(address: Address, user: str, password: str) -> Address:
    given = replace(address.credentials, username=user or None, password=password or None)
    return replace(
        address, url=_without_login(address.url), credentials=given, retry_ms=_RETRY_MS, answer_seconds=_PATIENCE
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
        "changes": rules.changes and session.operator,
        "operator": session.operator,
        "audit": rules.audit is not None,
        "columns": {kind: measures.columns(view) for kind, view in measures.IN_BROWSER.items()},
    }
