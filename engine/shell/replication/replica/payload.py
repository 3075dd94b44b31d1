r"""The master's data on the link: a length or a mark, then the bytes of a file.

    $<length>\r\n<that many bytes>                   the master wrote a file first
    $EOF:<40 characters>\r\n<bytes><the 40 again>    the master writes directly to the link

Empty lines may precede the first line, as keepalives. The module separates the bytes of the file from the bytes that
follow it.
"""

from __future__ import annotations

_MARK = 40
_EOF = b"$EOF:"
_LINE_LIMIT = 128


class PayloadError(Exception):
    """The line before the file is not a length or a mark."""


class Payload:
    """One file being received."""

    def __init__(self) -> None:
        self._head = b""
        self._mark = b""
        #: The last bytes received, which may contain the start of the mark.
        self._tail = b""
        #: Length announced by the master; -1 if unknown.
        self.size = -1
        self._begun = False
        #: Number of received bytes of the file.
        self.received = 0
        #: Whether the file is complete.
        self.is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Process bytes; return the bytes of the file, and the bytes after the file.

        Raises PayloadError if the line before the file is invalid.
        """
        if not self._begun:
            data = self._parse_head(data)
            if not self._begun:
                return b"", b""
        part, rest = self._marked(data) if self._mark else self._counted(data)
        self.received += len(part)
        return part, rest

    def _parse_head(self, data: bytes) -> bytes:
        self._head = (self._head + data).lstrip(b"\n")
        line, end, rest = self._head.partition(b"\r\n")
        if not end:
            if len(self._head) > _LINE_LIMIT:
                raise PayloadError("the line before the master's data is too long")
            return b""
        if line.startswith(_EOF) and len(line) == len(_EOF) + _MARK:
            self._mark = line[len(_EOF) :]
        elif line[:1] == b"$" and line[1:].isdigit():
            self.size = int(line[1:])
        else:
            raise PayloadError(f"the master sent '{line.decode('utf-8', 'backslashreplace')}' before its data")
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
        # The last bytes may be the start of the mark, so they are held back until more arrive.
        keep = _MARK - 1
        self._tail = data[-keep:]
        return data[:-keep], b""
