"""A raw connection for tests of the shell, and waiting until clients are blocked."""

from __future__ import annotations

import hiredis

from tests.servers import Running
from tests.waiting import wait_for


class Connection:
    """A socket and a decoder of replies."""

    def __init__(self, server: Running, proto: int = 2) -> None:
        self.socket = server.connect()
        self.reader = hiredis.Reader()
        if proto == 3:
            self.run("HELLO", "3")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *words: str | bytes | int) -> None:
        self.socket.sendall(hiredis.pack_command(words))

    def receive(self) -> object:
        while True:
            reply = self.reader.gets()
            if reply is not False:
                return reply
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("closed")
            self.reader.feed(data)

    def run(self, *words: str | bytes | int) -> object:
        self.send(*words)
        return self.receive()

    def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        out = b""
        while True:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return out
            if not data:
                return out
            out += data


def blocked(client: Connection, count: int) -> None:
    """Wait until ``count`` clients are blocked."""

    def enough() -> bool:
        text = client.run("INFO", "clients")
        assert isinstance(text, bytes)
        return b"\r\nblocked_clients:%d\r\n" % count in text

    wait_for(enough, f"{count} blocked clients")
