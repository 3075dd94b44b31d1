"""A server of streams, divided into parts. Parts for the engine use its own commands where these are faster."""

from __future__ import annotations

from dataclasses import dataclass

from streamclient.commands import EXTENSIONS
from streamclient.connection import Connection
from streamclient.streams.api import Delivery, Entries, States
from streamclient.streams.counting import RedisEntries
from streamclient.streams.delivery import RedisDelivery
from streamclient.streams.engine import EngineDelivery, EngineEntries, EngineStates
from streamclient.streams.group_reads import GroupReads
from streamclient.streams.groups import Groups
from streamclient.streams.leases import Leases
from streamclient.streams.stream_keys import StreamKeys
from streamclient.streams.stream_states import RedisStates


@dataclass(frozen=True)
class StreamServer:
    """The parts of a server that planners and readers use."""

    streams: StreamKeys
    states: States
    entries: Entries
    groups: Groups
    delivery: Delivery
    group_reads: GroupReads
    leases: Leases


def open_server(connection: Connection) -> StreamServer:
    """Return the server at the other end of the connection.

    The engine's commands are used if the server has all of them. COMMAND INFO checks this once per connection.
    """
    return extended_server(connection) if connection.capabilities.has(*EXTENSIONS) else plain_server(connection)


def plain_server(connection: Connection) -> StreamServer:
    """Return a server on which only the commands of any Redis are used."""
    states = RedisStates(connection)
    return _server(connection, states, RedisEntries(connection, states), is_engine=False)


def extended_server(connection: Connection) -> StreamServer:
    """Return a server that has all of `EXTENSIONS`."""
    return _server(connection, EngineStates(connection), EngineEntries(connection), is_engine=True)


def _server(connection: Connection, states: States, entries: Entries, *, is_engine: bool) -> StreamServer:
    groups, reads = Groups(connection), GroupReads(connection, states, entries)
    by_entry = RedisDelivery(connection, groups, reads)
    delivery = EngineDelivery(connection, by_entry) if is_engine else by_entry
    return StreamServer(StreamKeys(connection), states, entries, groups, delivery, reads, Leases(connection))
