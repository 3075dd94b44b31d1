"""Sessions: who is logged in, with which address of the server, and the secrets that belong to it.

A session's commands run as the server's user who logged in, or as the dashboard's own user after a login by token. The
browser keeps nothing but a random number in a cookie. Passwords are in memory alone, for as long as the session lives.
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
#: Failed logins within this period: as one user from one address, and as any users from one address.
_FAILURES, _FAILURES_OF_ADDRESS, _FAILURES_SECONDS = 8, 100, 60.0
_MOST_FAILURES = 20_000
_MOST_PLANS, _PLAN_SECONDS = 20, 600.0


@dataclass
class Planned:
    """A change that was shown and waits to be confirmed. `record`: its ID in the audit log once it has begun."""

    action: str
    given: dict[str, Any]
    fixed: dict[str, Any]
    at: float
    #: Its part of the audit log: the sentence that was shown, and values before and after.
    facts: dict[str, Any] = field(default_factory=dict)
    record: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters to carry out."""
        return self.given | self.fixed


@dataclass
class Session:
    """A login. `whole`: it sees what the dashboard's own user sees, so that no name has to be hidden from it.

    `csrf` goes with every change, in a header that no other site can send. Times are those of the `Sessions`' clock.
    """

    address: Address = field(repr=False)
    user: str
    whole: bool
    began: float
    used: float
    #: Whether its user may change anything, if the dashboard allows changes at all.
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
        """Remember a change that a person is shown. The number confirms it, for ten minutes.

        `given`: its parameters; `fixed`: their meaning when the plan was made, which also holds when it is carried out;
        `facts`: its part of the audit log.
        """
        number = secrets.token_urlsafe(16)
        self.plans[number] = Planned(action, dict(given), dict(fixed), now, dict(facts))
        while len(self.plans) > _MOST_PLANS:
            self.plans.popitem(last=False)
        return number

    def confirmed(self, number: str, action: str, given: Mapping[str, Any], now: float) -> Planned | None:
        """Return the plan to carry out; None unless exactly this change was shown under that number."""
        plan = self.plans.get(number)
        if plan is None or (plan.action, plan.given) != (action, dict(given)) or now - plan.at > _PLAN_SECONDS:
            return None
        return plan

    def carried_out(self, number: str) -> None:
        """The change was carried out: its number confirms nothing any more."""
        self.plans.pop(number, None)


class Sessions:
    """All sessions, and how often logging in has failed. `clock` returns seconds; `ended` is called at each end."""

    def __init__(self, clock: Callable[[], float], ended: Callable[[Session], None] = lambda _: None) -> None:
        self._clock = clock
        self._ended = ended
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._failures: deque[tuple[float, str, str]] = deque(maxlen=_MOST_FAILURES)
        self._lock = threading.Lock()

    def begin(self, address: Address, user: str, *, whole: bool, operator: bool = True) -> tuple[str, Session]:
        """Return a new session, with the number that its cookie holds."""
        now = self._clock()
        session = Session(address, user, whole, now, now, operator)
        number = secrets.token_urlsafe(32)
        with self._lock:
            self._kept[_hidden(number)] = session
            gone = [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - MOST_SESSIONS)]
        for each in gone:
            self._ended(each)
        return number, session

    def find(self, number: str) -> Session | None:
        """Return the session of a cookie; None if it has ended."""
        now = self._clock()
        with self._lock:
            session = self._kept.get(_hidden(number))
            if session is None:
                return None
            if now - session.used <= IDLE_SECONDS and now - session.began <= LONGEST_SECONDS:
                session.used = now
                self._kept.move_to_end(_hidden(number))
                return session
        self.end(number)
        return None

    def end(self, number: str) -> None:
        """End the session of a cookie, if there is one."""
        with self._lock:
            session = self._kept.pop(_hidden(number), None)
        if session is not None:
            self._ended(session)

    def may_try(self, address: str, user: str) -> bool:
        """Return whether this user may try to log in from this address: not after many failures within a minute.

        The attempt counts as a failure until `succeeded` is called, so that concurrent attempts count too.
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
        """Take back the last failure of this user from this address: the login succeeded, or was never judged."""
        with self._lock:
            last = next((one for one in reversed(self._failures) if one[1:] == (address, user)), None)
            if last is not None:
                self._failures.remove(last)


def _hidden(number: str) -> str:
    """Return the key of a number, so that the time of a look-up reveals nothing about valid numbers."""
    return hashlib.sha256(number.encode()).hexdigest()


def same(given: str, wanted: str) -> bool:
    """Return whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
