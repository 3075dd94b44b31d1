"""Pool of this process's connections: one per server and login, lent to one caller at a time.

Queries with the same server and login share a connection, even if other options differ. Spark runs one task at a time
in a process, so an executor with N cores has about N connections to a server, or to each node of a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.errors import BROKEN

_MOST = 8  # maximum number of idle connections; the least recently used ones are closed
_idle: dict[tuple[int, Address], Connection] = {}  # in the order of last use


@contextmanager
def borrow(address: Address) -> Iterator[Connection]:
    """Lend this process's connection to an address, and return it to the pool afterwards unless the block fails.

    Failures of the connection are raised as SERVER_UNREACHABLE. A connection has one borrower at a time. A generator
    that borrows a connection returns it when the generator ends.
    """
    key = (os.getpid(), address)
    connection = _idle.pop(key, None)
    if connection is not None and not connection.usable():
        connection.close()
        connection = None
    if connection is None:
        connection = Connection(address)
    connection.serve(address)
    try:
        yield connection
    except BROKEN as cause:
        connection.close()
        raise connection.unreachable(cause) from cause
    except BaseException:
        connection.close()
        raise
    connection.mark_idle()
    if key in _idle:
        connection.close()
    else:
        _idle[key] = connection
        while len(_idle) > _MOST:
            _idle.pop(next(iter(_idle))).close()


def close_all() -> None:
    """Close the pool's connections."""
    while _idle:
        _idle.popitem()[1].close()
