"""A client's address and the server's, in the form of CLIENT LIST."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


def shown(transport: asyncio.Transport) -> tuple[bytes, bytes, int]:
    """Return the client's address, the server's address, and the socket's descriptor (-1 without a socket)."""
    sock = transport.get_extra_info("socket")
    peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    fd = sock.fileno() if sock is not None else -1
    if isinstance(peer, tuple) and isinstance(here, tuple):
        return _address(peer), _address(here), fd
    path = here if isinstance(here, str) else here.decode() if isinstance(here, bytes) else ""
    return f"{path}:0".encode(), f"{path}:0".encode(), fd


def _address(name: Iterable[Any]) -> bytes:
    host, port, *_ = name
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
