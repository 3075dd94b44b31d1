"""Fault proxy: forwards to a server, and delays, cuts or refuses connections on request.

A cut may fall anywhere in the protocol: within a command, between a command and its reply, or within a reply. Bytes
before the cut are forwarded; then the client sees a closed connection.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class FaultProxy:
    """Forwards `port` to `target`, a port of the loopback interface.

    `cut_after(n)`: close every connection after the next n bytes. `delay`: delay of each received chunk, in seconds.
    `refuses`: whether new connections are closed immediately. `cuts`: number of cuts made so far.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay = 0.0
        self.refuses = False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._left: int | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut_after(self, count: int) -> None:
        with self._lock:
            self._left = count

    def pending_cut(self) -> bool:
        """Return whether a requested cut has not happened yet."""
        with self._lock:
            return self._left is not None

    @property
    def url(self) -> str:
        """URL for the connector, in place of the server's own."""
        return f"redis://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._ended = True
        self._waker.send(b"x")
        self._thread.join(10)
        for each in (*self._peers, self._listener, self._wake, self._waker):
            each.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is not self._wake:
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj in self._peers:
                        self._forward(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self.refuses:
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 5)
        except OSError:
            client.close()
            return
        for source, target in ((client, server), (server, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[source] = target
            self._selector.register(source, selectors.EVENT_READ)

    def _forward(self, source: socket.socket) -> None:
        target = self._peers[source]
        try:
            data = source.recv(1 << 16)
            if self.delay:
                time.sleep(self.delay)
            cut = False
            with self._lock:
                if self._left is not None:
                    cut = len(data) >= self._left
                    data = data[: self._left]
                    self._left = None if cut else self._left - len(data)
            if data:
                target.settimeout(10)
                target.sendall(data)
            if cut:
                self.cuts += 1
                for each in [*self._peers]:
                    self._drop(each)
            elif not data:
                self._drop(source)
        except OSError:
            self._drop(source)

    def _drop(self, source: socket.socket) -> None:
        for each in (source, self._peers.get(source)):
            if each is not None and each in self._peers:
                del self._peers[each]
                with suppress(KeyError, ValueError):
                    self._selector.unregister(each)
                each.close()


@contextmanager
def proxy(target: int) -> Iterator[FaultProxy]:
    """Run a proxy in front of a local port within a `with` block."""
    made = FaultProxy(target)
    try:
        yield made
    finally:
        made.close()
