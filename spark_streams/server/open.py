"""Chooses the implementation of `StreamServer` for a connection: the engine's where the server has its commands."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from spark_streams.client.connection import Connection
from spark_streams.server.api import StreamServer
from spark_streams.server.engine import EXTENSIONS, EngineServer
from spark_streams.server.redis import RedisServer

_extended: WeakKeyDictionary[Connection, bool] = WeakKeyDictionary()


def open_server(connection: Connection) -> StreamServer:
    """The server at the other end of the connection. What it can do is asked once per connection (COMMAND INFO)."""
    if connection not in _extended:
        (reply,) = connection.pipeline([("COMMAND", "INFO", *EXTENSIONS)])
        # A server that refuses to answer is treated as one without the extensions.
        _extended[connection] = isinstance(reply, list) and len(reply) == len(EXTENSIONS) and all(reply)
    return EngineServer(connection) if _extended[connection] else RedisServer(connection)
