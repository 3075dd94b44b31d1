"""Sessions: for each login, the user, the server's address with the user's password, and the secrets of the session.

A session's commands run as the Redis user who logged in or, after a login by token, as the dashboard's own user.
The browser stores only a random number in a cookie. Passwords are kept only in memory, until the session ends.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from streamclient.config.address import Address

IDLE_SECONDS = 8 * 3600
LONGEST_SECONDS = 7 * 24 * 3600
MOST_SESSIONS = 500
_FAILURES = 8  # maximum number of failed logins of one user from one address
_FAILURES_OF_ADDRESS = 100  # maximum number of failed logins of all users from one address
_FAILURES_SECONDS = 60.0  # period within which failed logins are counted
_MOST_FAILURES = 20_000  # maximum number of failed logins that are counted, of all users and addresses
_MOST_PLANS, _PLAN_SECONDS = 20, 600.0  # maximum number of a session's unconfirmed changes, and maximum age of each


@dataclass
class Planned:
    """A change that was shown and awaits confirmation. `record`: ID in the audit log; empty until the change starts."""

    action: str
    given: dict[str, Any]
    fixed: dict[str, Any]
    at: float
    #: Attributes for the audit log: the sentence that was shown, and values before and after.
    facts: dict[str, Any] = field(default_factory=dict)
    record: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for carrying out the change."""
        return self.given | self.fixed


@dataclass
class Session:
    """A login. `whole`: whether the session may see all streams that the dashboard's own user may see.

    `csrf`: token required with every change, in a header that other sites cannot send. Times are on the clock of
    `Sessions`.
    """

    address: Address = field(repr=False)
    user: str
    whole: bool
    began: float
    used: float
    #: Whether the user may make changes, if the dashboard allows changes.
    operator: bool = True
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    plans: OrderedDict[str, Planned] = field(default_factory=OrderedDict, repr=False)

    def propose(
        self,
        action: str,
        given: Mapping[str, Any],
        fixed: Mapping[str, Any],
        now: float,
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Store a change that is shown to the user. Returns the number that confirms it within ten minutes.

        `given`: parameters of the request; `fixed`: parameters resolved by the plan, which are used to carry it out;
        `facts`: attributes for the audit log.
        """
        number = secrets.token_urlsafe(16)
        self.plans[number] = Planned(action, dict(given), dict(fixed), now, dict(facts))
        while len(self.plans) > _MOST_PLANS:
            self.plans.popitem(last=False)
        return number

    def confirmed(self, number: str, action: str, given: Mapping[str, Any], now: float) -> Planned | None:
        """Return the plan that was shown with this number.

        Returns None if the number is unknown, belongs to a change with another action or other parameters, or belongs
        to a plan older than ten minutes.
        """
        plan = self.plans.get(number)
        if plan is None or (plan.action, plan.given) != (action, dict(given)) or now - plan.at > _PLAN_SECONDS:
            return None
        return plan

    def carried_out(self, number: str) -> None:
        """Invalidate the number of a change that was carried out."""
        self.plans.pop(number, None)


class Sessions:
    """All sessions, and the counts of failed logins. `clock` returns seconds; `ended` is called when a session ends."""

    def __init__(self, clock: Callable[[], float], ended: Callable[[Session], None] = lambda _: None) -> None:
        self._clock = clock
        self._ended = ended
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._failures: deque[tuple[float, str, str]] = deque(maxlen=_MOST_FAILURES)
        self._lock = threading.Lock()

    def start(self, address: Address, user: str, *, whole: bool, operator: bool = True) -> tuple[str, Session]:
        """Start a session. Returns the number for its cookie, and the session."""
        now = self._clock()
        session = Session(address, user, whole, now, now, operator)
        number = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[_hidden(number)] = session
            evicted = [self._sessions.popitem(last=False)[1] for _ in range(len(self._sessions) - MOST_SESSIONS)]
        for each in evicted:
            self._ended(each)
        return number, session

    def find(self, number: str) -> Session | None:
        """Return the session with the number in a cookie; None if it has ended."""
        now = self._clock()
        with self._lock:
            session = self._sessions.get(_hidden(number))
            if session is None:
                return None
            if now - session.used <= IDLE_SECONDS and now - session.began <= LONGEST_SECONDS:
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
            self._ended(session)

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
