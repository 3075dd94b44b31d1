"""What a client says of itself with REPLCONF before it asks for PSYNC or SYNC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AsReplica:
    """A client that is about to become a replica; what it has not said is as it stands here."""

    #: Where it says that it can be reached; 0 and empty: at the address that it comes from.
    port: int = 0
    address: bytes = b""
    #: What it can do: ``eof`` (a file whose length is not known), ``psync2``, ``psb`` (the engine's own snapshots),
    #: ``rdb-any`` (RDB files of any version that there is).
    capabilities: frozenset[bytes] = frozenset()
    #: It wants the file and nothing that happens later (``redis-cli --rdb``).
    rdb_only: bool = False
    #: Of the file it wants no data, only the libraries of functions.
    without_data: bool = False
    version: bytes = b""
