"""A user: its passwords, and selectors with its permissions.

A user has a root selector, and another selector for each ``(...)`` in the rules. A command is allowed if one of the
selectors allows the command with all its keys and channels. Logins and refusals are handled by
``engine.core.clients.accounts``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from engine.core.clients.acl.selector import Denial, RuleError, Selector
from engine.core.table.registry import Command
from engine.text import messages

_HASH = re.compile(rb"[0-9a-f]{64}")


class User:
    """A user. ``free``: whether the user has no restrictions, so that no check is needed."""

    __slots__ = ("enabled", "free", "name", "nopass", "passwords", "sanitize", "selectors")

    def __init__(self, name: bytes, all_channels: bool = False) -> None:
        self.name = name
        self.enabled = False
        self.nopass = False
        #: SHA-256 digests in hexadecimal, in the order in which they were added.
        self.passwords: dict[bytes, None] = {}
        self.sanitize = True
        #: The root selector, then the selectors in parentheses.
        self.selectors = [Selector(all_channels)]
        self.free = False

    @classmethod
    def all_powerful(cls, name: bytes) -> User:
        """Create a user with all permissions and no password."""
        user = cls(name)
        user.apply_all([b"on", b"nopass", b"~*", b"&*", b"+@all"], False)
        return user

    def copy(self) -> User:
        """Return an independent copy."""
        other = User(self.name)
        other.become(self)
        other.passwords = dict(self.passwords)
        other.selectors = [selector.copy() for selector in self.selectors]
        return other

    def become(self, other: User) -> None:
        """Replace this user's rules with those of ``other``."""
        for name in self.__slots__:
            if name != "name":
                setattr(self, name, getattr(other, name))

    # -- rules ------------------------------------------------------------------------------------------------------

    def apply_all(self, rules: Iterable[bytes], all_channels: bool) -> None:
        """Apply rules in order; ``all_channels`` is the default for new selectors and ``reset``."""
        for rule in rules:
            self.apply(rule, all_channels)

    def apply(self, rule: bytes, all_channels: bool) -> None:
        """Apply one rule, which can be a whole selector in parentheses."""
        self._apply(rule, all_channels)
        self.free = self.selectors[0].allows_all

    def _apply(self, rule: bytes, all_channels: bool) -> None:
        match rule.lower():
            case b"":
                pass
            case b"on":
                self.enabled = True
            case b"off":
                self.enabled = False
            case b"nopass":
                self.nopass = True
                self.passwords.clear()
            case b"resetpass":
                self.nopass = False
                self.passwords.clear()
            case b"sanitize-payload":
                self.sanitize = True
            case b"skip-sanitize-payload":
                self.sanitize = False
            case b"clearselectors":
                del self.selectors[1:]
            case b"reset":
                self.become(User(self.name, all_channels))
            case _ if rule[:1] in (b">", b"#"):
                self.passwords[_hashed(rule)] = None
                self.nopass = False
            case _ if rule[:1] in (b"<", b"!"):
                if self.passwords.pop(_hashed(rule), self) is self:
                    raise RuleError(messages.NO_SUCH_PASSWORD)
            case _ if rule[:1] == b"(" and rule[-1:] == b")":
                selector = Selector(all_channels)
                for inner in rule[1:-1].split():
                    selector.apply(inner)
                self.selectors.append(selector)
            case _:
                self.selectors[0].apply(rule)

    # -- display ----------------------------------------------------------------------------------------------------

    def flags(self) -> list[bytes]:
        """Return ``on`` or ``off``, ``nopass`` if no password is needed, and ``sanitize-payload`` or its opposite."""
        flags = [b"on" if self.enabled else b"off"]
        if self.nopass:
            flags.append(b"nopass")
        flags.append(b"sanitize-payload" if self.sanitize else b"skip-sanitize-payload")
        return flags

    def line(self) -> bytes:
        """Return the user's line in ACL LIST and in files: ``user name rules``."""
        root, *others = self.selectors
        words = [b"user", self.name, *self.flags(), *(b"#" + password for password in self.passwords), root.line()]
        return b" ".join([*words, *(b"(%b)" % other.line() for other in others)])

    # -- checking ---------------------------------------------------------------------------------------------------

    def knows(self, password: bytes) -> bool:
        """Return whether the user may log in with this password."""
        return self.enabled and (self.nopass or hashlib.sha256(password).hexdigest().encode() in self.passwords)

    def denial(self, command: Command, argv: list[bytes]) -> Denial | None:
        """Return the reason for refusing ``argv``; None if a selector allows it."""
        worst: Denial | None = None
        for selector in self.selectors:
            denial = selector.denial(command, argv)
            if denial is None:
                return None
            if worst is None or denial.rank > worst.rank:
                worst = denial
        return worst

    def may_read_all(self, command: Command, argv: list[bytes]) -> bool:
        """Return whether the user may call ``argv`` and also read every key."""
        return any(selector.may_read_all(command, argv) for selector in self.selectors)

    def may_subscribe(self, channels: Iterable[bytes], patterns: Iterable[bytes]) -> bool:
        """Return whether the user may subscribe to all of these channels and patterns."""
        return all(any(selector.may_use(name, False) for selector in self.selectors) for name in channels) and all(
            any(selector.may_use(name, True) for selector in self.selectors) for name in patterns
        )


def _hashed(rule: bytes) -> bytes:
    """Return the SHA-256 digest that a rule contains, or the digest of the password in the rule."""
    if rule[:1] in (b">", b"<"):
        return hashlib.sha256(rule[1:]).hexdigest().encode()
    if not _HASH.fullmatch(rule[1:]):
        raise RuleError(messages.PASSWORD_HASH)
    return rule[1:]


def merged(words: Iterable[bytes]) -> tuple[list[bytes], bytes | None]:
    """Join words into rules: the words of a selector in parentheses become one rule.

    Return the rules, and the first word of a selector without a closing parenthesis (None if there is none).
    """
    rules: list[bytes] = []
    open_at: bytes | None = None
    parts: list[bytes] = []
    for word in words:
        if open_at is None and word[:1] == b"(":
            open_at, parts = word, []
        if open_at is None:
            rules.append(word)
            continue
        parts.append(word)
        if word[-1:] == b")":
            rules.append(b" ".join(parts))
            open_at = None
    return rules, open_at
