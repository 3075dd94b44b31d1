"""Minimal engine for the supervisor: announces that it is ready, replies to PING, and ends on SIGTERM."""

from __future__ import annotations

import os
import socket
import sys
import threading


def answer(link: socket.socket) -> None:
    with link:
        while asked := link.recv(4096):
            link.sendall(b"+PONG\r\n" if b"PING" in asked else b"-ERR unknown command\r\n" * asked.count(b"*"))


def main() -> None:
    path = sys.argv[sys.argv.index("--unixsocket") + 1]
    with socket.create_server(path, family=socket.AF_UNIX) as server:
        print(f"ready on unix:{path} pid {os.getpid()}", flush=True)  # noqa: T201
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
