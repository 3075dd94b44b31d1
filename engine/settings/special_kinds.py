"""Kinds of values for one directive each: keyspace events, save points, output limits, a master, and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.settings.kinds import ConfigError, Integer, OneWord, check_range, parse_integer, parse_memory
from engine.text import messages
from engine.text.longdouble import DECIMAL

#: Letters of notify-keyspace-events that ``A`` includes, in the order in which Redis shows them.
EVENT_CLASSES = "g$lshzxetd"


@dataclass(frozen=True, slots=True)
class Events:
    """Value of notify-keyspace-events: the letters in force, with ``A`` expanded, and the text that CONFIG GET shows.

    As in Redis, the text omits ``n``, ``o`` and ``c`` next to ``A``, even if they are in force.
    """

    letters: frozenset[str]
    shown: bytes


class EventLetters(OneWord):
    """The kind of notify-keyspace-events: ``Events``."""

    def parse_word(self, word: bytes) -> Events:
        """See ``OneWord``."""
        given = word.decode("latin-1")
        if set(given) - set("Ag$lshzxeKEtmdnoc"):
            raise ConfigError(messages.EVENT_LETTERS)
        chosen = set(given) | (set(EVENT_CLASSES) if "A" in given else set())
        if set(EVENT_CLASSES) <= chosen:
            shown = "A"
        else:
            shown = "".join(letter for letter in f"{EVENT_CLASSES}noc" if letter in chosen)
        shown += "".join(letter for letter in "KEm" if letter in chosen)
        return Events(frozenset(chosen - {"A"}), shown.encode())

    def text(self, value: Events) -> bytes:
        """See ``Kind``."""
        return value.shown


@dataclass(frozen=True, slots=True)
class VersionOfFiles(Integer):
    """The kind of rdb-version: int from ``low`` to ``high``, or ``valkey``, the version of files of Valkey 9.0."""

    valkey: int

    def parse_word(self, word: bytes) -> int:
        """See ``OneWord``."""
        value = parse_integer(word)
        return value if value == self.valkey else check_range(value, self.low, self.high)


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
            raise ConfigError(messages.LIMIT_NUMBER)
        for at in range(0, len(words), 4):
            name = b"slave" if words[at].lower() == b"replica" else words[at].lower()
            if name not in CLIENT_CLASSES:
                raise ConfigError(messages.LIMIT_CLASS)
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


class Percentiles:
    """The kind of latency-tracking-info-percentiles: a tuple of float, each from 0 to 100."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[float, ...]:
        """See ``Kind``."""
        del before
        numbers = tuple(float(word) for word in words if DECIMAL.fullmatch(word))
        if len(numbers) < len(words) or not all(0 <= number <= 100 for number in numbers):
            raise ConfigError(messages.PERCENTILES)
        return numbers

    def text(self, value: tuple[float, ...]) -> bytes:
        """See ``Kind``."""
        return b" ".join(b"%g" % number for number in value)


@dataclass(frozen=True, slots=True)
class Master:
    """The address of a master: a tuple of host and port, as bytes. It is empty for no words, or for ``no one``."""

    several_words = True

    def parse(self, words: Sequence[bytes], before: Any) -> tuple[bytes, ...]:
        """See ``Kind``."""
        del before
        host, *port = [word for word in words if word] or [b"no", b"one"]
        if len(port) != 1:
            raise ConfigError(messages.WRONG_NUMBER)
        if (host.lower(), port[0].lower()) == (b"no", b"one"):
            return ()
        if not port[0].isdigit() or not 0 <= int(port[0][:20]) <= 65535:
            raise ConfigError(messages.DIRECTIVE_INVALID_MASTER_PORT)
        return host, port[0]

    def text(self, value: tuple[bytes, ...]) -> bytes:
        """See ``Kind``."""
        return b" ".join(value)
