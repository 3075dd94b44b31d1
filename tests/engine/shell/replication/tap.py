"""A scripted replica: the test sends its messages and reads every byte from the master."""

from __future__ import annotations

import hiredis

from tests import servers
from tests.servers.connection import Connection


class Tap:
    """A connection to a master that requests synchronisation."""

    def __init__(self, master: servers.Running, *capabilities: str) -> None:
        self.client = Connection(master)
        for capability in capabilities:
            assert self.client.run("REPLCONF", "capa", capability) == b"OK"
        self._seen = b""

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def ask(self, history_id: str = "?", offset: int = -1) -> None:
        """Send PSYNC."""
        self.client.send("PSYNC", history_id, offset)

    def _more(self) -> None:
        data = self.client.socket.recv(1 << 20)
        if not data:
            raise ConnectionResetError("the master closed the connection")
        self._seen += data

    def take(self, count: int) -> bytes:
        """Return this number of bytes from the master."""
        while len(self._seen) < count:
            self._more()
        taken, self._seen = self._seen[:count], self._seen[count:]
        return taken

    def line(self) -> bytes:
        """Return the next non-empty line, without its end."""
        while True:
            while b"\n" not in self._seen:
                self._more()
            line, _, self._seen = self._seen.partition(b"\n")
            if line.strip():
                return line.strip()

    def full(self) -> tuple[str, int]:
        """Read the reply +FULLRESYNC; return the history's ID and the replication offset of the file."""
        word, history_id, offset = self.line().split()
        assert word == b"+FULLRESYNC"
        return history_id.decode(), int(offset)

    def file(self) -> bytes:
        """Return the file."""
        return self.take(int(self.line()[1:]))

    def acknowledge(self, offset: int) -> None:
        """Send an acknowledgement."""
        self.client.send("REPLCONF", "ACK", offset)

    def commands(self, last: bytes) -> list[list[bytes]]:
        """Return the commands of the stream up to the one whose last word is ``last``."""
        reader = hiredis.Reader(notEnoughData=self)
        reader.feed(self._seen)
        self._seen = b""
        found: list[list[bytes]] = []
        while not found or found[-1][-1] != last:
            command = reader.gets()
            if command is self:
                self._more()
                reader.feed(self._seen)
                self._seen = b""
            else:
                found.append(command)
        return found
