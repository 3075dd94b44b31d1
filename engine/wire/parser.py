r"""Requests: bytes in, in pieces of any size; commands out, each a list of bytes.

What a request is, is defined by the scalar parser (:meth:`RequestParser._scalar`), as strict or lax as Redis:

    *N\r\n, then N times $L\r\n<L bytes> and two bytes that nobody looks at    a command; N <= 0 is nothing
    a line that does not begin with *                                         an inline command, or nothing

A header ends at the first \r; the byte behind it is skipped unseen. Numbers are canonical decimals.

It is incremental and linear: complete words are kept as words, and what is not complete grows in one bytearray,
so a value in a million pieces, or a million words, cost no more than their bytes. The fast path is hiredis, which reads
replies and therefore accepts much that is no request; :meth:`RequestParser._by_hiredis` says why it is safe to believe
it. Where it declines, the scalar parser takes the same bytes: both give the same commands and the same errors, and a
property test says so.
"""

from __future__ import annotations

import re
from typing import Any

import hiredis

from engine.text import messages
from engine.text.words import split_words

#: The longest inline request, and the longest header line.
LINE_LIMIT = 64 * 1024
MAX_WORDS = (1 << 31) - 1
#: What a client that has not yet authenticated may send.
NO_AUTH_WORDS = 10
NO_AUTH_BULK = 16384

_STAR, _DOLLAR = b"*$"
_GREATER, _TILDE, _PERCENT, _BAR = b">~%|"
_PLUS, _EQUALS, _PARENTHESIS = b"+=("
#: From this size on, the last command of a buffer, which is often incomplete, is left to the scalar parser.
_LONG = 8192

#: Up to here, input is looked at as one command first. The first line of one by its number of lines, the last of which
#: is empty; headers by the length of their words.
_SMALL = 512
_STARS = {2 * number + 2: b"*%d" % number for number in range(1, 32)}
_HEADERS = [b"$%d" % length for length in range(_SMALL)]

#: What readers ask again and again: commands that end in `>`, by their bytes, so that their words need not be found.
_asked: dict[bytes, list[bytes]] = {}
_ASKED_MAX = 256

#: Headers of short words.
_SHORT = {b"$%d" % length: length for length in range(1000)}
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_BIG_ARRAY = re.compile(rb"\*[0-9]{5}")
_AGGREGATE = re.compile(rb"[%~>|][^\r]")
_NOTHING: Any = object()
#: Fed behind a buffer: an empty array comes out of it if, and only if, the buffer ended where a value ends.
_MARK = b"*0\r\n"

Commands = list[list[bytes]]


def _new_reader() -> Any:
    return hiredis.Reader(notEnoughData=_NOTHING)


