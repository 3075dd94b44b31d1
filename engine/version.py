"""Versions: the Redis release that the server reports to clients, and the engine's own version."""

from __future__ import annotations

#: Release reported by HELLO and INFO: the newest release whose commands are all implemented, or listed in
#: ``engine.core.table.unsupported``.
#: Stream commands of later releases are supported too.
REDIS_VERSION = "8.6.3"
ENGINE_VERSION = "1.0.0rc1"
