r"""All data of a master, as they come over the link: a length or a mark, then the bytes of a file.

    $<length>\r\n<that many bytes>             the master wrote a file first
    $EOF:<40 characters>\r\n<bytes><them again>   it writes to the link

Before the first line empty ones may come, which say that the master is still at work. Bytes go in, the file's bytes
come out, and where it ends the rest belongs to what comes behind it.
"""

from __future__ import annotations

_MARK = 40
_EOF = b"$EOF:"
_LINE_LIMIT = 128


class PayloadError(Exception):
    """What the master sends is no file."""


class Payload:
    """One file on its way."""

    def __init__(self) -> None:
        self._head = b""
        self._mark = b""
        #: The last bytes that came, in which the mark may have begun.
        self._tail = b""
        #: The length that the master has told; -1: none.
        self.size = -1
        self._begun = False
        #: How many bytes of the file have come; whether that is all.
        self.received = 0
        self.is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The file's bytes that ``data`` brings, and what stands behind the file."""
        if not self._begun:
            data = self._begin(data)
            if not self._begun:
                return b"", b""
        part, rest = self._marked(data) if self._mark else self._counted(data)
        self.received += len(part)
        return part, rest

    def _begin(self, data: bytes) -> bytes:
        self._head = (self._head + data).lstrip(b"\n")
        line, end, rest = self._head.partition(b"\r\n")
        if not end:
            if len(self._head) > _LINE_LIMIT:
                raise PayloadError("the line before its data is too long")
            return b""
        if line.startswith(_EOF) and len(line) == len(_EOF) + _MARK:
            self._mark = line[len(_EOF) :]
        elif line[:1] == b"$" and line[1:].isdigit():
            self.size = int(line[1:])
        else:
            raise PayloadError(f"before its data it sends '{line.decode('utf-8', 'backslashreplace')}'")
        self._begun, self._head = True, b""
        return rest

    def _counted(self, data: bytes) -> tuple[bytes, bytes]:
        part = data[: self.size - self.received]
        self.is_complete = self.received + len(part) == self.size
        return part, data[len(part) :]

    def _marked(self, data: bytes) -> tuple[bytes, bytes]:
        data = self._tail + data
        at = data.find(self._mark)
        if at >= 0:
            self.is_complete, self._tail = True, b""
            return data[:at], data[at + _MARK :]
        # (The mark's own length may be held back: it is no part of the file before more has come.)
        keep = _MARK - 1
        self._tail = data[-keep:]
        return data[:-keep], b""
