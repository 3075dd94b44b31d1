r"""Request parser: bytes in, split anywhere; commands out, each a list of bytes.

The scalar parser (``RequestParser._scalar``) defines requests. It is exactly as strict as Redis:

    *N\r\n, then N times $L\r\n<L bytes> and any two bytes      a command; skipped if N <= 0
    a line that does not begin with *                           an inline command; skipped if the line is empty

A header ends at the first \r; the byte after it is skipped unchecked. Numbers are canonical decimals.

Parsing is incremental and takes linear time: complete words are kept as words, and an incomplete one fills a buffer of
its final size, which becomes the word without a copy. So the cost depends only on the number of bytes, even if a value
arrives in a million reads or a command has a million words, and the end of a large value costs no more than its start.

The fast path is hiredis. It parses replies, so it accepts input that is not a request. ``RequestParser._by_hiredis``
detects such input, and the scalar parser then parses the same bytes. A property test shows that both parsers return the
same commands and the same errors.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

import hiredis

from engine.text import messages
from engine.text.words import split_words

#: Maximum length of an inline request, and of a header line.
LINE_LIMIT = 64 * 1024
MAX_WORDS = (1 << 31) - 1
#: Maximum number of words before a client has authenticated.
NO_AUTH_WORDS = 10
#: Maximum length of a word before a client has authenticated.
NO_AUTH_BULK = 16384

#: Parsing more words than this at once would delay other clients.
_MANY_WORDS = 1000

_STAR, _DOLLAR = b"*$"
_GREATER, _TILDE, _PERCENT, _BAR = b">~%|"
_PLUS, _EQUALS, _PARENTHESIS = b"+=("
#: Buffer size above which the last command, which is often incomplete, is left to the scalar parser.
_LONG = 8192

#: Size below which the parser first checks whether the input is exactly one command.
_SMALL = 512
#: Number of a command's lines, including the empty last one -> its first line.
_STARS = {2 * number + 2: b"*%d" % number for number in range(1, 32)}
#: Length of a word -> its header.
_HEADERS = [b"$%d" % length for length in range(_SMALL)]

#: Header of a short word -> its length.
_SHORT = {b"$%d" % length: length for length in range(1000)}
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_BIG_ARRAY = re.compile(rb"\*[0-9]{5}")
#: What hiredis accepts as the header of an aggregate other than an array. (Each pattern begins with a fixed character,
#: which is found fast.)
_AGGREGATES = {mark: re.compile(rb"%b-?[0-9]+\r\n" % re.escape(bytes([mark]))) for mark in b">~%|"}
#: What hiredis accepts as a simple string (from its last plus sign), as the header of a verbatim string, and as a big
#: number.
_DISGUISED = {
    _PLUS: re.compile(rb"\+[^\r\n+]*\r\n"),
    _EQUALS: re.compile(rb"=[0-9]+\r\n"),
    _PARENTHESIS: re.compile(rb"\(-?[0-9]*\r\n"),
}
_NOTHING: Any = object()
#: Fed to hiredis after a buffer. It is returned as an empty array if and only if the buffer ended with a complete
#: value.
_MARK = b"*0\r\n"

Commands = list[list[bytes]]


def _new_reader() -> Any:
    return hiredis.Reader(notEnoughData=_NOTHING)


class RequestParser:
    """The parser of one connection. Once ``error`` is set, nothing more is parsed."""

    __slots__ = (
        "_argv",
        "_left",
        "_missing",
        "_reader",
        "_tail",
        "_word",
        "_word_bytes",
        "at_boundary",
        "error",
        "max_bulk",
        "trusted",
    )

    def __init__(self, max_bulk: int = 512 << 20) -> None:
        #: Error reply, to be sent after the replies to the commands that the same call of ``parse`` returned.
        self.error: bytes | None = None
        #: Maximum length of a word in bytes (proto-max-bulk-len).
        self.max_bulk = max_bulk
        #: Whether the client has authenticated. Until then, limits are tight; use `parse_one`.
        self.trusted = True
        self._reader = _new_reader()
        # State of the incomplete command: its words so far, their total bytes, the number of missing words, the start
        # of an incomplete line, an incomplete word with the two bytes after it, and the number of its missing bytes.
        self._argv: list[bytes] = []
        self._word_bytes = 0
        self._left = 0
        self._tail = bytearray()
        self._word: BytesIO | None = None
        self._missing = 0
        #: Whether the next byte begins a request, so that the caller may parse it differently.
        self.at_boundary = True

    def takes_long(self, data: bytes) -> bool:
        """Return whether ``data`` seems to start a command of 10,000 words or more, or continues such a command.

        A command that has been parsed up to its last ``_MANY_WORDS`` words does not count.
        """
        begins = data[:1] == b"*" and data[1:6].isdigit() and self.at_boundary
        return begins or self._left > _MANY_WORDS

    @property
    def buffered(self) -> int:
        """Number of input bytes that are not returned as a command yet."""
        begun = len(self._tail) if self._word is None else self._word.tell()
        return self._word_bytes + begun

    def parse(self, data: bytes) -> Commands:
        """Return the commands that ``data`` completes. For a trusted client only."""
        if not data or self.error is not None:
            return []
        if len(data) < _SMALL and self.at_boundary:
            # Common case: the input is one command. Its lines: count, header, word, header, word, ..., and an empty
            # one.
            lines = data.split(b"\r\n")
            if lines[0] == _STARS.get(len(lines)) and not lines[-1]:
                argv, at = lines[2::2], 1
                for word in argv:
                    if _HEADERS[len(word)] != lines[at]:
                        break
                    at += 2
                else:
                    return [argv]
        commands: Commands = []
        at = 0
        if self._tail or self._word is not None:
            data = self._complete(data)
            if self._argv and not self._left:
                commands.append(self._pop())
        if self._left:
            at = self._scalar(data, at, commands, only_one=True)
        if at < len(data) and data[at] == _STAR and not self._left:
            at = self._by_hiredis(data, at, commands)
        if at < len(data):
            self._scalar(data, at, commands, only_one=False)
        self.at_boundary = not (self._left or self._tail)
        return commands

    def parse_one(self, data: bytes) -> tuple[Commands, bytes]:
        """Parse ``data`` up to the end of its first command, which may have begun in earlier data.

        Return a list with the command, which is empty if ``data`` does not complete it, and the rest of ``data``. Sets
        ``error`` as ``parse`` does.
        """
        commands: Commands = []
        if self.error is not None:
            return commands, b""
        if self._tail or self._word is not None:
            data = self._complete(data)
        if self._argv and not self._left:
            self.at_boundary = True
            return [self._pop()], data
        at = self._scalar(data, 0, commands, only_one=True)
        self.at_boundary = not (self._left or self._tail)
        return commands, data[at:]

    # -- the definition -----------------------------------------------------------------------------------------------

    def _scalar(self, data: bytes, at: int, commands: Commands, only_one: bool) -> int:
        """Parse ``data`` from ``at`` on (one command at most if ``only_one``); return the offset where parsing stopped.

        An incomplete command at the end of ``data`` is kept.
        """
        end = len(data)
        wanted = len(commands) + 1 if only_one else -1
        while at < end and len(commands) != wanted:
            if self._left:
                at = self._words(data, at)
                if not self._left and self.error is None:
                    commands.append(self._pop())
            elif data[at] == _STAR:
                at = self._array(data, at)
            else:
                at = self._inline(data, at, commands)
            if at < 0:
                return end
        return at

    def _pop(self) -> list[bytes]:
        argv, self._argv, self._word_bytes = self._argv, [], 0
        return argv

    def _fail(self, error: bytes) -> int:
        self.error = error
        self._argv, self._left, self._word_bytes = [], 0, 0
        self._tail.clear()
        return -1

    def _keep(self, data: bytes, at: int) -> int:
        self._tail += memoryview(data)[at:]
        return -1

    def _header(self, data: bytes, at: int, too_big: bytes) -> tuple[int, int]:
        """Return the end of the header line at ``at``, and the start of the bytes after it.

        The second value is -1 if the line is incomplete or wrong.
        """
        end = data.find(b"\r", at, at + LINE_LIMIT + 1)
        if end < 0 and len(data) - at > LINE_LIMIT:
            return 0, self._fail(too_big)
        if end < 0 or end + 2 > len(data):
            return 0, self._keep(data, at)
        return end, end + 2

    def _array(self, data: bytes, at: int) -> int:
        end, then = self._header(data, at, b"ERR Protocol error: too big mbulk count string")
        if then < 0:
            return -1
        line = data[at + 1 : end]
        count = int(line) if _NUMBER.fullmatch(line) else MAX_WORDS + 1
        if count > MAX_WORDS:
            return self._fail(b"ERR Protocol error: invalid multibulk length")
        if count > NO_AUTH_WORDS and not self.trusted:
            return self._fail(messages.MULTIBULK_LENGTH_NO_AUTH)
        self._left = max(count, 0)
        return then

    def _words(self, data: bytes, at: int) -> int:
        """Parse words of the incomplete command from ``at`` on; return the position where parsing stopped.

        Return -1 if a word or its header is wrong, or is incomplete. Incomplete bytes are kept.
        """
        argv = self._argv
        size = len(data)
        while self._left and at < size:
            # Fast path for short words, which are the most frequent. All others are parsed below.
            line_end = data.find(b"\r", at, at + 5)
            length = _SHORT.get(data[at:line_end], size) if line_end > 0 else size
            end = line_end + 2 + length
            if end + 2 <= size:
                argv.append(data[line_end + 2 : end])
                self._word_bytes += length
                self._left -= 1
                at = end + 2
                continue
            line_end, then = self._header(data, at, b"ERR Protocol error: too big bulk count string")
            if then < 0:
                return -1
            if data[at] != _DOLLAR:
                return self._fail(b"ERR Protocol error: expected '$', got '%b'" % data[at : at + 1])
            line = data[at + 1 : line_end]
            length = int(line) if _NUMBER.fullmatch(line) else -1
            if not 0 <= length <= self.max_bulk:
                return self._fail(b"ERR Protocol error: invalid bulk length")
            if length > NO_AUTH_BULK and not self.trusted:
                return self._fail(b"ERR Protocol error: unauthenticated bulk length")
            end = then + length
            if end + 2 > size:
                # Memory for the zeros is reserved, but not used before it is written. BytesIO holds the only reference
                # to them, so it writes to them instead of copying them.
                self._word = BytesIO(bytes(length + 2))
                self._missing = length + 2 - self._word.write(memoryview(data)[then:])
                return -1
            argv.append(data[then:end])
            self._word_bytes += length
            self._left -= 1
            at = end + 2
        return at

    def _inline(self, data: bytes, at: int, commands: Commands) -> int:
        end = data.find(b"\n", at, at + LINE_LIMIT + 1)
        if end < 0:
            if len(data) - at > LINE_LIMIT:
                return self._fail(b"ERR Protocol error: too big inline request")
            return self._keep(data, at)
        words = split_words(data[at:end].removesuffix(b"\r"))
        if words is None:
            return self._fail(b"ERR Protocol error: unbalanced quotes in request")
        if words:
            commands.append(words)
        return end + 1

    def _complete(self, data: bytes) -> bytes:
        """Complete the stored word or line with ``data``; return the bytes to parse next, empty if more are needed."""
        word, missing = self._word, self._missing
        if word is not None:
            if len(data) < missing:
                self._missing -= word.write(data)
                return b""
            word.write(memoryview(data)[:missing])
            word.truncate(word.tell() - 2)
            self._argv.append(word.getvalue())
            self._word_bytes += len(self._argv[-1])
            self._left -= 1
            self._word = None
            return data[missing:]
        tail = self._tail
        # The tail is the start of a line. It is copied only when the line's end has arrived, or the line is too long.
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
        r"""Parse ``data`` from the ``*`` at ``start`` on; return the offset after the parsed commands.

        hiredis parses values of all RESP3 types. They are requests only if every value is an array whose elements are
        all bulk strings. Anything else is detected:

        * ``join`` raises if an element is not bytes, or a value is not a list; ``all`` finds empty values.
        * Other aggregates, which become lists too, begin with one of ``% ~ > |`` and a number.
        * Other types that become bytes begin with ``+``, ``=`` or ``(``. If such a value seems to occur anywhere, the
          commands are encoded again, and must give the same bytes.

        hiredis itself refuses numbers that are not canonical and headers that end in anything but \r\n. Arrays of
        10,000 words or more are not passed to hiredis, because it allocates all elements when it reads the header.
        """
        if _BIG_ARRAY.search(data, start) is not None:
            return start
        # The operands are integers: with these, ``in`` is eight times as fast as with bytes.
        aggregates = _GREATER in data or _TILDE in data or _PERCENT in data or _BAR in data
        if aggregates and _has_any(_AGGREGATES, data, start):
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
        others = _PLUS in data or _EQUALS in data or _PARENTHESIS in data
        if others and _has_any(_DISGUISED, data, start) and _encoded(found) != data[start:end]:
            return start
        commands += found
        return end


def _has_any(patterns: dict[int, re.Pattern[bytes]], data: bytes, start: int) -> bool:
    """Return whether ``data`` matches one of the patterns, by their first byte, anywhere from ``start`` on."""
    for mark, pattern in patterns.items():  # noqa: SIM110 - a generator would cost more than most searches
        if mark in data and pattern.search(data, start) is not None:
            return True
    return False


def _last_start(data: bytes, start: int, end: int) -> int:
    """Return the likely start of the last command of ``data[start:end]``.

    Parsing the bytes before this start verifies the guess.
    """
    for _ in range(8):
        end = data.rfind(b"\r\n*", start, end)
        if end < 0:
            break
        if data[end + 3 : end + 4].isdigit():
            return end + 2
    return start


def _encoded(commands: Commands) -> bytes:
    """Return the canonical bytes of ``commands``."""
    out: list[bytes] = []
    for argv in commands:
        out.append(b"*%d\r\n" % len(argv))
        out += [b"$%d\r\n%b\r\n" % (len(word), word) for word in argv]
    return b"".join(out)
