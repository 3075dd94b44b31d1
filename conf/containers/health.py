"""Health check of a server in a container: python health.py [--ready] [PORT].

Exits with 0 if the server replies to PING within four seconds, even if the reply asks for a password. With --ready,
servers that are loading data and replicas without a master are unhealthy.
"""

from __future__ import annotations

import socket
import sys

_NOT_READY = (b"-LOADING", b"-MASTERDOWN")


def main(words: list[str]) -> int:
    """Send PING once, and return the exit status."""
    ready = "--ready" in words
    port = next((int(word) for word in words if word.isdigit()), 6379)
    try:
        with socket.create_connection(("127.0.0.1", port), 4) as connection:
            connection.settimeout(4)
            connection.sendall(b"PING\r\n")
            reply = connection.recv(64)
    except OSError as cause:
        sys.stdout.write(f"no answer at port {port}: {cause}\n")
        return 1
    if not reply or (ready and reply.startswith(_NOT_READY)):
        sys.stdout.write(reply.decode("utf-8", "replace").strip() or "the connection was closed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
