"""The table of redis.conf's directives: name, kind of value, default, range, and whether it can change at run time.

Flags, configuration files, CONFIG and the docs read it. A directive whose ``effect`` is false is accepted, kept and
given back, so that files and tools written for Redis work, but the engine does nothing with it (yet).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1

#: A value as it is kept: integers and sizes as int, yes/no as bool, all else as text.
Value = int | bool | bytes


class ConfigError(ValueError):
    """A directive or value that cannot be taken; the text says why, as Redis says it."""


_UNITS = {b"": 1, b"b": 1, b"k": 1000, b"kb": 1 << 10, b"m": 10**6, b"mb": 1 << 20, b"g": 10**9, b"gb": 1 << 30}
_MEMORY = re.compile(rb"([0-9]+)([a-zA-Z]*)")
_INTEGER = re.compile(rb"-?(0|[1-9][0-9]*)")


def parse_memory(word: bytes) -> int:
    """A size: digits, perhaps with a unit (``k`` is 1000, ``kb`` 1024). Empty is 0, as with Redis."""
    if not word:
        return 0
    found = _MEMORY.fullmatch(word)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ConfigError("argument must be a memory value")
    return int(found.group(1)) * unit


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive. ``kind`` is integer, memory, octal, bool, enum, text, words, or one with rules of its own."""

    name: str
    kind: str
    default: str
    low: int = 0
    high: int = I64_MAX
    choices: tuple[str, ...] = ()
    #: CONFIG SET may change it; a protected one only with enable-protected-configs.
    mutable: bool = True
    protected: bool = False
    #: The engine acts on it.
    effect: bool = False
    #: The other name that Redis knows it by; CONFIG GET shows both.
    alias: str = ""
    #: Further check of a text.
    check: Callable[[bytes], None] | None = field(default=None, compare=False)

    @property
    def several_words(self) -> bool:
        """Whether its value may consist of more than one word."""
        return self.kind in ("words", "save", "output-limits", "percentiles")

    def parse(self, words: Sequence[bytes], before: Value) -> Value:
        """The value that ``words`` spell, ``before`` being the value until now; ConfigError where they spell none."""
        if self.several_words:
            return _MULTI[self.kind](self, words, before)
        if len(words) != 1:
            raise ConfigError("wrong number of arguments")
        return _SINGLE[self.kind](self, words[0])

    def text(self, value: Value) -> bytes:
        """The value as CONFIG GET shows it."""
        if isinstance(value, bytes):
            return value
        if isinstance(value, bool):
            return b"yes" if value else b"no"
        return b"%o" % value if self.kind == "octal" else b"%d" % value

    def initial(self) -> Value:
        """The default value."""
        word = self.default.encode()
        return word if self.several_words else self.parse([word], b"")


# -- kinds of one word ------------------------------------------------------------------------------------------------


def _integer(directive: Directive, word: bytes) -> int:
    if not _INTEGER.fullmatch(word) or word == b"-0" or not -(1 << 63) <= int(word) < 1 << 64:
        raise ConfigError("argument couldn't be parsed into an integer")
    return _in_range(directive, int(word))


def _in_range(directive: Directive, value: int) -> int:
    if not directive.low <= value <= directive.high:
        raise ConfigError(f"argument must be between {directive.low} and {directive.high} inclusive")
    return value


def _memory(directive: Directive, word: bytes) -> int:
    return _in_range(directive, parse_memory(word))


def _octal(directive: Directive, word: bytes) -> int:
    try:
        value = int(word, 8)
    except ValueError:
        raise ConfigError("argument couldn't be parsed as an octal number") from None
    if not directive.low <= value <= directive.high:
        raise ConfigError(f"argument must be between {directive.low:o} and {directive.high:o} inclusive")
    return value


def _bool(directive: Directive, word: bytes) -> bool:
    del directive
    if word.lower() not in (b"yes", b"no"):
        raise ConfigError("argument must be 'yes' or 'no'")
    return word.lower() == b"yes"


def _enum(directive: Directive, word: bytes) -> bytes:
    for choice in directive.choices:
        if choice.encode() == word.lower():
            return word.lower()
    raise ConfigError("argument(s) must be one of the following: " + ", ".join(directive.choices))


def _text(directive: Directive, word: bytes) -> bytes:
    if directive.check is not None:
        directive.check(word)
    return word


def _memory_or_percent(directive: Directive, word: bytes) -> bytes:
    del directive
    if re.fullmatch(rb"[0-9]{1,3}%", word):
        return word
    try:
        return b"%d" % parse_memory(word)
    except ConfigError:
        raise ConfigError("argument must be a memory or percent value") from None


