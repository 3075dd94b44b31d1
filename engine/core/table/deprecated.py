"""Commands that Redis marks as deprecated or internal: COMMAND DOCS reports the mark, and clients show warnings."""

from __future__ import annotations

#: Command -> the release of Redis that deprecated the command, and the replacement.
DEPRECATED = {
    "getset": ("6.2.0", "`SET` with the `!GET` argument"),
    "hmset": ("4.0.0", "`HSET` with multiple field-value pairs"),
    "quit": ("7.2.0", "just closing the connection"),
    "setnx": ("2.6.12", "`SET` with the `NX` argument"),
    "slaveof": ("5.0.0", "`REPLICAOF`"),
}
#: Commands for servers and their tests, not for applications.
INTERNAL = frozenset({"debug", "replconf"})
