"""Versions: the Redis that clients may take this server for, and the engine's own."""

from __future__ import annotations

#: The release that HELLO and INFO report: the newest one whose commands are all here or listed as left out.
#: Stream commands of later releases are known as well.
REDIS_VERSION = "8.6.3"
ENGINE_VERSION = "0.1.0.dev0"
