"""Kinds of directive values: each parses and checks words, and returns a value as CONFIG GET shows it.

Values are parsed once, when they are set, and stored in the type that their kind's docstring names. Errors have Redis's
messages. CONFIG SET and errors at startup quote these messages. The last kinds are for one directive each: keyspace
events, save points, output limits, a master, and others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from engine.text import messages

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1
_INTEGERS = range(-I64_MAX - 1, I64_MAX + 1)


class ConfigError(ValueError):
    """A directive or value is rejected, or cannot be applied; the text is the reason."""


class Kind(Protocol):
    """A kind of value."""

    @property
    def several_words(self) -> bool:
        """Whether a value may consist of more than one word."""

    def parse(self, words: Sequence[bytes], before: Any) -> Any:
        """Return the value of ``words``. ``before``: the value in force. Raises ConfigError."""

    def text(self, value: Any) -> bytes:
        """Return the value as CONFIG GET shows it."""


class OneWord:
    """Base of kinds whose values are one word, stored as a number or as bytes. They implement ``parse_word``."""

    several_words = False

    def parse(self, words: Sequence[bytes], before: Any) -> Any:
        """See ``Kind``."""
        del before
        if len(words) != 1:
            raise ConfigError(messages.WRONG_NUMBER)
        return self.parse_word(words[0])

    def parse_word(self, word: bytes) -> Any:
        """Return the value of ``word``. Raises ConfigError."""
        raise NotImplementedError

    def text(self, value: Any) -> bytes:
        """See ``Kind``."""
        return value if isinstance(value, bytes) else b"%d" % value


# -- numbers ----------------------------------------------------------------------------------------------------------


def parse_integer(word: bytes) -> int:
    """Return a decimal number. Raises ConfigError for any other text."""
    if not re.fullmatch(rb"-?(0|[1-9][0-9]{0,19})", word) or word == b"-0" or int(word) not in _INTEGERS:
        raise ConfigError("argument couldn't be parsed into an integer")
    return int(word)


def check_range(value: int, low: int, high: int) -> int:
    """Return the value if it is between these limits. Raises ConfigError otherwise."""
    if not low <= value <= high:
        raise ConfigError(messages.not_between(low, high))
    return value


@dataclass(frozen=True, slots=True)
class Integer(OneWord):
    """A decimal number: int."""

    low: int
    high: int

    def parse_word(self, word: bytes) -> int:
        """See ``OneWord``."""
        return check_range(parse_integer(word), self.low, self.high)


_UNITS = {b"": 1, b"b": 1, b"k": 1000, b"kb": 1 << 10, b"m": 10**6, b"mb": 1 << 20, b"g": 10**9, b"gb": 1 << 30}


def parse_memory(word: bytes) -> int:
    """Return a size in bytes, given as digits and an optional unit (``k`` is 1000, ``kb`` 1024).

    As in Redis, an empty word is 0.
    """
    if not word:
        return 0
    found = re.fullmatch(rb"([0-9]{1,127})([a-zA-Z]*)", word)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ConfigError("argument must be a memory value")
    return int(found.group(1)) * unit


@dataclass(frozen=True, slots=True)
class Memory(OneWord):
    """A size in bytes: int."""

    low: int

    def parse_word(self, word: bytes) -> int:
        """See ``OneWord``."""
        return check_range(parse_memory(word), self.low, I64_MAX)


@dataclass(frozen=True, slots=True)
class Octal(OneWord):
    """An octal number, such as a file's permissions: int."""

    high: int

    def parse_word(self, word: bytes) -> int:
        """See ``OneWord``."""
        if not re.fullmatch(rb"-?[0-7]{1,20}", word):
            raise ConfigError("argument couldn't be parsed as an octal number")
        value = int(word, 8)
        if not 0 <= value <= self.high:
            raise ConfigError(messages.not_between(0, f"{self.high:o}"))
        return value

    def text(self, value: int) -> bytes:
        """See ``Kind``."""
        return b"%o" % value


# -- words ------------------------------------------------------------------------------------------------------------


class YesNo(OneWord):
    """yes or no: bool."""

    def parse_word(self, word: bytes) -> bool:
        """See ``OneWord``."""
        if word.lower() not in (b"yes", b"no"):
            raise ConfigError("argument must be 'yes' or 'no'")
        return word.lower() == b"yes"

    def text(self, value: bool) -> bytes:
        """See ``Kind``."""
        return b"yes" if value else b"no"


@dataclass(frozen=True, slots=True)
class Choice(OneWord):
    """One of ``choices``, in any case: bytes, spelled as in ``choices``."""

    choices: tuple[str, ...]

    def parse_word(self, word: bytes) -> bytes:
        """See ``OneWord``."""
        for choice in self.choices:
            if choice.lower().encode() == word.lower():
                return choice.encode()
        raise ConfigError("argument(s) must be one of the following: " + ", ".join(self.choices))


@dataclass(frozen=True, slots=True)
class Text(OneWord):
    """Any text that ``check`` accepts: bytes."""

    check: Callable[[bytes], None] | None = None

    def parse_word(self, word: bytes) -> bytes:
        """See ``OneWord``."""
        if self.check is not None:
            self.check(word)
        return word


