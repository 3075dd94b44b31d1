"""Traffic counters of the sockets, for INFO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counters of one server since its start, updated by the connections."""

    bytes_in: int = 0
    bytes_out: int = 0
    #: Number of accepted connections, including those that were rejected afterwards.
    accepted: int = 0
    #: Number of connections that were rejected after they had been accepted.
    rejected: int = 0
    #: Number of connected clients whose TLS handshake is not complete.
    handshaking: int = 0
    #: Number of clients dropped because of client-query-buffer-limit.
    query_overruns: int = 0
    #: Number of clients dropped because of client-output-buffer-limit.
    output_overruns: int = 0
    #: Number of clients dropped because of maxmemory-clients.
    evicted: int = 0
