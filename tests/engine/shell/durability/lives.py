"""An engine on a directory that outlives it, and a client that takes commands as lines of words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiredis

from tests import servers
from tests.servers.connection import Connection

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")


def encode(argv: list[bytes]) -> bytes:
    """Return a command as in a log of Redis."""
    return hiredis.pack_command(tuple(argv))


class Client(Connection):
    """A client that is called with a command as one line of words. An error reply is returned as its text."""

    def __call__(self, line: str) -> Any:
        """Send a command and receive its reply."""
        return self.run(*line.split())

    def send_lines(self, *lines: str) -> None:
        """Send several commands at once."""
        self.socket.sendall(b"".join(hiredis.pack_command(tuple(line.split())) for line in lines))

    def receive(self) -> Any:
        reply = super().receive()
        return str(reply) if isinstance(reply, hiredis.ReplyError) else reply

    def info(self) -> dict[str, str]:
        """Return the lines of INFO persistence."""
        text = self("INFO persistence").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


@contextmanager
def life(directory: Path, *flags: str, module: str = "engine") -> Iterator[tuple[servers.Running, Client]]:
    """Yield a client of an engine on a directory that outlives it."""
    with servers.engine("--dir", str(directory), *flags, module=module) as running, Client(running) as client:
        yield running, client