def file_name(directive: str, kind: str) -> Callable[[bytes], None]:
    """Return a check for ``Text`` that rejects a path. ``kind``: "filename" or "dirname", for the error."""

    def check(word: bytes) -> None:
        if b"/" in word or b"\\" in word or word in (b"", b".", b".."):
            raise ConfigError(f"{directive} can't be a path, just a {kind}")

    return check


class Words:
    """Several words: a tuple of bytes."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[bytes, ...]:
        """See ``Kind``."""
        del before
        return tuple(filter(None, words))

    def text(self, value: tuple[bytes, ...]) -> bytes:
        """See ``Kind``."""
        return b" ".join(value)


#: Letters of notify-keyspace-events that ``A`` includes, in the order in which Redis shows them.
EVENT_CLASSES = "g$lshzxetd"


@dataclass(frozen=True, slots=True)
class Events:
    """Value of notify-keyspace-events: the letters in force, with ``A`` expanded, and the text that CONFIG GET shows.

    As in Redis, the text omits ``n`` next to ``A``, even if it is in force.
    """

    letters: frozenset[str]
    shown: bytes


class EventLetters(OneWord):
    """The kind of notify-keyspace-events: ``Events``."""

    def parse_word(self, word: bytes) -> Events:
        """See ``OneWord``."""
        given = word.decode("latin-1")
        if set(given) - set("Ag$lshzxeKEtmdn"):
            raise ConfigError("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
        chosen = set(given) | (set(EVENT_CLASSES) if "A" in given else set())
        if set(EVENT_CLASSES) <= chosen:
            shown = "A"
        else:
            shown = "".join(letter for letter in f"{EVENT_CLASSES}n" if letter in chosen)
        shown += "".join(letter for letter in "KEm" if letter in chosen)
        return Events(frozenset(chosen - {"A"}), shown.encode())

    def text(self, value: Events) -> bytes:
        """See ``Kind``."""
        return value.shown


#: A number with at least this many digits is rejected, because Python rejects numbers of thousands of digits.
_DIGITS = 128


class SavePoint(NamedTuple):
    """A snapshot is due after ``seconds`` if there were at least ``changes`` changes."""

    seconds: int
    changes: int


class SavePoints:
    """The kind of save: a tuple of ``SavePoint``."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[SavePoint, ...]:
        """See ``Kind``."""
        del before
        if list(words) == [b""]:
            return ()
        if len(words) % 2 or not all(word.isdigit() and len(word) < _DIGITS for word in words):
            raise ConfigError(messages.SAVE_POINTS)
        points = tuple(SavePoint(int(words[at]), int(words[at + 1])) for at in range(0, len(words), 2))
        if not all(point.seconds for point in points):
            raise ConfigError(messages.SAVE_POINTS)
        return points

    def text(self, value: tuple[SavePoint, ...]) -> bytes:
        """See ``Kind``."""
        return b" ".join(b"%d %d" % point for point in value)


class OutputLimit(NamedTuple):
    """Limits of a client's unread bytes. A limit of 0 means no limit.

    A client is disconnected when it reaches ``hard``, or after ``seconds`` at ``soft`` or above.
    """

    hard: int
    soft: int
    seconds: int


#: The classes of clients in client-output-buffer-limit, in Redis's order.
CLIENT_CLASSES = (b"normal", b"slave", b"pubsub")


class OutputLimits:
    """The kind of client-output-buffer-limit: a dictionary from class of clients to ``OutputLimit``.

    Classes that are not named keep their limits.
    """

    several_words = True

    def parse(self, words: Sequence[bytes], before: dict[bytes, OutputLimit]) -> dict[bytes, OutputLimit]:
        """See ``Kind``."""
        limits = dict(before)
        if len(words) % 4:
            raise ConfigError("Wrong number of arguments in buffer limit configuration.")
        for at in range(0, len(words), 4):
            name = b"slave" if words[at].lower() == b"replica" else words[at].lower()
            if name not in CLIENT_CLASSES:
                raise ConfigError("Invalid client class specified in buffer limit configuration.")
            if not words[at + 3].removeprefix(b"+").isdigit():
                raise ConfigError(messages.LIMIT_VALUES)
            try:
                hard, soft = map(parse_memory, words[at + 1 : at + 3])
                limits[name] = OutputLimit(hard, soft, int(words[at + 3]))
            except ValueError:
                raise ConfigError(messages.LIMIT_VALUES) from None
        return limits

    def text(self, value: dict[bytes, OutputLimit]) -> bytes:
        """See ``Kind``."""
        return b" ".join(b"%b %d %d %d" % (name, *value[name]) for name in CLIENT_CLASSES)


class Master(Words):
    """The address of a master: a tuple of host and port, as bytes. It is empty for no words, or for ``no one``."""

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[bytes, ...]:
        """See ``Kind``."""
        del before
        host, *port = [word for word in words if word] or [b"no", b"one"]
        if len(port) != 1:
            raise ConfigError(messages.WRONG_NUMBER)
        if (host.lower(), port[0].lower()) == (b"no", b"one"):
            return ()
        if not port[0].isdigit() or not 0 <= int(port[0][:20]) <= 65535:
            raise ConfigError("Invalid master port")
        return host, port[0]
