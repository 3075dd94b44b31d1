"""A user: its passwords, and selectors, each one set of permissions for commands, keys (read and write) and channels.

A user has a root selector, and another selector for each ``(...)`` in the rules. A command is allowed if one of the
selectors allows the command with all its keys and channels. Logins and refusals are handled by
``engine.core.clients.accounts``.

Rules are applied one at a time, in the form of ACL SETUSER and ACL files. An invalid rule raises ``RuleError``.
The check finds a command's keys by its declaration in the command table. If the declaration is wrong, so is the check.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from engine.core.table.registry import Command, all_commands, find
from engine.core.table.unsupported import family_of
from engine.text import messages
from engine.text.globs import matches

#: All categories, in the order of ACL CAT.
CATEGORIES = (
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
)
READ, WRITE = 1, 2
_SPACE = re.compile(rb"[ \t\n\v\f\r\0]")
_PREFIXES = {READ: b"%R~", WRITE: b"%W~", READ | WRITE: b"~"}


class RuleError(ValueError):
    """An invalid rule; the text is the reason."""

    def __init__(self, reason: bytes) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal of a command. ``reason``: what is denied ("command", "key" or "channel"). ``name``: its name."""

    reason: str
    name: bytes
    #: How far the check got: 1 command, 2 keys, 3 channels; then the index of the key or channel. If several selectors
    #: refuse, the refusal with the highest rank is reported.
    rank: tuple[int, int] = (0, 0)


def in_category(name: str) -> list[Command]:
    """Return the commands of a category. Containers are included only if they belong to it themselves."""
    return [command for command in all_commands() if name in command.categories()]


class Selector:
    """One set of permissions."""

    __slots__ = (
        "all_channels",
        "all_commands",
        "all_keys",
        "allowed",
        "channels",
        "patterns",
        "rules",
    )

    def __init__(self) -> None:
        #: Whether all commands are allowed, including those of later versions: ``+@all`` without exceptions.
        self.all_commands = False
        #: The full names of the allowed commands.
        self.allowed: set[bytes] = set()
        #: The rules about commands in display order, ``@all`` first: name -> whether it is allowed.
        self.rules: dict[bytes, bool] = {b"@all": False}
        self.all_keys = False
        #: Patterns of keys with READ, WRITE or both.
        self.patterns: dict[bytes, int] = {}
        self.all_channels = False
        self.channels: dict[bytes, None] = {}

    @property
    def allows_all(self) -> bool:
        """Whether the selector has no restrictions."""
        return self.all_commands and self.all_keys and self.all_channels

    # -- rules ------------------------------------------------------------------------------------------------------

    def apply(self, rule: bytes) -> None:
        """Apply one rule. Raise RuleError if it is invalid."""
        match rule.lower():
            case b"allkeys" | b"~*":
                self.all_keys = True
                self.patterns.clear()
            case b"resetkeys":
                self.all_keys = False
                self.patterns.clear()
            case b"allchannels" | b"&*":
                self.all_channels = True
                self.channels.clear()
            case b"resetchannels":
                self.all_channels = False
                self.channels.clear()
            case b"allcommands" | b"+@all":
                self._apply_everything(True)
            case b"nocommands" | b"-@all":
                self._apply_everything(False)
            case _:
                self._apply_pattern(rule)

    def _apply_pattern(self, rule: bytes) -> None:
        first = rule[:1]
        if first in (b"~", b"%"):
            self._apply_keys(rule)
        elif first == b"&":
            if self.all_channels:
                raise RuleError(messages.AFTER_ALL_CHANNELS)
            if _SPACE.search(rule):
                raise RuleError(messages.ACL_SYNTAX)
            self.channels[rule[1:]] = None
        elif rule[:2] in (b"+@", b"-@"):
            self._apply_category(rule)
        elif first in (b"+", b"-"):
            self._apply_command(rule)
        else:
            raise RuleError(messages.ACL_SYNTAX)

    def _apply_keys(self, rule: bytes) -> None:
        if self.all_keys:
            raise RuleError(messages.AFTER_ALL_KEYS)
        access, pattern = READ | WRITE, rule[1:]
        if rule[:1] == b"%":
            access, pattern = _key_access(rule)
        if _SPACE.search(pattern):
            raise RuleError(messages.ACL_SYNTAX)
        if pattern == b"*" and access == READ | WRITE:
            self.all_keys = True
            self.patterns.clear()
        else:
            self.patterns[pattern] = self.patterns.get(pattern, 0) | access

    def _apply_everything(self, allowed: bool) -> None:
        self.all_commands = allowed
        self.allowed = {command.full_name for command in all_commands()} if allowed else set()
        self.rules = {b"@all": allowed}

    def _apply_category(self, rule: bytes) -> None:
        name = rule[2:].decode("latin-1").lower()
        if name not in CATEGORIES:
            raise RuleError(messages.UNKNOWN)
        for command in in_category(name):
            self._allow(command, rule[:1] == b"+")
        self._show(rule)

    def _apply_command(self, rule: bytes) -> None:
        name, allowed = rule[1:], rule[:1] == b"+"
        found = find(name)
        if found is not None:
            for command in (found, *found.subcommands.values()):
                self._allow(command, allowed)
        elif not _is_foreign(name):
            # Other rules have no effect, so that users and files written for Redis can be loaded.
            raise RuleError(messages.UNKNOWN)
        self._show(rule)

    def _allow(self, command: Command, allowed: bool) -> None:
        if allowed:
            self.allowed.add(command.full_name)
        else:
            self.allowed.discard(command.full_name)

    def _show(self, rule: bytes) -> None:
        """Record a rule about a command or category for display, and update ``all_commands``.

        The rule replaces earlier rules about the same command, its subcommands, or the same category.
        """
        name, allowed = rule[1:].lower(), rule[:1] == b"+"
        if b"|" not in name:
            for old in [old for old in self.rules if old.startswith(name + b"|")]:
                del self.rules[old]
        self.rules.pop(name, None)
        self.rules[name] = allowed
        self.all_commands = allowed and (self.all_commands or all(self.rules.values()))

    # -- display ----------------------------------------------------------------------------------------------------

    def shown_keys(self) -> bytes:
        """Return the rules about keys."""
        if self.all_keys:
            return b"~*"
        return b" ".join(_PREFIXES[access] + pattern for pattern, access in self.patterns.items())

    def shown_channels(self) -> bytes:
        """Return the rules about channels."""
        return b"&*" if self.all_channels else b" ".join(b"&" + channel for channel in self.channels)

    def shown_commands(self) -> bytes:
        """Return the rules about commands."""
        return b" ".join((b"+" if allowed else b"-") + name for name, allowed in self.rules.items())

    def line(self) -> bytes:
        """Return all rules in the form of ACL LIST."""
        reset = b"" if self.all_channels else b"resetchannels"
        words = (self.shown_keys(), reset, self.shown_channels(), self.shown_commands())
        return b" ".join(word for word in words if word)

    # -- checking ---------------------------------------------------------------------------------------------------

    def denial(self, command: Command, argv: list[bytes]) -> Denial | None:
        """Return the reason for refusing ``argv``, None if it is allowed."""
        if not (self.all_commands or self._may_call(command)):
            return Denial("command", command.full_name, (1, 0))
        if not self.all_keys:
            for number, (key, use) in enumerate(command.touched(argv)):
                if not self._may_touch(key, use.reads, use.writes):
                    return Denial("key", key, (2, number))
        if command.channels is not None and not self.all_channels:
            for number, channel in enumerate(command.channels.of(argv)):
                if not self.may_use(channel, command.channels.patterns):
                    return Denial("channel", channel, (3, number))
        return None

    def _may_call(self, command: Command) -> bool:
        return command.full_name in self.allowed or "no_auth" in command.flags

    def _may_touch(self, key: bytes, reads: bool, writes: bool) -> bool:
        needed = (READ if reads else 0) | (WRITE if writes else 0)
        return any(access & needed == needed and matches(pattern, key) for pattern, access in self.patterns.items())

    def may_use(self, channel: bytes, is_pattern: bool) -> bool:
        """Return whether a channel or pattern may be used. For a pattern, a rule must contain the same pattern."""
        if self.all_channels or (is_pattern and channel in self.channels):
            return True
        return not is_pattern and any(matches(allowed, channel) for allowed in self.channels)


