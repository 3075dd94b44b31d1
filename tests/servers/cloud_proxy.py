"""A proxy with the restrictions of managed servers: it rejects some commands, and keys of different slots together."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hiredis
import redis

from streamwire.slots import slot_of

_NOTHING = object()


class CloudProxy:
    """Forwards commands on `port` to a server, one at a time; `refused` has the commands that it rejects.

    `refused` may contain subcommands. Keys of different slots are rejected in one command and in one transaction. WAIT
    returns 0. `asked` has the names of the received commands.
    """

    def __init__(self, target: int, refused: set[str]) -> None:
        self._target = target
        self._refused = refused
        self.asked: set[str] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in [*self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with (
            client,
            socket.create_connection(("127.0.0.1", self._target)) as server,
            redis.Redis(port=self._target, protocol=2) as keys,
            suppress(OSError),
        ):
            self._sockets |= {client, server}
            commands = hiredis.Reader(notEnoughData=_NOTHING)
            slots: set[int] | None = None  # Slots of the transaction's keys.
            while data := client.recv(1 << 16):
                commands.feed(data)
                while (words := commands.gets()) is not _NOTHING:
                    name, refusal = words[0].decode().upper(), self._refusal(words)
                    ours = set() if refusal else _slots(keys, words)
                    if refusal is None and len(ours | (slots or set())) > 1:
                        refusal = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
                    if refusal is not None:
                        client.sendall(refusal)
                        continue
                    slots = set() if name == "MULTI" else None if name in ("EXEC", "DISCARD") else slots
                    if slots is not None:
                        slots |= ours
                    server.sendall(hiredis.pack_command(tuple(words)))
                    _relay(server, client)

    def _refusal(self, words: list[bytes]) -> bytes | None:
        name = words[0].decode().upper()
        self.asked.add(name)
        if name == "WAIT":
            return b":0\r\n"
        whole = f"{name} {words[1].decode().upper()}" if len(words) > 1 else name
        return b"-ERR unknown command '%b'\r\n" % words[0] if {name, whole} & self._refused else None


def _slots(keys: redis.Redis, words: list[bytes]) -> set[int]:
    try:
        return {slot_of(key if isinstance(key, bytes) else key.encode()) for key in keys.command_getkeys(*words)}
    except redis.ResponseError:
        return set()


def _relay(server: socket.socket, client: socket.socket) -> None:
    """Forward one reply unchanged."""
    reply: Any = hiredis.Reader(notEnoughData=_NOTHING)
    while True:
        data = server.recv(1 << 16)
        if not data:
            raise ConnectionError("the server has closed the connection")
        client.sendall(data)
        reply.feed(data)
        if reply.gets() is not _NOTHING:
            return


@contextmanager
def cloud_proxy(target: int, refused: set[str]) -> Iterator[CloudProxy]:
    made = CloudProxy(target, refused)
    try:
        yield made
    finally:
        made.close()
