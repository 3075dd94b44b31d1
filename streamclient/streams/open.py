"""Chooses the implementation of `StreamServer` for a connection: the engine's where the server has its commands."""

from __future__ import annotations

from streamclient.commands import EXTENSIONS
from streamclient.connection import Connection
from streamclient.streams.api import StreamServer
from streamclient.streams.engine import EngineServer
from streamclient.streams.redis import RedisServer


def open_server(connection: Connection) -> StreamServer:
    """The server at the other end of the connection. Its capabilities are asked once per connection (COMMAND INFO)."""
    return EngineServer(connection) if connection.capabilities.has(*EXTENSIONS) else RedisServer(connection)
