"""Socket to the master: bytes both ways, and the time of the last bytes received."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast


class LinkOwner(Protocol):
    """Owner of a link, with callbacks for its events. A dropped link makes no callbacks."""

    def connected(self) -> None:
        """Handle an opened link."""

    def received(self, data: bytes) -> None:
        """Process received bytes."""

    def lost(self, why: str) -> None:
        """Handle a link that could not be opened, or is broken."""


class MasterLink(asyncio.Protocol):
    """One connection to a master, opened by `open`."""

    def __init__(self, owner: LinkOwner, clock: Callable[[], float]) -> None:
        self._owner: LinkOwner | None = owner
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self.is_paused = False
        #: Time of the last bytes received, or of opening the link.
        self.received_at = clock()

    def open(self, host: str, port: int, context: ssl.SSLContext | None, source: str) -> None:
        """Connect; the owner's callbacks report the result. ``source``: local address, empty for any address."""
        self._opening = asyncio.get_running_loop().create_task(self._open(host, port, context, source))

    async def _open(self, host: str, port: int, context: ssl.SSLContext | None, source: str) -> None:
        loop = asyncio.get_running_loop()
        local = (source, 0) if source else None
        name = host if context is not None else None
        try:
            await loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=name, local_addr=local)
        except (OSError, ValueError) as error:
            self._lose(str(error) or type(error).__name__)

    def drop(self) -> None:
        """Close the link, without further callbacks."""
        self._owner = None
        if self._opening is not None:
            self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_closed(self) -> bool:
        """Whether the link has been lost or dropped."""
        return self._owner is None

    def send(self, data: bytes) -> None:
        """Send bytes, if the link is open. (uvloop raises on writes to a closed transport.)"""
        transport = self._transport
        if transport is not None and data and not transport.is_closing():
            transport.write(data)

    def pause(self, wanted: bool) -> None:
        """Pause reading if ``wanted``, otherwise resume reading."""
        transport = self._transport
        if transport is not None and wanted != self.is_paused and not transport.is_closing():
            self.is_paused = wanted
            if wanted:
                transport.pause_reading()
            else:
                transport.resume_reading()

    @property
    def address(self) -> tuple[bytes, bytes]:
        """Addresses of the master and of this server on the link, in the form of CLIENT LIST."""
        if self._transport is None:
            return b"", b""
        found = (self._transport.get_extra_info(name) for name in ("peername", "sockname"))
        peer, local = (_shown(*address[:2]) if address else b"" for address in found)
        return peer, local

    # -- the transport's calls ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._owner is None:
            self._transport.abort()
            return
        self.received_at = self._clock()
        self._owner.connected()

    def data_received(self, data: bytes) -> None:
        self.received_at = self._clock()
        if self._owner is not None:
            self._owner.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(str(exc) if exc is not None else "the master closed the connection")

    def _lose(self, why: str) -> None:
        owner, self._owner = self._owner, None
        # Later writes of the owner are discarded.
        self._transport = None
        if owner is not None:
            owner.lost(why)


def _shown(host: str, port: int) -> bytes:
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