#: The letters of notify-keyspace-events, in the order in which Redis gives them back; A stands for the first ten.
EVENT_CLASSES = "g$lshzxetd"


class Events(bytes):
    """notify-keyspace-events as CONFIG GET shows it, which beside ``A`` leaves out an ``n`` that is in force."""

    #: What is in force, ``A`` written out.
    letters: frozenset[str]


def _events(directive: Directive, word: bytes) -> bytes:
    del directive
    given = word.decode("latin-1")
    if set(given) - set("Ag$lshzxeKEtmdn"):
        raise ConfigError("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
    chosen = set(given) | (set(EVENT_CLASSES) if "A" in given else set())
    if set(EVENT_CLASSES) <= chosen:
        shown = "A"
    else:
        shown = "".join(letter for letter in EVENT_CLASSES if letter in chosen) + ("n" if "n" in chosen else "")
    events = Events((shown + "".join(letter for letter in "KEm" if letter in chosen)).encode())
    events.letters = frozenset(chosen - {"A"})
    return events


_SINGLE: dict[str, Callable[[Directive, bytes], Value]] = {
    "integer": _integer,
    "memory": _memory,
    "octal": _octal,
    "bool": _bool,
    "enum": _enum,
    "text": _text,
    "memory-or-percent": _memory_or_percent,
    "events": _events,
}

# -- kinds of several words -------------------------------------------------------------------------------------------


def _words(directive: Directive, words: Sequence[bytes], before: Value) -> bytes:
    del before
    if directive.name == "oom-score-adj-values" and len(words) != 3:
        raise ConfigError("wrong number of arguments")
    return b" ".join(words)


def _save(directive: Directive, words: Sequence[bytes], before: Value) -> bytes:
    del directive, before
    if list(words) in ([], [b""]):
        return b""
    if len(words) % 2:
        raise ConfigError("Invalid save parameters")
    for seconds, changes in zip(words[::2], words[1::2], strict=True):
        if not (seconds.isdigit() and int(seconds) >= 1 and changes.isdigit()):
            raise ConfigError("Invalid save parameters")
    return b" ".join(words)


#: The classes of clients in client-output-buffer-limit, in Redis's order.
CLIENT_CLASSES = (b"normal", b"slave", b"pubsub")


def _output_limits(directive: Directive, words: Sequence[bytes], before: Value) -> bytes:
    assert isinstance(before, bytes)
    limits = output_limits(before or directive.default.encode())
    if len(words) % 4:
        raise ConfigError("Wrong number of arguments in buffer limit configuration.")
    for at in range(0, len(words), 4):
        name = b"slave" if words[at].lower() == b"replica" else words[at].lower()
        if name not in CLIENT_CLASSES:
            raise ConfigError("Invalid client class specified in buffer limit configuration.")
        try:
            hard, soft = parse_memory(words[at + 1]), parse_memory(words[at + 2])
            seconds = int(words[at + 3])
        except ValueError:
            seconds = -1
        if seconds < 0:
            raise ConfigError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
        limits[name] = (hard, soft, seconds)
    return b" ".join(b"%b %d %d %d" % (name, *limits[name]) for name in CLIENT_CLASSES)


def output_limits(value: bytes) -> dict[bytes, tuple[int, int, int]]:
    """client-output-buffer-limit by class: hard limit, soft limit (bytes; 0: none), seconds beyond the soft one."""
    words = value.split()
    return {words[at]: (int(words[at + 1]), int(words[at + 2]), int(words[at + 3])) for at in range(0, len(words), 4)}


def _percentiles(directive: Directive, words: Sequence[bytes], before: Value) -> bytes:
    del directive, before
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [-1.0]
    if not all(0 <= number <= 100 for number in numbers):
        raise ConfigError("Invalid latency-tracking-info-percentiles parameters")
    return b" ".join(b"%g" % number for number in numbers)


_MULTI: dict[str, Callable[[Directive, Sequence[bytes], Value], Value]] = {
    "words": _words,
    "save": _save,
    "output-limits": _output_limits,
    "percentiles": _percentiles,
}


def _file_name(what: str, name: str) -> Callable[[bytes], None]:
    def check(word: bytes) -> None:
        if b"/" in word or word in (b".", b".."):
            raise ConfigError(f"{name} can't be a path, just a {what}")

    return check


def _host_name(word: bytes) -> None:
    if not re.fullmatch(rb"[A-Za-z0-9.-]*", word):
        raise ConfigError("Hostnames may only contain alphanumeric characters, hyphens or dots")


# -- the table --------------------------------------------------------------------------------------------------------
# Short makers keep a line to a directive. `fixed`: not at run time; `acts`: the engine acts on it.


def _make(kind: str, name: str, default: object, marks: str, **more: object) -> Directive:
    word = {True: "yes", False: "no"}.get(default, str(default)) if isinstance(default, bool) else str(default)
    wanted = set(marks.split())
    assert wanted <= {"fixed", "protected", "acts"}, name
    return Directive(
        name,
        kind,
        word,
        mutable="fixed" not in wanted,
        protected="protected" in wanted,
        effect="acts" in wanted,
        **more,  # type: ignore[arg-type]
    )


def _i(name: str, default: int, low: int, high: int, marks: str = "", alias: str = "") -> Directive:
    return _make("integer", name, default, marks, low=low, high=high, alias=alias)


def _m(name: str, default: int, marks: str = "", low: int = 0, alias: str = "") -> Directive:
    return _make("memory", name, default, marks, low=low, alias=alias)


def _b(name: str, default: bool, marks: str = "", alias: str = "") -> Directive:
    return _make("bool", name, default, marks, alias=alias)


def _t(
    name: str, default: str = "", marks: str = "", check: Callable[[bytes], None] | None = None, alias: str = ""
) -> Directive:
    return _make("text", name, default, marks, check=check, alias=alias)


def _e(name: str, default: str, choices: str, marks: str = "") -> Directive:
    return _make("enum", name, default, marks, choices=tuple(choices.split()))


_YES_NO_LOCAL = "no yes local"
_SHUTDOWN = "default save nosave now force"

_TABLE: tuple[Directive, ...] = (
    # network
    _make("words", "bind", "127.0.0.1 -::1", "acts"),
    _i("port", 6379, 0, 65535, "acts"),
    _i("tcp-backlog", 511, 0, I32_MAX, "fixed acts"),
    _t("unixsocket", "", "fixed acts"),
    _make("octal", "unixsocketperm", 0, "fixed acts", high=0o777),
    _i("timeout", 0, 0, I32_MAX, "acts"),
    _i("tcp-keepalive", 300, 0, I32_MAX, "acts"),
    _b("protected-mode", True, "acts"),
    _t("bind-source-addr"),
    _i("socket-mark-id", 0, 0, (1 << 32) - 1, "fixed"),
    _i("maxclients", 10000, 1, (1 << 32) - 1, "acts"),
    _m("proto-max-bulk-len", 512 << 20, "acts", 1 << 20),
    _m("client-query-buffer-limit", 1 << 30, "acts", 1 << 20),
    _make(
        "output-limits",
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        "acts",
    ),
    _make("memory-or-percent", "maxmemory-clients", "0", ""),
    _i("io-threads", 1, 1, 128, "fixed"),
    _b("io-threads-do-reads", False, "fixed"),
    # TLS
    _i("tls-port", 0, 0, 65535, "acts"),
    _t("tls-cert-file", "", "acts"),
    _t("tls-key-file", "", "acts"),
    _t("tls-key-file-pass", "", "acts"),
    _t("tls-client-cert-file"),
    _t("tls-client-key-file"),
    _t("tls-client-key-file-pass"),
    _t("tls-dh-params-file", "", "acts"),
    _t("tls-ca-cert-file", "", "acts"),
    _t("tls-ca-cert-dir", "", "acts"),
    _e("tls-auth-clients", "yes", "no yes optional", "acts"),
    _b("tls-replication", False),
    _b("tls-cluster", False),
    _t("tls-protocols", "", "acts"),
    _t("tls-ciphers", "", "acts"),
    _t("tls-ciphersuites", "", "acts"),
    _b("tls-prefer-server-ciphers", False, "acts"),
    _b("tls-session-caching", True, "acts"),
    _i("tls-session-cache-size", 20480, 0, I32_MAX),
    _i("tls-session-cache-timeout", 300, 0, I32_MAX),
    # the process
    _b("daemonize", False, "fixed"),
    _e("supervised", "no", "upstart systemd auto no", "fixed"),
    _t("pidfile", "", "fixed acts"),
    _e("loglevel", "notice", "debug verbose notice warning", "acts"),
    _t("logfile", "", "fixed acts"),
    _b("syslog-enabled", False, "fixed"),
    _t("syslog-ident", "redis", "fixed"),
    _e("syslog-facility", "local0", "user local0 local1 local2 local3 local4 local5 local6 local7", "fixed"),
    _b("crash-log-enabled", True),
    _b("crash-memcheck-enabled", True),
    _b("always-show-logo", False, "fixed"),
    _b("set-proc-title", True, "fixed"),
    _t("proc-title-template", "{title} {listen-addr} {server-mode}"),
    _b("disable-thp", True, "fixed"),
    _b("jemalloc-bg-thread", True),
    _t("ignore-warnings"),
    _e("oom-score-adj", "no", "no yes relative absolute"),
    _make("words", "oom-score-adj-values", "0 200 800", ""),
    _t("server_cpulist", "", "fixed"),
    _t("bio_cpulist", "", "fixed"),
    _t("aof_rewrite_cpulist", "", "fixed"),
    _t("bgsave_cpulist", "", "fixed"),
    _i("hz", 10, 0, I32_MAX),
    _b("dynamic-hz", True),
    _i("shutdown-timeout", 10, 0, I32_MAX),
    _e("shutdown-on-sigint", "default", _SHUTDOWN, "acts"),
    _e("shutdown-on-sigterm", "default", _SHUTDOWN, "acts"),
    _e("enable-protected-configs", "no", _YES_NO_LOCAL, "fixed acts"),
    _e("enable-debug-command", "no", _YES_NO_LOCAL, "fixed acts"),
    _e("enable-module-command", "no", _YES_NO_LOCAL, "fixed"),
    # data
    _i("databases", 16, 1, I32_MAX, "fixed acts"),
    _t("dir", ".", "protected acts"),
    _m("maxmemory", 0, "acts"),
    _e(
        "maxmemory-policy",
        "noeviction",
        "volatile-lru volatile-lfu volatile-random volatile-ttl allkeys-lru allkeys-lfu allkeys-random noeviction",
    ),
    _i("maxmemory-samples", 5, 1, I32_MAX),
    _i("maxmemory-eviction-tenacity", 10, 0, 100),
    _i("lfu-log-factor", 10, 0, I32_MAX),
    _i("lfu-decay-time", 1, 0, I32_MAX),
    _b("lazyfree-lazy-eviction", False),
    _b("lazyfree-lazy-expire", False),
    _b("lazyfree-lazy-server-del", False),
    _b("lazyfree-lazy-user-del", False),
    _b("lazyfree-lazy-user-flush", False),
    _i("active-expire-effort", 1, 1, 10),
    _b("activerehashing", True),
    _b("activedefrag", False),
    _i("active-defrag-cycle-min", 1, 1, 99),
    _i("active-defrag-cycle-max", 25, 1, 99),
    _i("active-defrag-threshold-lower", 10, 0, 1000),
    _i("active-defrag-threshold-upper", 100, 0, 1000),
    _m("active-defrag-ignore-bytes", 100 << 20),
    _i("active-defrag-max-scan-fields", 1000, 1, I64_MAX),
    _m("stream-node-max-bytes", 4096, "acts"),
    _i("stream-node-max-entries", 100, 0, I64_MAX, "acts"),
    _i("stream-idmp-duration", 100, 1, 86400, "acts"),
    _i("stream-idmp-maxsize", 100, 1, 10000, "acts"),
    _e("stream-cold-compression", "zstd", "zstd lz4 no", "acts"),
    _i("stream-cold-age", 1, 0, 86400, "acts"),
    _i("hash-max-listpack-entries", 512, 0, I64_MAX, alias="hash-max-ziplist-entries"),
    _m("hash-max-listpack-value", 64, alias="hash-max-ziplist-value"),
    _i("list-max-listpack-size", -2, -(1 << 31), I32_MAX, alias="list-max-ziplist-size"),
    _i("list-compress-depth", 0, 0, I32_MAX),
    _i("set-max-intset-entries", 512, 0, I64_MAX),
    _i("zset-max-listpack-entries", 128, 0, I64_MAX, alias="zset-max-ziplist-entries"),
    _m("zset-max-listpack-value", 64, alias="zset-max-ziplist-value"),
    _m("hll-sparse-max-bytes", 3000),
    # access
    _t("requirepass", "", "acts"),
    _t("aclfile", "", "fixed acts"),
    _i("acllog-max-len", 128, 0, I64_MAX, "acts"),
    _e("acl-pubsub-default", "resetchannels", "allchannels resetchannels", "acts"),
    # what tools watch
    _make("events", "notify-keyspace-events", "", "acts"),
    _i("slowlog-log-slower-than", 10000, -1, I64_MAX, "acts"),
    _i("slowlog-max-len", 128, 0, I64_MAX, "acts"),
    _i("latency-monitor-threshold", 0, 0, I64_MAX, "acts"),
    _b("latency-tracking", True, "acts"),
    _make("percentiles", "latency-tracking-info-percentiles", "50 99 99.9", "acts"),
    _i("tracking-table-max-keys", 1000000, 0, I64_MAX),
    _i("busy-reply-threshold", 5000, 0, I64_MAX, alias="lua-time-limit"),
    # durability
    _make("save", "save", "3600 1 300 100 60 10000", "acts"),
    _t("dbfilename", "dump.rdb", "protected acts", _file_name("filename", "dbfilename")),
    _b("rdbcompression", True),
    _b("rdbchecksum", True, "fixed"),
    _b("rdb-del-sync-files", False),
    _b("rdb-save-incremental-fsync", True),
    _b("stop-writes-on-bgsave-error", True, "acts"),
    _e("sanitize-dump-payload", "no", "no yes clients"),
    _b("appendonly", False, "acts"),
    _t("appendfilename", "appendonly.aof", "fixed acts", _file_name("filename", "appendfilename")),
    _t("appenddirname", "appendonlydir", "fixed acts", _file_name("dirname", "appenddirname")),
    _e("appendfsync", "everysec", "everysec always no", "acts"),
    _b("no-appendfsync-on-rewrite", False, "acts"),
    _i("auto-aof-rewrite-percentage", 100, 0, I32_MAX, "acts"),
    _m("auto-aof-rewrite-min-size", 64 << 20, "acts"),
    _b("aof-load-truncated", True, "acts"),
    _b("aof-use-rdb-preamble", True, "acts"),
    _b("aof-timestamp-enabled", False),
    _b("aof-rewrite-incremental-fsync", True),
    _b("aof-disable-auto-gc", False),
    # replication
    _make("words", "replicaof", "", "fixed", alias="slaveof"),
    _t("masterauth"),
    _t("masteruser"),
    _b("replica-serve-stale-data", True, alias="slave-serve-stale-data"),
    _b("replica-read-only", True, alias="slave-read-only"),
    _i("replica-priority", 100, 0, I32_MAX, alias="slave-priority"),
    _b("replica-lazy-flush", False, alias="slave-lazy-flush"),
    _b("replica-ignore-maxmemory", True, alias="slave-ignore-maxmemory"),
    _t("replica-announce-ip", alias="slave-announce-ip"),
    _i("replica-announce-port", 0, 0, 65535, alias="slave-announce-port"),
    _b("replica-announced", True),
    _b("replica-ignore-disk-write-errors", False),
    _i("repl-ping-replica-period", 10, 1, I32_MAX, alias="repl-ping-slave-period"),
    _i("repl-timeout", 60, 1, I32_MAX),
    _m("repl-backlog-size", 1 << 20, low=1),
    _i("repl-backlog-ttl", 3600, 0, I64_MAX),
    _b("repl-disable-tcp-nodelay", False),
    _b("repl-diskless-sync", True),
    _i("repl-diskless-sync-delay", 5, 0, I32_MAX),
    _i("repl-diskless-sync-max-replicas", 0, 0, I32_MAX),
    _e("repl-diskless-load", "disabled", "disabled on-empty-db swapdb"),
    _i("min-replicas-to-write", 0, 0, I32_MAX, alias="min-slaves-to-write"),
    _i("min-replicas-max-lag", 10, 0, I32_MAX, alias="min-slaves-max-lag"),
    _e("propagation-error-behavior", "ignore", "ignore panic panic-on-replicas"),
    # cluster
    _b("cluster-enabled", False, "fixed"),
    _t("cluster-config-file", "nodes.conf", "fixed"),
    _i("cluster-port", 0, 0, 65535, "fixed"),
    _i("cluster-node-timeout", 15000, 0, I64_MAX),
    _i("cluster-migration-barrier", 1, 0, I32_MAX),
    _b("cluster-allow-replica-migration", True),
    _b("cluster-require-full-coverage", True),
    _b("cluster-allow-reads-when-down", False),
    _b("cluster-allow-pubsubshard-when-down", True),
    _m("cluster-link-sendbuf-limit", 0),
    _t("cluster-announce-ip"),
    _t("cluster-announce-hostname", check=_host_name),
    _i("cluster-announce-port", 0, 0, 65535),
    _i("cluster-announce-tls-port", 0, 0, 65535),
    _i("cluster-announce-bus-port", 0, 0, 65535),
    _e("cluster-preferred-endpoint-type", "ip", "ip hostname unknown-endpoint"),
    _i("cluster-replica-validity-factor", 10, 0, I32_MAX, alias="cluster-slave-validity-factor"),
    _b("cluster-replica-no-failover", False, alias="cluster-slave-no-failover"),
)

#: All directives by name.
DIRECTIVES: dict[str, Directive] = {directive.name: directive for directive in _TABLE}
#: Second names to first ones.
ALIASES: dict[str, str] = {directive.alias: directive.name for directive in _TABLE if directive.alias}
