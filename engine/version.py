"""Versions: the Redis that clients may take this server for, and the engine's own."""

from __future__ import annotations

#: What HELLO and INFO tell clients: the behaviour of this release of Redis, as far as streams go.
REDIS_VERSION = "8.10.0"
ENGINE_VERSION = "0.1.0.dev0"
