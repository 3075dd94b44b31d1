"""A client's REPLCONF settings before PSYNC or SYNC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AsReplica:
    """A client that is about to become a replica; the fields have the defaults of a client without REPLCONF."""

    #: Announced address; 0 and empty: the address of its connection.
    port: int = 0
    address: bytes = b""
    #: Capabilities: ``eof`` (a file of unknown length), ``psync2``, ``psb`` (the engine's own snapshots),
    #: ``rdb-any`` (RDB files of any existing version).
    capabilities: frozenset[bytes] = frozenset()
    #: Whether it wants only the file, without later commands (``redis-cli --rdb``).
    rdb_only: bool = False
    #: Whether the file should contain no data, only the libraries of functions.
    without_data: bool = False
    version: bytes = b""
