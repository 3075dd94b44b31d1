"""Chooses the implementation of `StreamServer` for a connection: the engine's where the server has its commands."""

from __future__ import annotations

from spark_streams.client.abilities import has_commands
from spark_streams.client.connection import Connection
from spark_streams.server.api import StreamServer
from spark_streams.server.engine import EXTENSIONS, EngineServer
from spark_streams.server.redis import RedisServer


def open_server(connection: Connection) -> StreamServer:
    """The server at the other end of the connection. What it can do is asked once per connection (COMMAND INFO)."""
    return EngineServer(connection) if has_commands(connection, *EXTENSIONS) else RedisServer(connection)
