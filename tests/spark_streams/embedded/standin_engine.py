"""What the supervisor knows of an engine, and no more: announces that it is ready, answers PING, ends on SIGTERM."""

from __future__ import annotations

import os
import socket
import threading


def answer(link: socket.socket) -> None:
    with link:
        while link.recv(4096):
            link.sendall(b"+PONG\r\n")


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"ready on 127.0.0.1:{server.getsockname()[1]} pid {os.getpid()}", flush=True)  # noqa: T201
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