class RequestParser:
    """One connection's requests. ``error`` is set (once, for good) where the bytes stop being a request."""

    __slots__ = (
        "_argv",
        "_bulk",
        "_held",
        "_held_at",
        "_kept",
        "_left",
        "_reader",
        "_tail",
        "error",
        "max_bulk",
        "trusted",
    )

    def __init__(self, max_bulk: int = 512 << 20) -> None:
        #: The error reply; the commands that :meth:`parse` gave together with it come before it.
        self.error: bytes | None = None
        #: proto-max-bulk-len.
        self.max_bulk = max_bulk
        #: False until the client has authenticated: tight limits, and one command at a time, for it may change that.
        self.trusted = True
        self._reader = _new_reader()
        # The command that is being read: its words so far, how many are missing, the length of the one that comes
        # (-1: its header has not come), and the bytes of what is not complete, a word or a line.
        self._argv: list[bytes] = []
        self._left = 0
        self._bulk = -1
        self._tail = bytearray()
        self._kept = 0
        # Complete input that was not looked at, because one command was wanted.
        self._held = b""
        self._held_at = 0

    @property
    def at_boundary(self) -> bool:
        """Whether the next byte begins a request: whoever knows a quicker way for certain bytes may take them first."""
        return not self._left and not self._tail and not self._held

    @property
    def buffered(self) -> int:
        """How many bytes of a request that is not complete are kept."""
        return self._kept + len(self._tail) + len(self._held) - self._held_at

    def parse(self, data: bytes) -> Commands:
        """The commands that ``data`` completes. Of a client not trusted: one; the next by a call with ``b""``."""
        if self._held:
            data = self._held[self._held_at :] + data
            self._held = b""
            self._held_at = 0
        if not data or self.error is not None:
            return []
        if len(data) < _SMALL and self.trusted and not self._left and not self._tail:
            asked = _asked.get(data)
            if asked is not None:
                return [asked.copy()]
            # One command, most often: divided at its line ends it is number, header, word, header, word, ..., nothing.
            lines = data.split(b"\r\n")
            if not lines[-1] and len(lines) in _STARS and lines[0] == _STARS[len(lines)]:
                argv = lines[2::2]
                if [_HEADERS[len(word)] for word in argv] == lines[1:-1:2]:
                    if argv[-1] == b">":
                        _keep_asked(data, argv)
                    return [argv]
        commands: Commands = []
        at = 0
        if self._tail:
            data = self._complete(data)
            if self._argv and not self._left:
                commands.append(self._take())
        one = not self.trusted
        if self._left and not one:
            at = self._scalar(data, at, commands, one=True)
        if not one and at < len(data) and data[at] == _STAR and not self._left:
            at = self._by_hiredis(data, at, commands)
        if at < len(data) and not (one and commands):
            at = self._scalar(data, at, commands, one)
        if at < len(data) and self.error is None:
            self._held, self._held_at = data, at
        return commands

    def finish(self, data: bytes) -> tuple[Commands, bytes]:
        """Read ``data`` up to the end of the command that is being read: that command, if complete now, and the rest.

        For a client that is trusted, and not at a boundary. Errors show in ``error`` as ever.
        """
        commands: Commands = []
        if self._tail:
            data = self._complete(data)
        if self._argv and not self._left:
            return [self._take()], data
        at = self._scalar(data, 0, commands, one=True)
        return commands, data[at:]

    # -- the definition -----------------------------------------------------------------------------------------------

    def _scalar(self, data: bytes, at: int, commands: Commands, one: bool) -> int:
        """Read ``data`` from ``at`` on, or just one command; where it stopped. What is not complete is kept."""
        end = len(data)
        wanted = len(commands) + 1 if one else -1
        while at < end and len(commands) != wanted:
            if self._left:
                at = self._words(data, at)
                if not self._left and self.error is None:
                    commands.append(self._take())
            elif data[at] == _STAR:
                at = self._array(data, at)
            else:
                at = self._inline(data, at, commands)
            if at < 0:
                return end
        return at

    def _take(self) -> list[bytes]:
        argv, self._argv, self._kept = self._argv, [], 0
        return argv

    def _fail(self, error: bytes) -> int:
        self.error = error
        self._argv, self._left, self._kept = [], 0, 0
        self._tail.clear()
        return -1

    def _keep(self, data: bytes, at: int) -> int:
        self._tail += memoryview(data)[at:]
        return -1

    def _header(self, data: bytes, at: int, too_big: bytes) -> tuple[int, int]:
        """The line behind the mark at ``at``: its end, and where the next thing begins (-1: the end is not there)."""
        end = data.find(b"\r", at, at + LINE_LIMIT + 1)
        if end < 0 and len(data) - at > LINE_LIMIT:
            return 0, self._fail(too_big)
        if end < 0 or end + 2 > len(data):
            return 0, self._keep(data, at)
        return end, end + 2

    def _array(self, data: bytes, at: int) -> int:
        end, then = self._header(data, at, messages.PROTOCOL_BIG_MULTIBULK_COUNT)
        if then < 0:
            return -1
        line = data[at + 1 : end]
        count = int(line) if _NUMBER.fullmatch(line) else MAX_WORDS + 1
        if count > MAX_WORDS:
            return self._fail(messages.PROTOCOL_MULTIBULK_LENGTH)
        if count > NO_AUTH_WORDS and not self.trusted:
            return self._fail(messages.PROTOCOL_MULTIBULK_LENGTH_NO_AUTH)
        self._left = max(count, 0)
        return then

    def _words(self, data: bytes, at: int) -> int:
        """Read words of the present command from ``at`` on, until it has all of them or the bytes end."""
        argv = self._argv
        size = len(data)
        while self._left:
            if self._bulk < 0:
                if at >= size:
                    return at
                # Short words, the most of them, in as few steps as can be; all else below.
                line_end = data.find(b"\r", at, at + 5)
                length = _SHORT.get(data[at:line_end], size) if line_end > 0 else size
                end = line_end + 2 + length
                if end + 2 <= size:
                    argv.append(data[line_end + 2 : end])
                    self._kept += length
                    self._left -= 1
                    at = end + 2
                    continue
                line_end, then = self._header(data, at, messages.PROTOCOL_BIG_BULK_COUNT)
                if then < 0:
                    return -1
                if data[at] != _DOLLAR:
                    return self._fail(messages.protocol_expected_bulk(data[at : at + 1]))
                line = data[at + 1 : line_end]
                length = int(line) if _NUMBER.fullmatch(line) else -1
                if not 0 <= length <= self.max_bulk:
                    return self._fail(messages.PROTOCOL_BULK_LENGTH)
                if length > NO_AUTH_BULK and not self.trusted:
                    return self._fail(messages.PROTOCOL_BULK_LENGTH_NO_AUTH)
                self._bulk = length
                at = then
            end = at + self._bulk
            if end + 2 > size:
                return self._keep(data, at)
            argv.append(data[at:end])
            self._kept += self._bulk
            self._bulk = -1
            self._left -= 1
            at = end + 2
        return at

    def _inline(self, data: bytes, at: int, commands: Commands) -> int:
        end = data.find(b"\n", at, at + LINE_LIMIT + 1)
        if end < 0:
            if len(data) - at > LINE_LIMIT:
                return self._fail(messages.PROTOCOL_BIG_INLINE)
            return self._keep(data, at)
        words = split_words(data[at:end].removesuffix(b"\r"))
        if words is None:
            return self._fail(messages.PROTOCOL_UNBALANCED_QUOTES)
        if words:
            commands.append(words)
        return end + 1

    def _complete(self, data: bytes) -> bytes:
        """Add ``data`` to what is kept; what :meth:`_scalar` is to read now, empty if more is needed."""
        tail = self._tail
        if self._bulk >= 0:
            missing = self._bulk + 2 - len(tail)
            if len(data) < missing:
                tail += data
                return b""
            tail += memoryview(data)[:missing]
            with memoryview(tail) as view:
                self._argv.append(bytes(view[: self._bulk]))
            self._kept += self._bulk
            self._left -= 1
            self._bulk = -1
            tail.clear()
            return data[missing:]
        # A line. It is only put together once its end has come, or is overdue.
        mark = b"\r" if self._left or tail[0] == _STAR else b"\n"
        ended = mark in data or tail[-1:] == mark
        if not ended and len(tail) + len(data) <= LINE_LIMIT:
            tail += data
            return b""
        whole = bytes(tail) + data
        tail.clear()
        return whole

    # -- the fast path ------------------------------------------------------------------------------------------------

    def _by_hiredis(self, data: bytes, start: int, commands: Commands) -> int:
        r"""Add the commands of ``data`` from ``start``, a ``*``, on; where the rest begins (``start``: it declines).

        hiredis reads values of all RESP3 types, so its reading is a request's only if every value is an array and all
        elements are bulk strings. What is not, is noticed:

        * ``join`` raises for an element that is no bytes object, and for a value that is no list (but for an empty one,
          which ``all`` sees);
        * other aggregates, which give lists too, begin with one of ``% ~ > |`` and a number;
        * the other types that give bytes begin with ``+``, ``=`` or ``(``. Where these occur, in a value or elsewhere,
          the commands are written out anew, and must give the same bytes.

        Numbers that are not canonical, and headers that end in anything but \r\n, it refuses itself. Arrays of 10,000
        words and more it never sees, because it makes room for all of them when it reads the header.
        """
        if _BIG_ARRAY.search(data, start) is not None:
            return start
        # Single bytes are looked for as numbers, which is eight times as quick as as bytes.
        others = _GREATER in data or _TILDE in data or _PERCENT in data or _BAR in data
        if others and _AGGREGATE.search(data, start) is not None:
            return start
        end = len(data)
        if end - start > _LONG:
            end = _last_start(data, start, end)
        reader = self._reader
        join = b"".join
        try:
            reader.feed(data, start, end - start)
            found: Commands = list(iter(reader.gets, _NOTHING))
            for argv in found:
                join(argv)
            reader.feed(_MARK)
            complete = reader.gets() == []
        except (hiredis.ProtocolError, TypeError):
            self._reader = _new_reader()
            return start
        if not complete:
            self._reader = _new_reader()
            return start
        if not all(found):
            return start
        if (_PLUS in data or _EQUALS in data or _PARENTHESIS in data) and _written(found) != data[start:end]:
            return start
        commands += found
        return end


def _keep_asked(data: bytes, argv: list[bytes]) -> None:
    if len(_asked) >= _ASKED_MAX:
        _asked.clear()
    _asked[data] = argv.copy()


def _last_start(data: bytes, start: int, end: int) -> int:
    """Where the last command of ``data[start:end]`` seems to begin; reading up to it shows whether it does."""
    for _ in range(8):
        end = data.rfind(b"\r\n*", start, end)
        if end < 0:
            break
        if data[end + 3 : end + 4].isdigit():
            return end + 2
    return start


def _written(commands: Commands) -> bytes:
    """The canonical bytes of ``commands``."""
    out: list[bytes] = []
    for argv in commands:
        out.append(b"*%d\r\n" % len(argv))
        out += [b"$%d\r\n%b\r\n" % (len(word), word) for word in argv]
    return b"".join(out)
