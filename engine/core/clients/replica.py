"""A client's REPLCONF settings before PSYNC or SYNC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AsReplica:
    """Settings of a client that is about to become a replica. The defaults apply without REPLCONF."""

    #: Announced port; 0 if the port of the connection applies.
    port: int = 0
    #: Announced address; empty if the address of the connection applies.
    address: bytes = b""
    #: Capabilities: ``eof`` (snapshots of unknown length), ``psync2``, ``psb`` (snapshots in the engine's own format),
    #: ``rdb-any`` (RDB files of any existing version), ``rdb-channel-repl`` (shows that the client is Redis 8).
    capabilities: frozenset[bytes] = frozenset()
    #: Whether the client requests only a snapshot, without later commands (``redis-cli --rdb``).
    rdb_only: bool = False
    version: bytes = b""