def _is_foreign(name: bytes) -> bool:
    """Return whether a rule may name this command of Redis or subcommand, although the command table lacks it.

    The tables of commands have CLUSTER and containers that are left out without their subcommands.
    """
    container, bar, word = name.partition(b"|")
    if family_of(name) is not None:
        return True
    return bool(bar and word) and b"|" not in word and (container == b"cluster" or family_of(container) is not None)


def _key_access(rule: bytes) -> tuple[int, bytes]:
    """Parse ``%RW~pattern``: return the access (READ, WRITE or both) and the pattern."""
    letters = rule[1 : rule.find(b"~")] if b"~" in rule else rule[1:]
    pattern = rule[len(letters) + 2 :]
    access = 0
    for letter in letters.upper():
        bit = {ord("R"): READ, ord("W"): WRITE}.get(letter, 0)
        if not bit or access & bit:
            raise RuleError(messages.ACL_SYNTAX)
        access |= bit
    if not access:
        raise RuleError(messages.ACL_SYNTAX)
    return access, pattern


_HASH = re.compile(rb"[0-9a-f]{64}")


class User:
    """A user. ``free``: whether the user has no restrictions, so that no check is needed."""

    __slots__ = ("enabled", "free", "name", "nopass", "passwords", "sanitize", "selectors")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.enabled = False
        self.nopass = False
        #: SHA-256 digests in hexadecimal, in the order in which they were added.
        self.passwords: dict[bytes, None] = {}
        self.sanitize = True
        #: The root selector, then the selectors in parentheses.
        self.selectors = [Selector()]
        self.free = False

    @classmethod
    def all_powerful(cls, name: bytes) -> User:
        """Create a user with all permissions and no password."""
        user = cls(name)
        for rule in (b"on", b"nopass", b"~*", b"&*", b"+@all"):
            user.apply(rule)
        return user

    def become(self, other: User) -> None:
        """Replace this user's rules with those of ``other``."""
        for name in self.__slots__:
            if name != "name":
                setattr(self, name, getattr(other, name))

    # -- rules ------------------------------------------------------------------------------------------------------

    def apply(self, rule: bytes) -> None:
        """Apply one rule, which can be a whole selector in parentheses."""
        self._apply(rule)
        self.free = self.selectors[0].allows_all

    def _apply(self, rule: bytes) -> None:
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
                self.become(User(self.name))
            case _ if rule[:1] in (b">", b"#"):
                self.passwords[_hashed(rule)] = None
                self.nopass = False
            case _ if rule[:1] in (b"<", b"!"):
                if self.passwords.pop(_hashed(rule), self) is self:
                    raise RuleError(b"The password you are trying to remove from the user does not exist")
            case _ if rule[:1] == b"(" and rule[-1:] == b")":
                selector = Selector()
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

    Return the rules, and the first word of a selector without a closing parenthesis, or None.
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
