"""Commands of Redis that the engine leaves out, by subject.

Errors name the subject. The reference also names the alternative, or the reason for leaving the commands out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Commands about one subject that are left out. A name that ends in a dot is a prefix of command names."""

    subject: str
    #: The alternative to these commands, or the reason why they are left out.
    instead: str
    commands: tuple[str, ...]


UNSUPPORTED = (
    Unsupported(
        "bit commands",
        "a Redis next to the engine, or flags in a hash or a set",
        ("bitcount", "bitfield", "bitfield_ro", "bitop", "bitpos", "getbit", "setbit"),
    ),
    Unsupported(
        "HyperLogLog",
        "`approx_count_distinct` of Spark over the stream",
        ("pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest"),
    ),
    Unsupported(
        "geo commands",
        "a Redis next to the engine",
        (
            *("geoadd", "geodist", "geohash", "geopos", "georadius", "georadius_ro", "georadiusbymember"),
            *("georadiusbymember_ro", "geosearch", "geosearchstore"),
        ),
    ),
    Unsupported("the longest common subsequence", "the client computes it from two GETs", ("lcs",)),
    Unsupported(
        "vector sets",
        "a Redis next to the engine",
        (
            *("vadd", "vcard", "vdim", "vemb", "vgetattr", "vinfo", "vismember", "vlinks", "vrandmember", "vrange"),
            *("vrem", "vsetattr", "vsim"),
        ),
    ),
    Unsupported(
        "arrays",
        "a hash with the indexes as fields, or a Redis next to the engine",
        (
            *("arcount", "ardel", "ardelrange", "arget", "argetrange", "argrep", "arinfo", "arinsert", "arlastitems"),
            *("arlen", "armget", "armset", "arnext", "arop", "arring", "arscan", "arseek", "arset"),
        ),
    ),
    Unsupported(
        "commands of Redis 8.8 and later, except stream commands",
        (
            "`INCR` with `EXPIRE NX`, `HSET`, `LMOVE`, `SUNION` and `SDIFF`, in a script if they must be one step; "
            "`AGGREGATE COUNT` and subkey notifications are missing as well"
        ),
        ("increx", "himport", "lmovem", "blmovem", "sunioncard", "sdiffcard"),
    ),
    Unsupported(
        "modules",
        "the engine loads no foreign code; `load-unknown skip` omits their data",
        (
            *("module|load", "module|loadex", "module|unload", "json.", "ft.", "bf.", "cf.", "cms.", "topk."),
            *("tdigest.", "ts."),
        ),
    ),
    Unsupported("moving keys to another server", "DUMP and RESTORE, or replication", ("migrate",)),
    Unsupported(
        "client-side caching",
        "keyspace events (`notify-keyspace-events`); CLIENT TRACKING ON is refused",
        ("client|tracking",),
    ),
    Unsupported(
        "eviction",
        "above `maxmemory`, adding data is rejected; `maxmemory-policy` values except `noeviction` only log a warning",
        (),
    ),
    Unsupported(
        "the cluster bus",
        "one engine is one shard; CLUSTER and related commands are refused",
        ("restore-asking", "trimslots"),
    ),
    Unsupported("the search for hot keys", "`MONITOR` and `SLOWLOG` name the keys of commands", ("hotkeys",)),
)
_SUBJECTS = {name: entry.subject for entry in UNSUPPORTED for name in entry.commands}


def subject_of(name: bytes) -> bytes | None:
    """Return the subject of a command that is left out, given its name in any case; None for other commands."""
    word = name.decode("latin-1").lower()
    found = _SUBJECTS.get(word) or _SUBJECTS.get(word.partition(".")[0] + ".")
    return found.encode() if found is not None else None
