"""Commands of Redis that the engine leaves out, by family.

Errors name the family. The reference also names the alternative, if there is one besides Redis and Valkey.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A family of commands that is left out. A name that ends in a dot is a prefix of command names."""

    #: The family as the plural subject of a sentence: "... need Redis or Valkey".
    family: str
    commands: tuple[str, ...]
    #: The alternative to these commands on the engine, or the reason why they are left out.
    instead: str = ""


def _names(words: str) -> tuple[str, ...]:
    return tuple(words.split())


UNSUPPORTED = (
    Unsupported(
        "Lua scripts and functions",
        _names("eval eval_ro evalsha evalsha_ro fcall fcall_ro function script"),
        "`MULTI` and `EXEC` with `WATCH`",
    ),
    Unsupported(
        "sorted sets",
        _names(
            "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore "
            "zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank "
            "zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank "
            "zscan zscore zunion zunionstore"
        ),
    ),
    Unsupported(
        "lists",
        _names(
            "blmove blmovem blmpop blpop brpop brpoplpush lindex linsert llen lmove lmovem lmpop lpop lpos lpush "
            "lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx"
        ),
        "a stream with a consumer group as a queue",
    ),
    Unsupported(
        "sets",
        _names(
            "sadd scard sdiff sdiffcard sdiffstore sinter sintercard sinterstore sismember smembers smismember smove "
            "spop srandmember srem sscan sunion sunioncard sunionstore"
        ),
        "the fields of a hash",
    ),
    Unsupported("SORT and SORT_RO", _names("sort sort_ro")),
    Unsupported(
        "expiring hash fields",
        _names(
            "hexpire hexpireat hexpiretime hgetdel hgetex hgetf hpersist hpexpire hpexpireat hpexpiretime hpttl hsetex "
            "hsetf httl"
        ),
        "keys that expire",
    ),
    Unsupported(
        "SETEX and PSETEX (unlike SET with EX or PX)",
        _names("psetex setex"),
        "`SET` has all its options, such as `EX`, `NX` and `IFEQ`",
    ),
    Unsupported(
        "other string commands",
        _names("delex digest getrange incrbyfloat increx lcs msetex msetnx setrange substr"),
    ),
    Unsupported("bit commands", _names("bitcount bitfield bitfield_ro bitop bitpos getbit setbit")),
    Unsupported(
        "HyperLogLogs",
        _names("pfadd pfcount pfdebug pfmerge pfselftest"),
        "`approx_count_distinct` of Spark over the stream",
    ),
    Unsupported(
        "geo commands",
        _names(
            "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch "
            "geosearchstore"
        ),
    ),
    Unsupported(
        "vector sets",
        _names("vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim"),
    ),
    Unsupported(
        "arrays",
        _names(
            "arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext "
            "arop arring arscan arseek arset"
        ),
    ),
    Unsupported("imports of hashes", _names("himport"), "`HSET` with several fields"),
    Unsupported(
        "modules",
        _names("module|load module|loadex module|unload json. ft. bf. cf. cms. topk. tdigest. ts."),
        "the engine loads no foreign code",
    ),
    Unsupported("transfers of keys between servers", _names("migrate"), "DUMP and RESTORE, or replication"),
    Unsupported(
        "client-side caches",
        _names("client|tracking client|trackinginfo client|caching client|getredir"),
        "keyspace events (`notify-keyspace-events`)",
    ),
    Unsupported(
        "waits for the disk",
        _names("waitaof"),
        "with `appendfsync always`, replies wait for it; `WAIT` for replicas",
    ),
    Unsupported(
        "evictions",
        _names("client|no-evict"),
        "above `maxmemory`, adding data is rejected; `maxmemory-policy` and `maxmemory-clients` are ignored",
    ),
    Unsupported(
        "shard channels",
        _names("ssubscribe sunsubscribe spublish pubsub|shardchannels pubsub|shardnumsub"),
        "`SUBSCRIBE` and `PUBLISH`",
    ),
    Unsupported(
        "cluster commands",
        _names("restore-asking trimslots"),
        "one engine is one shard; CLUSTER and related commands are refused",
    ),
    Unsupported("random keys and passwords", _names("randomkey acl|genpass"), "`SCAN`, and `openssl rand -hex 32`"),
    Unsupported("encodings and times of use", _names("object client|no-touch"), "`TYPE` and `MEMORY USAGE`"),
    Unsupported(
        "further reports",
        _names(
            "memory|doctor memory|malloc-stats memory|stats latency|doctor latency|graph latency|history command|docs "
            "command|list command|getkeys command|getkeysandflags lolwut"
        ),
        "`INFO`, `LATENCY LATEST`, `COMMAND`, `HELP` after a container, and the log, which names the causes of slow "
        "iterations",
    ),
    Unsupported("searches for hot keys", _names("hotkeys"), "`MONITOR` and `SLOWLOG` name the keys of commands"),
)
_FAMILIES = {name: entry.family for entry in UNSUPPORTED for name in entry.commands}


def family_of(name: bytes) -> bytes | None:
    """Return the family of a command that is left out, given its name in any case; None for other commands."""
    word = name.decode("latin-1").lower()
    prefix, dot, _ = word.partition(".")
    found = _FAMILIES.get(word) or _FAMILIES.get(prefix + dot)
    return found.encode() if found is not None else None
