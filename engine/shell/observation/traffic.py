"""Counters of what passes over the sockets, for INFO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """One server's, since its start; the connections count."""

    bytes_in: int = 0
    bytes_out: int = 0
    #: Connections that were accepted, and those of them that were sent away.
    accepted: int = 0
    rejected: int = 0
    #: Clients that have connected, and whose TLS handshake is not done.
    handshaking: int = 0
    #: Clients that were dropped because of client-query-buffer-limit and of client-output-buffer-limit.
    query_overruns: int = 0
    output_overruns: int = 0
    #: Clients that were dropped because of maxmemory-clients.
    evicted: int = 0
