"""A client's REPLCONF settings before PSYNC or SYNC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AsReplica:
    """Settings of a client that is about to become a replica. The defaults apply if it sends no REPLCONF."""

    #: Announced port and address; 0 and empty if those of the connection apply.
    port: int = 0
    address: bytes = b""
    #: Capabilities: ``eof`` (a file of unknown length), ``psync2``, ``psb`` (the engine's own snapshots),
    #: ``rdb-any`` (RDB files of any existing version).
    capabilities: frozenset[bytes] = frozenset()
    #: Whether the client requests only the file, without later commands (``redis-cli --rdb``).
    rdb_only: bool = False
    #: Whether the file should contain no data, only the libraries of functions.
    without_data: bool = False
    version: bytes = b""
