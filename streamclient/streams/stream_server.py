"""A server of streams, divided into parts. Parts for the engine use its own commands where these are faster."""

from __future__ import annotations

from dataclasses import dataclass

from streamclient.commands import EXTENSIONS
from streamclient.connection import Connection
from streamclient.streams.counting import Entries
from streamclient.streams.delivery import Delivery
from streamclient.streams.engine import EngineDelivery, EngineEntries, EngineStates
from streamclient.streams.groups import Groups
from streamclient.streams.leases import Leases
from streamclient.streams.stream_keys import StreamKeys
from streamclient.streams.stream_states import States


@dataclass(frozen=True)
class StreamServer:
    """The parts of a server that planners and readers use."""

    streams: StreamKeys
    states: States
    entries: Entries
    groups: Groups
    delivery: Delivery
    leases: Leases


def open_server(connection: Connection) -> StreamServer:
    """Return the server at the other end of the connection.

    The engine's commands are used if the server has all of them. COMMAND INFO checks this once per connection.
    """
    return extended_server(connection) if connection.capabilities.has(*EXTENSIONS) else plain_server(connection)


def plain_server(connection: Connection) -> StreamServer:
    """Return a server on which only the commands of any Redis are used."""
    groups, states = Groups(connection), States(connection)
    entries = Entries(connection, states)
    delivery = Delivery(connection, groups, states, entries)
    return StreamServer(StreamKeys(connection), states, entries, groups, delivery, Leases(connection))


def extended_server(connection: Connection) -> StreamServer:
    """Return a server that has all of `EXTENSIONS`."""
    groups, states = Groups(connection), EngineStates(connection)
    entries = EngineEntries(connection, states)
    delivery = EngineDelivery(connection, groups, states, entries)
    return StreamServer(StreamKeys(connection), states, entries, groups, delivery, Leases(connection))
