"""Commands that Redis marks as deprecated or internal: COMMAND DOCS reports the mark, and clients show warnings."""

from __future__ import annotations

#: Command -> the release of Redis that deprecated the command, and the replacement.
DEPRECATED = {
    "brpoplpush": ("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    "getset": ("6.2.0", "`SET` with the `!GET` argument"),
    "hmset": ("4.0.0", "`HSET` with multiple field-value pairs"),
    "psetex": ("2.6.12", "`SET` with the `PX` argument"),
    "quit": ("7.2.0", "just closing the connection"),
    "rpoplpush": ("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    "setex": ("2.6.12", "`SET` with the `EX` argument"),
    "setnx": ("2.6.12", "`SET` with the `NX` argument"),
    "slaveof": ("5.0.0", "`REPLICAOF`"),
    "substr": ("2.0.0", "`GETRANGE`"),
    "zrangebylex": ("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    "zrangebyscore": ("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    "zrevrange": ("6.2.0", "`ZRANGE` with the `REV` argument"),
    "zrevrangebylex": ("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    "zrevrangebyscore": ("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
}
#: Commands for servers and their tests, not for applications.
INTERNAL = frozenset({"debug", "replconf"})
