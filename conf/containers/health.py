"""Health check of a server in a container: python health.py [--ready] [PORT].

Exits with 0 if the server replies to PING within four seconds, even if the reply asks for a password. With --ready,
servers that are loading data and replicas without a link to their master are unhealthy. This is read from INFO, so a
server with a password needs PYSTREAMS_PASSWORD in the environment; without it the server is not ready.
"""

from __future__ import annotations

import os
import socket
import sys

_NOT_READY = {"loading:1": "loading data", "master_link_status:down": "no link to the master"}


def _ask(connection: socket.socket, *words: bytes) -> bytes:
    """Send a command; return its reply without the header of a bulk string."""
    connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
    with connection.makefile("rb") as replies:
        line = replies.readline()
        return replies.read(int(line[1:]) + 2) if line.startswith(b"$") else line


def _trouble(connection: socket.socket, *, ready: bool) -> str:
    """Return why the server is unhealthy; empty if it is healthy."""
    if not _ask(connection, b"PING"):
        return "the connection was closed"
    if not ready:
        return ""
    if password := os.environ.get("PYSTREAMS_PASSWORD"):
        _ask(connection, b"AUTH", password.encode())
    info = _ask(connection, b"INFO").decode("utf-8", "replace")
    if info.startswith("-") or not info:
        return f"INFO is refused: {info.strip()}"
    return next((text for line, text in _NOT_READY.items() if f"\n{line}\r" in info), "")


def main(words: list[str]) -> int:
    """Check the server once, and return the exit status."""
    port = next((int(word) for word in words if word.isdigit()), 6379)
    try:
        with socket.create_connection(("127.0.0.1", port), 4) as connection:
            connection.settimeout(4)
            trouble = _trouble(connection, ready="--ready" in words)
    except OSError as cause:
        trouble = f"no answer at port {port}: {cause}"
    sys.stdout.write(trouble)
    return int(bool(trouble))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
