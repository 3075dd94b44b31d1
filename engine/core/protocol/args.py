"""A cursor over a command's arguments, which are consumed in the same order as in Redis.

Errors are CommandErrors with Redis's texts. This module does not depend on any command.
"""

from __future__ import annotations

from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.text import messages

I64_MIN = -(1 << 63)
I64_MAX = (1 << 63) - 1
_ZERO = b"0"[0]


def parse_int(word: bytes, error: bytes = messages.NOT_AN_INTEGER) -> int:
    """Parse a signed 64-bit integer in canonical decimal form (no plus sign, no blanks, no leading zeros)."""
    if word.isdigit() and len(word) < 19 and (word[0] != _ZERO or len(word) == 1):
        # Fast path for the most frequent numbers.
        return int(word)
    digits = word[1:] if word[:1] == b"-" else word
    if digits.isdigit() and (digits[:1] != b"0" or word == b"0") and len(digits) < 20:
        value = int(word)
        if I64_MIN <= value <= I64_MAX:
            return value
    raise CommandError(error)


def parse_timeout(word: bytes, now: int) -> int:
    """Parse a timeout in milliseconds. ``now`` plus the timeout must fit 64 bits."""
    timeout = parse_int(word, b"ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise CommandError(b"ERR timeout is negative")
    if timeout > I64_MAX - now:
        raise CommandError(b"ERR timeout is out of range")
    return timeout


def at_most(argv: list[bytes], words: int) -> None:
    """Raise CommandError if ``argv`` has more than ``words`` words, including the names of command and subcommand."""
    if len(argv) > words:
        raise CommandError(messages.subcommand_arguments(argv[0], argv[1]))


class Args:
    """The remaining words ``argv[pos:end]`` of a command."""

    __slots__ = ("argv", "end", "pos")

    def __init__(self, argv: list[bytes], pos: int = 1, end: int | None = None) -> None:
        self.argv = argv
        self.pos = pos
        self.end = len(argv) if end is None else end

    def __len__(self) -> int:
        """Return the number of remaining words."""
        return self.end - self.pos

    def take(self) -> bytes:
        """Consume and return the next word. Raise a syntax error if there are no more words."""
        if self.pos >= self.end:
            raise CommandError(messages.SYNTAX)
        self.pos += 1
        return self.argv[self.pos - 1]

    def peek(self) -> bytes:
        """Return the next word in upper case without consuming it, or an empty word if no words remain."""
        return self.argv[self.pos].upper() if self.pos < self.end else b""

    def flag(self, word: bytes) -> bool:
        """Consume the next word if it equals ``word``, ignoring its case; return whether it does.

        ``word`` is in upper case.
        """
        if self.pos < self.end and self.argv[self.pos].upper() == word:
            self.pos += 1
            return True
        return False

    def option(self, word: bytes) -> bool:
        """Consume an option as ``flag`` does, but only if another word follows as its value."""
        return self.pos + 1 < self.end and self.flag(word)

    def take_int(self, error: bytes = messages.NOT_AN_INTEGER) -> int:
        """Consume the next word, and return it as a signed 64-bit integer. Raise ``error`` if it is no integer."""
        return parse_int(self.take(), error)

    def take_id(self, missing_seq: int = 0) -> int:
        """Consume the next word, and return it as an entry ID. A missing sequence number becomes ``missing_seq``."""
        return ids.parse(self.take(), missing_seq)

    def rest(self) -> list[bytes]:
        """Consume and return all remaining words."""
        words = self.argv[self.pos : self.end]
        self.pos = self.end
        return words

    def finish(self, error: bytes = messages.SYNTAX) -> None:
        """Raise ``error`` if words remain."""
        if self.pos < self.end:
            raise CommandError(error)
