"""The table of redis.conf's directives: name, kind of value, default, range, and whether it can change at run time.

Flags, configuration files and CONFIG use this table. The defaults of Redis's directives are Redis's. ``IGNORED`` has
the names of the directives of Redis and Valkey that have no effect here.

To add a directive, add a row. If no kind fits its value, add a kind to ``engine.settings.kinds``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.settings.kinds import (
    I32_MAX,
    I64_MAX,
    Choice,
    EventLetters,
    Integer,
    Kind,
    Master,
    Memory,
    Octal,
    OutputLimits,
    SavePoints,
    Text,
    Words,
    YesNo,
    file_name,
)

_U32_MAX = (1 << 32) - 1
#: Marks a directive that CONFIG SET refuses.
FIXED = True


@dataclass(frozen=True, slots=True)
class Directive:
    """A row of the table. ``alias``: its second name in Redis; flags, files and CONFIG accept both names.

    ``fixed``: whether CONFIG SET refuses it.
    """

    name: str
    kind: Kind
    #: Default value, in the type that the docstring of its kind names.
    default: Any
    fixed: bool = False
    alias: str = ""


def _integer(name: str, default: int, low: int, high: int, fixed: bool = False, alias: str = "") -> Directive:
    return Directive(name, Integer(low, high), default, fixed, alias)


def _memory(name: str, default: int, fixed: bool = False, low: int = 0, alias: str = "") -> Directive:
    return Directive(name, Memory(low), default, fixed, alias)


def _yes_no(name: str, default: bool, fixed: bool = False, alias: str = "") -> Directive:
    return Directive(name, YesNo(), default, fixed, alias)


def _choice(name: str, default: str, choices: str, fixed: bool = False) -> Directive:
    return Directive(name, Choice(tuple(choices.split())), default.encode(), fixed)


def _text(
    name: str, default: str = "", fixed: bool = False, check: Callable[[bytes], None] | None = None, alias: str = ""
) -> Directive:
    return Directive(name, Text(check), default.encode(), fixed, alias)


def _special(name: str, kind: Kind, default: str, fixed: bool = False, alias: str = "") -> Directive:
    """Return a row whose default is given as text, as in a configuration file."""
    words = default.encode().split() if kind.several_words else [default.encode()]
    return Directive(name, kind, kind.parse(words, {}), fixed, alias)


_LIMITS = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
_DB_FILE = file_name("dbfilename", "filename")
_LOG_FILE = file_name("appendfilename", "filename")
_LOG_DIRECTORY = file_name("appenddirname", "dirname")

_TABLE: tuple[Directive, ...] = (
    # network
    _special("bind", Words(), "127.0.0.1 -::1", FIXED),
    _integer("port", 6379, 0, 65535, FIXED),
    _integer("tcp-backlog", 511, 0, I32_MAX, FIXED),
    _text("unixsocket", "", FIXED),
    _special("unixsocketperm", Octal(0o777), "0", FIXED),
    _integer("timeout", 0, 0, I32_MAX),
    _integer("tcp-keepalive", 300, 0, I32_MAX),
    _yes_no("protected-mode", True),
    _integer("maxclients", 10000, 1, _U32_MAX),
    _memory("proto-max-bulk-len", 512 << 20, low=1 << 20),
    _memory("client-query-buffer-limit", 1 << 30, low=1 << 20),
    _special("client-output-buffer-limit", OutputLimits(), _LIMITS),
    # TLS
    _integer("tls-port", 0, 0, 65535, FIXED),
    _text("tls-cert-file", ""),
    _text("tls-key-file", ""),
    _text("tls-key-file-pass", ""),
    _text("tls-client-cert-file", ""),
    _text("tls-client-key-file", ""),
    _text("tls-client-key-file-pass", ""),
    _text("tls-ca-cert-file", ""),
    _text("tls-ca-cert-dir", ""),
    _choice("tls-auth-clients", "yes", "no yes optional"),
    _choice("tls-auth-clients-user", "off", "CN off"),
    _yes_no("tls-replication", False),
    _text("tls-protocols", ""),
    _text("tls-ciphers", ""),
    _text("tls-ciphersuites", ""),
    # the process
    _text("pidfile", "", FIXED),
    _choice("loglevel", "notice", "debug verbose notice warning"),
    _choice("log-format", "legacy", "legacy json"),
    _text("logfile", "", FIXED),
    _integer("shutdown-timeout", 10, 0, I32_MAX),
    _choice("enable-debug-command", "no", "no yes local", FIXED),
    # data
    _integer("databases", 16, 1, I32_MAX, FIXED),
    _text("dir", ".", FIXED),
    _memory("maxmemory", 0),
    _integer("stream-idmp-duration", 100, 1, 86400),
    _integer("stream-idmp-maxsize", 100, 1, 10000),
    _yes_no("stream-cold-compression", True),
    _integer("stream-cold-age", 1, 0, 86400),
    _choice("stream-storage", "memory", "memory disk", FIXED),
    _memory("stream-cache-size", 64 << 20, low=1 << 20),
    _memory("stream-file-size", 256 << 20, low=1 << 10),
    # access
    _text("requirepass", ""),
    _text("aclfile", "", FIXED),
    # notifications and monitoring
    _special("notify-keyspace-events", EventLetters(), ""),
    _integer("slowlog-log-slower-than", 10000, -1, I64_MAX, alias="commandlog-execution-slower-than"),
    _integer("slowlog-max-len", 128, 0, I64_MAX, alias="commandlog-slow-execution-max-len"),
    _integer("latency-monitor-threshold", 0, 0, I64_MAX),
    # durability
    _special("save", SavePoints(), "3600 1 300 100 60 10000"),
    _text("dbfilename", "dump.rdb", FIXED, _DB_FILE),
    _choice("save-format", "rdb", "rdb psb"),
    _integer("rdb-version", 10, 10, 14),
    _yes_no("skip-unsupported-types", False),
    _yes_no("rdbchecksum", True, FIXED),
    _yes_no("stop-writes-on-bgsave-error", True),
    _yes_no("appendonly", False),
    _text("appendfilename", "appendonly.aof", FIXED, _LOG_FILE),
    _text("appenddirname", "appendonlydir", FIXED, _LOG_DIRECTORY),
    _choice("appendfsync", "everysec", "everysec always no"),
    _integer("auto-aof-rewrite-percentage", 100, 0, I32_MAX),
    _memory("auto-aof-rewrite-min-size", 64 << 20),
    _yes_no("aof-load-truncated", True),
    # replication
    _special("replicaof", Master(), "", FIXED, alias="slaveof"),
    _text("masterauth", "", alias="primaryauth"),
    _text("masteruser", "", alias="primaryuser"),
    _yes_no("replica-serve-stale-data", True, alias="slave-serve-stale-data"),
    _yes_no("replica-read-only", True, alias="slave-read-only"),
    _integer("replica-priority", 100, 0, I32_MAX, alias="slave-priority"),
    _yes_no("replica-ignore-maxmemory", True, alias="slave-ignore-maxmemory"),
    _text("replica-announce-ip", "", alias="slave-announce-ip"),
    _integer("replica-announce-port", 0, 0, 65535, alias="slave-announce-port"),
    _yes_no("replica-announced", True),
    _integer("repl-ping-replica-period", 10, 1, I32_MAX, alias="repl-ping-slave-period"),
    _integer("repl-timeout", 60, 1, I32_MAX),
    _memory("repl-backlog-size", 1 << 20, low=1),
    _integer("repl-backlog-ttl", 3600, 0, I64_MAX),
    _yes_no("repl-diskless-sync", True),
    _integer("repl-diskless-sync-delay", 0, 0, I32_MAX),
    _integer("min-replicas-to-write", 0, 0, I32_MAX, alias="min-slaves-to-write"),
    _integer("min-replicas-max-lag", 10, 0, I32_MAX, alias="min-slaves-max-lag"),
)

#: All directives by name.
DIRECTIVES: dict[str, Directive] = {directive.name: directive for directive in _TABLE}
#: Second name -> first name.
ALIASES: dict[str, str] = {directive.alias: directive.name for directive in _TABLE if directive.alias}

_STOCK = """
acl-pubsub-default acllog-max-len active-defrag-cycle-max active-defrag-cycle-min active-defrag-cycle-us
active-defrag-ignore-bytes active-defrag-max-scan-fields active-defrag-threshold-lower active-defrag-threshold-upper
active-expire-effort activedefrag activerehashing always-show-logo aof-disable-auto-gc aof-load-corrupt-tail-max-size
aof-rewrite-cpulist aof-rewrite-incremental-fsync aof-timestamp-enabled aof-use-rdb-preamble aof_rewrite_cpulist
availability-zone bgsave-cpulist bgsave_cpulist bind-source-addr bio-cpulist bio_cpulist busy-reply-threshold
cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down cluster-allow-replica-migration
cluster-announce-bus-port cluster-announce-client-ipv4 cluster-announce-client-ipv6 cluster-announce-client-port
cluster-announce-client-tls-port cluster-announce-hostname cluster-announce-human-nodename cluster-announce-ip
cluster-announce-port cluster-announce-tls-port cluster-blacklist-ttl cluster-compatibility-sample-ratio
cluster-config-file cluster-config-save-behavior cluster-databases cluster-enabled cluster-link-sendbuf-limit
cluster-manual-failover-timeout cluster-migration-barrier cluster-node-timeout cluster-port
cluster-preferred-endpoint-type cluster-replica-no-failover cluster-replica-validity-factor
cluster-require-full-coverage cluster-slave-no-failover cluster-slave-validity-factor
cluster-slot-migration-handoff-max-lag-bytes cluster-slot-migration-log-max-len
cluster-slot-migration-write-pause-timeout cluster-slot-stats-enabled commandlog-large-reply-max-len
commandlog-large-request-max-len commandlog-reply-larger-than commandlog-request-larger-than crash-log-enabled
crash-memcheck-enabled daemonize disable-thp dual-channel-replication-enabled dynamic-hz enable-debug-assert
enable-module-command enable-protected-configs events-per-io-thread extended-redis-compatibility gopher-enabled
hash-max-listpack-entries hash-max-listpack-value hash-max-ziplist-entries hash-max-ziplist-value hash-seed
hide-user-data-from-log hll-sparse-max-bytes hz ignore-warnings import-mode io-threads io-threads-do-reads
jemalloc-bg-thread key-memory-histograms latency-tracking latency-tracking-info-percentiles lazyfree-lazy-eviction
lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del lazyfree-lazy-user-flush lfu-decay-time
lfu-log-factor list-compress-depth list-max-listpack-size list-max-ziplist-entries list-max-ziplist-size
list-max-ziplist-value locale-collate log-timestamp-format lookahead lua-enable-deprecated-api lua-enable-insecure-api
lua-replicate-commands lua-time-limit max-new-connections-per-cycle max-new-tls-connections-per-cycle
maxmemory-clients maxmemory-eviction-tenacity maxmemory-policy maxmemory-samples mptcp no-appendfsync-on-rewrite
oom-score-adj oom-score-adj-values prefetch-batch-max-size proc-title-template propagation-error-behavior
rdb-del-sync-files rdb-save-incremental-fsync rdb-version-check rdbcompression rdma-bind rdma-completion-vector
rdma-port rdma-rx-size repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync-max-replicas repl-mptcp
replica-full-sync-buffer-limit replica-ignore-disk-write-errors replica-lazy-flush sanitize-dump-payload
server-cpulist server_cpulist set-max-intset-entries set-max-listpack-entries set-max-listpack-value set-proc-title
shutdown-on-sigint shutdown-on-sigterm slave-lazy-flush slot-migration-max-failover-repl-bytes socket-mark-id
stream-node-max-bytes stream-node-max-entries supervised syslog-enabled syslog-facility syslog-ident
tls-auto-reload-interval tls-cluster tls-dh-params-file tls-prefer-server-ciphers tls-session-cache-size
tls-session-cache-timeout tls-session-caching tracking-table-max-keys unixsocketgroup
vset-force-single-threaded-execution zset-max-listpack-entries zset-max-listpack-value zset-max-ziplist-entries
zset-max-ziplist-value
"""
#: Directives of the stock configuration files of Redis and Valkey that have no effect on this engine. A file or a flag
#: may contain them; a log line at startup names them.
IGNORED: frozenset[str] = frozenset(_STOCK.split())
