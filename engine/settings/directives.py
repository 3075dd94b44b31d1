"""The table of redis.conf's directives: name, kind of value, default, range, and whether it can change at run time.

Flags, configuration files and CONFIG use this table. A directive that is not marked ``ACTS`` has no effect. It is
accepted and shown, so that files and tools written for Redis work. The defaults of Redis's directives are Redis's.

To add a directive, add a row. If no kind fits its value, add a kind to ``engine.settings.kinds``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from engine.settings.kinds import (
    I32_MAX,
    I64_MAX,
    Choice,
    Integer,
    Kind,
    Memory,
    MemoryOrPercent,
    Octal,
    OnlyOneOf,
    Text,
    Words,
    YesNo,
    file_name,
    host_name,
)
from engine.settings.special_kinds import EventLetters, Master, OutputLimits, Percentiles, SavePoints, VersionOfFiles
from engine.text.messages import settings

_U32_MAX = (1 << 32) - 1


class Mark(Flag):
    """Properties of a directive."""

    NONE = 0
    #: Has an effect; other directives are only accepted and shown.
    ACTS = auto()
    #: CONFIG SET cannot change it.
    FIXED = auto()
    #: CONFIG SET can change it only with enable-protected-configs.
    PROTECTED = auto()


NONE, ACTS, FIXED, PROTECTED = Mark.NONE, Mark.ACTS, Mark.FIXED, Mark.PROTECTED


@dataclass(frozen=True, slots=True)
class Directive:
    """A row of the table. ``alias``: its second name in Redis; flags, files and CONFIG accept both names."""

    name: str
    kind: Kind
    #: Default value, in the type that the docstring of its kind names.
    default: Any
    marks: Mark = NONE
    alias: str = ""


def _integer(name: str, default: int, low: int, high: int, marks: Mark = NONE, alias: str = "") -> Directive:
    return Directive(name, Integer(low, high), default, marks, alias)


def _memory(name: str, default: int, marks: Mark = NONE, low: int = 0, alias: str = "") -> Directive:
    return Directive(name, Memory(low), default, marks, alias)


def _yes_no(name: str, default: bool, marks: Mark = NONE, alias: str = "") -> Directive:
    return Directive(name, YesNo(), default, marks, alias)


def _choice(name: str, default: str, choices: str, marks: Mark = NONE) -> Directive:
    return Directive(name, Choice(tuple(choices.split())), default.encode(), marks)


def _text(
    name: str, default: str = "", marks: Mark = NONE, check: Callable[[bytes], None] | None = None, alias: str = ""
) -> Directive:
    return Directive(name, Text(check), default.encode(), marks, alias)


def _special(name: str, kind: Kind, default: str, marks: Mark = NONE, alias: str = "") -> Directive:
    """Return a row whose default is given as text, as in a configuration file."""
    words = default.encode().split() if kind.several_words else [default.encode()]
    return Directive(name, kind, kind.parse(words, {}), marks, alias)


_YES_NO_LOCAL = "no yes local"
_SHUTDOWN = "default save nosave now force"
_FACILITIES = "user local0 local1 local2 local3 local4 local5 local6 local7"
_EVICTIONS = (
    "volatile-lru volatile-lfu volatile-random volatile-ttl volatile-lrm "
    "allkeys-lru allkeys-lfu allkeys-random allkeys-lrm noeviction"
)
_LIMITS = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
_DB_FILE = file_name("dbfilename", "filename")
_LOG_FILE = file_name("appendfilename", "filename")
_LOG_DIRECTORY = file_name("appenddirname", "dirname")

_TABLE: tuple[Directive, ...] = (
    # network
    _special("bind", Words(), "127.0.0.1 -::1", FIXED | ACTS),
    _integer("port", 6379, 0, 65535, FIXED | ACTS),
    _integer("tcp-backlog", 511, 0, I32_MAX, FIXED | ACTS),
    _text("unixsocket", "", FIXED | ACTS),
    _special("unixsocketperm", Octal(0o777), "0", FIXED | ACTS),
    _integer("timeout", 0, 0, I32_MAX, ACTS),
    _integer("tcp-keepalive", 300, 0, I32_MAX, ACTS),
    _yes_no("protected-mode", True, ACTS),
    _text("bind-source-addr", "", ACTS),
    _integer("socket-mark-id", 0, 0, _U32_MAX, FIXED),
    _integer("lookahead", 16, 1, I32_MAX),
    _integer("max-new-connections-per-cycle", 10, 1, 1000),
    _integer("max-new-tls-connections-per-cycle", 1, 1, 1000),
    _text("server-cpulist", "", FIXED),
    _text("bio-cpulist", "", FIXED),
    _text("aof-rewrite-cpulist", "", FIXED),
    _text("bgsave-cpulist", "", FIXED),
    _text("locale-collate"),
    _integer("maxclients", 10000, 1, _U32_MAX, ACTS),
    _memory("proto-max-bulk-len", 512 << 20, ACTS, 1 << 20),
    _memory("client-query-buffer-limit", 1 << 30, ACTS, 1 << 20),
    _special("client-output-buffer-limit", OutputLimits(), _LIMITS, ACTS),
    _special("maxmemory-clients", MemoryOrPercent(), "0", ACTS),
    _integer("io-threads", 1, 1, 128, FIXED),
    _yes_no("io-threads-do-reads", False, FIXED),
    # TLS
    _integer("tls-port", 0, 0, 65535, FIXED | ACTS),
    _text("tls-cert-file", "", ACTS),
    _text("tls-key-file", "", ACTS),
    _text("tls-key-file-pass", "", ACTS),
    _text("tls-client-cert-file", "", ACTS),
    _text("tls-client-key-file", "", ACTS),
    _text("tls-client-key-file-pass", "", ACTS),
    _text("tls-dh-params-file", "", ACTS),
    _text("tls-ca-cert-file", "", ACTS),
    _text("tls-ca-cert-dir", "", ACTS),
    _choice("tls-auth-clients", "yes", "no yes optional", ACTS),
    _choice("tls-auth-clients-user", "off", "CN off", ACTS),
    _yes_no("tls-replication", False, ACTS),
    _yes_no("tls-cluster", False),
    _text("tls-protocols", "", ACTS),
    _text("tls-ciphers", "", ACTS),
    _text("tls-ciphersuites", "", ACTS),
    _yes_no("tls-prefer-server-ciphers", False, ACTS),
    _yes_no("tls-session-caching", True, ACTS),
    _integer("tls-session-cache-size", 20480, 0, I32_MAX),
    _integer("tls-session-cache-timeout", 300, 0, I32_MAX),
    # the process
    _yes_no("daemonize", False, FIXED),
    _choice("supervised", "no", "upstart systemd auto no", FIXED),
    _text("pidfile", "", FIXED | ACTS),
    _choice("loglevel", "notice", "debug verbose notice warning", ACTS),
    _choice("log-format", "legacy", "legacy json", ACTS),
    _text("logfile", "", FIXED | ACTS),
    _yes_no("syslog-enabled", False, FIXED),
    _text("syslog-ident", "redis", FIXED),
    _choice("syslog-facility", "local0", _FACILITIES, FIXED),
    _yes_no("crash-log-enabled", True),
    _yes_no("crash-memcheck-enabled", True),
    _yes_no("always-show-logo", False, FIXED),
    _yes_no("set-proc-title", True, FIXED),
    _text("proc-title-template", "{title} {listen-addr} {server-mode}"),
    _yes_no("disable-thp", True, FIXED),
    _yes_no("jemalloc-bg-thread", True),
    _text("ignore-warnings"),
    _choice("oom-score-adj", "no", "no yes relative absolute"),
    _special("oom-score-adj-values", Words(3), "0 200 800"),
    _text("server_cpulist", "", FIXED),
    _text("bio_cpulist", "", FIXED),
    _text("aof_rewrite_cpulist", "", FIXED),
    _text("bgsave_cpulist", "", FIXED),
    _integer("hz", 10, 0, I32_MAX),
    _yes_no("dynamic-hz", True),
    _integer("shutdown-timeout", 10, 0, I32_MAX, ACTS),
    _choice("shutdown-on-sigint", "default", _SHUTDOWN, ACTS),
    _choice("shutdown-on-sigterm", "default", _SHUTDOWN, ACTS),
    _choice("enable-protected-configs", "no", _YES_NO_LOCAL, FIXED | ACTS),
    _choice("enable-debug-command", "no", _YES_NO_LOCAL, FIXED | ACTS),
    _choice("enable-module-command", "no", _YES_NO_LOCAL, FIXED),
    # data
    _integer("databases", 16, 1, I32_MAX, FIXED | ACTS),
    _text("dir", ".", PROTECTED | ACTS),
    _memory("maxmemory", 0, ACTS),
    _choice("maxmemory-policy", "noeviction", _EVICTIONS),
    _integer("maxmemory-samples", 5, 1, 64),
    _integer("maxmemory-eviction-tenacity", 10, 0, 100),
    _integer("lfu-log-factor", 10, 0, I32_MAX),
    _integer("lfu-decay-time", 1, 0, I32_MAX),
    _yes_no("lazyfree-lazy-eviction", False),
    _yes_no("lazyfree-lazy-expire", False),
    _yes_no("lazyfree-lazy-server-del", False),
    _yes_no("lazyfree-lazy-user-del", False),
    _yes_no("lazyfree-lazy-user-flush", False),
    _integer("active-expire-effort", 1, 1, 10),
    _yes_no("activerehashing", True),
    _yes_no("activedefrag", False),
    _integer("active-defrag-cycle-min", 1, 1, 99),
    _integer("active-defrag-cycle-max", 25, 1, 99),
    _integer("active-defrag-threshold-lower", 10, 0, 1000),
    _integer("active-defrag-threshold-upper", 100, 0, 1000),
    _memory("active-defrag-ignore-bytes", 100 << 20, low=1),
    _integer("active-defrag-max-scan-fields", 1000, 1, I64_MAX),
    _memory("stream-node-max-bytes", 4096, ACTS),
    _integer("stream-node-max-entries", 100, 0, I64_MAX, ACTS),
    _integer("stream-idmp-duration", 100, 1, 86400, ACTS),
    _integer("stream-idmp-maxsize", 100, 1, 10000, ACTS),
    _yes_no("stream-cold-compression", True, ACTS),
    _integer("stream-cold-age", 1, 0, 86400, ACTS),
    _choice("stream-storage", "memory", "memory disk", FIXED | ACTS),
    _memory("stream-cache-size", 64 << 20, ACTS, 1 << 20),
    _memory("stream-file-size", 256 << 20, ACTS, 1 << 10),
    _integer("hash-max-listpack-entries", 512, 0, I64_MAX, ACTS, alias="hash-max-ziplist-entries"),
    _memory("hash-max-listpack-value", 64, ACTS, alias="hash-max-ziplist-value"),
    _integer("list-max-listpack-size", -2, -(1 << 31), I32_MAX, alias="list-max-ziplist-size"),
    _integer("list-compress-depth", 0, 0, I32_MAX),
    _integer("set-max-intset-entries", 512, 0, I64_MAX, ACTS),
    _integer("zset-max-listpack-entries", 128, 0, I64_MAX, ACTS, alias="zset-max-ziplist-entries"),
    _memory("zset-max-listpack-value", 64, ACTS, alias="zset-max-ziplist-value"),
    _integer("set-max-listpack-entries", 128, 0, I64_MAX, ACTS),
    _integer("set-max-listpack-value", 64, 0, I64_MAX, ACTS),
    _memory("hll-sparse-max-bytes", 3000),
    _yes_no("vset-force-single-threaded-execution", False, FIXED),
    # access
    _text("requirepass", "", ACTS),
    _text("aclfile", "", FIXED | ACTS),
    _integer("acllog-max-len", 128, 0, I64_MAX, ACTS),
    _choice("acl-pubsub-default", "resetchannels", "allchannels resetchannels", ACTS),
    # notifications and monitoring
    _special("notify-keyspace-events", EventLetters(), "", ACTS),
    _integer("slowlog-log-slower-than", 10000, -1, I64_MAX, ACTS, alias="commandlog-execution-slower-than"),
    _integer("slowlog-max-len", 128, 0, I64_MAX, ACTS, alias="commandlog-slow-execution-max-len"),
    _integer("latency-monitor-threshold", 0, 0, I64_MAX, ACTS),
    _yes_no("hide-user-data-from-log", False),
    _yes_no("key-memory-histograms", False, FIXED),
    _yes_no("latency-tracking", True, ACTS),
    _special("latency-tracking-info-percentiles", Percentiles(), "50 99 99.9", ACTS),
    _integer("tracking-table-max-keys", 1000000, 0, I64_MAX),
    _integer("busy-reply-threshold", 5000, 0, I64_MAX, ACTS, alias="lua-time-limit"),
    # durability
    _special("save", SavePoints(), "3600 1 300 100 60 10000", ACTS),
    _text("dbfilename", "dump.rdb", PROTECTED | ACTS, _DB_FILE),
    _choice("save-format", "rdb", "rdb psb", ACTS),
    Directive("rdb-version", VersionOfFiles(10, 14, 80), 10, ACTS),
    _choice("load-unknown", "error", "error skip", ACTS),
    _yes_no("rdbcompression", True),
    _yes_no("rdbchecksum", True, FIXED | ACTS),
    _yes_no("rdb-del-sync-files", False),
    _yes_no("rdb-save-incremental-fsync", True),
    _yes_no("stop-writes-on-bgsave-error", True, ACTS),
    _choice("sanitize-dump-payload", "no", "no yes clients"),
    _yes_no("appendonly", False, ACTS),
    _text("appendfilename", "appendonly.aof", FIXED | ACTS, _LOG_FILE),
    _text("appenddirname", "appendonlydir", FIXED | ACTS, _LOG_DIRECTORY),
    _choice("appendfsync", "everysec", "everysec always no", ACTS),
    _yes_no("no-appendfsync-on-rewrite", False, ACTS),
    _integer("auto-aof-rewrite-percentage", 100, 0, I32_MAX, ACTS),
    _memory("auto-aof-rewrite-min-size", 64 << 20, ACTS),
    _yes_no("aof-load-truncated", True, ACTS),
    _integer("aof-load-corrupt-tail-max-size", 0, 0, I64_MAX),
    _yes_no("aof-use-rdb-preamble", True, ACTS),
    _yes_no("aof-timestamp-enabled", False),
    _yes_no("aof-rewrite-incremental-fsync", True),
    _yes_no("aof-disable-auto-gc", False),
    # replication
    _special("replicaof", Master(), "", FIXED | ACTS, alias="slaveof"),
    _text("masterauth", "", ACTS, alias="primaryauth"),
    _text("masteruser", "", ACTS, alias="primaryuser"),
    _yes_no("replica-serve-stale-data", True, ACTS, alias="slave-serve-stale-data"),
    _yes_no("replica-read-only", True, ACTS, alias="slave-read-only"),
    _integer("replica-priority", 100, 0, I32_MAX, ACTS, alias="slave-priority"),
    _yes_no("replica-lazy-flush", False, alias="slave-lazy-flush"),
    _yes_no("replica-ignore-maxmemory", True, ACTS, alias="slave-ignore-maxmemory"),
    _text("replica-announce-ip", "", ACTS, alias="slave-announce-ip"),
    _integer("replica-announce-port", 0, 0, 65535, ACTS, alias="slave-announce-port"),
    _yes_no("replica-announced", True, ACTS),
    _yes_no("replica-ignore-disk-write-errors", False),
    _integer("repl-ping-replica-period", 10, 1, I32_MAX, ACTS, alias="repl-ping-slave-period"),
    _integer("repl-timeout", 60, 1, I32_MAX, ACTS),
    _memory("replica-full-sync-buffer-limit", 0),
    _memory("repl-backlog-size", 1 << 20, ACTS, 1),
    _integer("repl-backlog-ttl", 3600, 0, I64_MAX, ACTS),
    _yes_no("repl-disable-tcp-nodelay", False),
    _yes_no("repl-diskless-sync", True, ACTS),
    _integer("repl-diskless-sync-delay", 5, 0, I32_MAX, ACTS),
    _integer("repl-diskless-sync-max-replicas", 0, 0, I32_MAX, ACTS),
    _choice("repl-diskless-load", "disabled", "disabled on-empty-db swapdb", ACTS),
    _integer("min-replicas-to-write", 0, 0, I32_MAX, ACTS, alias="min-slaves-to-write"),
    _integer("min-replicas-max-lag", 10, 0, I32_MAX, ACTS, alias="min-slaves-max-lag"),
    _choice("propagation-error-behavior", "ignore", "ignore panic panic-on-replicas"),
    # cluster
    _special("cluster-enabled", OnlyOneOf(YesNo(), (False,), settings.NO_CLUSTER), "no", FIXED),
    _text("cluster-config-file", "nodes.conf", FIXED),
    _integer("cluster-port", 0, 0, 65535, FIXED),
    _integer("cluster-node-timeout", 15000, 0, I64_MAX),
    _integer("cluster-migration-barrier", 1, 0, I32_MAX),
    _yes_no("cluster-allow-replica-migration", True),
    _yes_no("cluster-require-full-coverage", True),
    _yes_no("cluster-allow-reads-when-down", False),
    _yes_no("cluster-allow-pubsubshard-when-down", True),
    _memory("cluster-link-sendbuf-limit", 0),
    _integer("cluster-compatibility-sample-ratio", 0, 0, 100),
    _yes_no("cluster-slot-stats-enabled", False),
    _memory("cluster-slot-migration-handoff-max-lag-bytes", 1 << 20),
    _integer("cluster-slot-migration-write-pause-timeout", 10000, 0, I64_MAX),
    _text("cluster-announce-human-nodename"),
    _text("cluster-announce-ip"),
    _text("cluster-announce-hostname", check=host_name),
    _integer("cluster-announce-port", 0, 0, 65535),
    _integer("cluster-announce-tls-port", 0, 0, 65535),
    _integer("cluster-announce-bus-port", 0, 0, 65535),
    _choice("cluster-preferred-endpoint-type", "ip", "ip hostname unknown-endpoint"),
    _integer("cluster-replica-validity-factor", 10, 0, I32_MAX, alias="cluster-slave-validity-factor"),
    _yes_no("cluster-replica-no-failover", False, alias="cluster-slave-no-failover"),
    # Valkey only
    _text("unixsocketgroup", "", FIXED),
    _yes_no("mptcp", False, FIXED),
    _yes_no("repl-mptcp", False, FIXED),
    _text("rdma-bind", "", FIXED),
    _integer("rdma-port", 0, 0, 65535, FIXED),
    _memory("rdma-rx-size", 1 << 20, FIXED),
    _integer("rdma-completion-vector", -1, -1, 1024, FIXED),
    _integer("tls-auto-reload-interval", 0, 0, I32_MAX),
    _integer("events-per-io-thread", 2, 0, I32_MAX),
    _integer("prefetch-batch-max-size", 16, 0, 128),
    _yes_no("extended-redis-compatibility", False),
    _text("availability-zone"),
    _text("hash-seed", "", FIXED),
    _yes_no("import-mode", False),
    _yes_no("enable-debug-assert", False, FIXED),
    _choice("log-timestamp-format", "legacy", "legacy iso8601 milliseconds"),
    _integer("active-defrag-cycle-us", 500, 0, 100000),
    _integer("commandlog-request-larger-than", 1 << 20, -1, I64_MAX),
    _integer("commandlog-reply-larger-than", 1 << 20, -1, I64_MAX),
    _integer("commandlog-large-request-max-len", 128, 0, I64_MAX),
    _integer("commandlog-large-reply-max-len", 128, 0, I64_MAX),
    _choice("rdb-version-check", "strict", "strict relaxed"),
    _yes_no("dual-channel-replication-enabled", False),
    _integer("cluster-databases", 1, 1, I32_MAX, FIXED),
    _integer("cluster-blacklist-ttl", 60, 0, I32_MAX),
    _integer("cluster-manual-failover-timeout", 5000, 1, I32_MAX),
    _choice("cluster-config-save-behavior", "sync", "sync best-effort"),
    _integer("cluster-slot-migration-log-max-len", 1000, 0, I64_MAX),
    _memory("slot-migration-max-failover-repl-bytes", 0),
    _text("cluster-announce-client-ipv4"),
    _text("cluster-announce-client-ipv6"),
    _integer("cluster-announce-client-port", 0, 0, 65535),
    _integer("cluster-announce-client-tls-port", 0, 0, 65535),
)

#: All directives by name.
DIRECTIVES: dict[str, Directive] = {directive.name: directive for directive in _TABLE}
#: Second name -> first name.
ALIASES: dict[str, str] = {directive.alias: directive.name for directive in _TABLE if directive.alias}
