"""The table of redis.conf's directives: name, kind of value, default, and whether it can change at run time.

Flags, configuration files and CONFIG use this table. The defaults of Redis's directives are Redis's. ``IGNORED`` has
the names of the directives of Redis and Valkey that have no effect here.

To add a directive, add a row. If no kind fits its value, add a kind to ``engine.settings.kinds``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.settings.kinds import (
    EVENTS,
    I32_MAX,
    I64_MAX,
    MASTER,
    OUTPUT_LIMITS,
    SAVE_POINTS,
    TEXT,
    WORDS,
    YES_NO,
    Kind,
    choice,
    file_name,
    integer,
    memory,
    octal,
)

_U32_MAX = (1 << 32) - 1
#: Marks a directive that CONFIG SET refuses.
FIXED = True


@dataclass(frozen=True, slots=True)
class Directive:
    """A row of the table. ``given``: the default as in a file. ``fixed``: whether CONFIG SET refuses the directive.

    ``alias``: its second name in Redis; flags, files and CONFIG accept both names.
    """

    name: str
    kind: Kind
    given: str
    fixed: bool = False
    alias: str = ""

    @property
    def default(self) -> Any:
        """The default value."""
        words = self.given.encode().split() if self.kind.several_words else [self.given.encode()]
        return self.kind.parse(words, {})


_LIMITS = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"

_TABLE: tuple[Directive, ...] = (
    # network
    Directive("bind", WORDS, "127.0.0.1 -::1", FIXED),
    Directive("port", integer(0, 65535), "6379", FIXED),
    Directive("tcp-backlog", integer(0, I32_MAX), "511", FIXED),
    Directive("unixsocket", TEXT, "", FIXED),
    Directive("unixsocketperm", octal(0o777), "0", FIXED),
    Directive("timeout", integer(0, I32_MAX), "0"),
    Directive("tcp-keepalive", integer(0, I32_MAX), "300"),
    Directive("protected-mode", YES_NO, "yes"),
    Directive("maxclients", integer(1, _U32_MAX), "10000"),
    Directive("proto-max-bulk-len", memory(1 << 20), "512mb"),
    Directive("client-query-buffer-limit", memory(1 << 20), "1gb"),
    Directive("client-output-buffer-limit", OUTPUT_LIMITS, _LIMITS),
    # TLS
    Directive("tls-port", integer(0, 65535), "0", FIXED),
    Directive("tls-cert-file", TEXT, ""),
    Directive("tls-key-file", TEXT, ""),
    Directive("tls-key-file-pass", TEXT, ""),
    Directive("tls-client-cert-file", TEXT, ""),
    Directive("tls-client-key-file", TEXT, ""),
    Directive("tls-client-key-file-pass", TEXT, ""),
    Directive("tls-ca-cert-file", TEXT, ""),
    Directive("tls-ca-cert-dir", TEXT, ""),
    Directive("tls-auth-clients", choice("no yes optional"), "yes"),
    Directive("tls-auth-clients-user", choice("CN off"), "off"),
    Directive("tls-replication", YES_NO, "no"),
    Directive("tls-protocols", TEXT, ""),
    Directive("tls-ciphers", TEXT, ""),
    # the process
    Directive("pidfile", TEXT, "", FIXED),
    Directive("loglevel", choice("debug verbose notice warning"), "notice"),
    Directive("log-format", choice("legacy json"), "legacy"),
    Directive("logfile", TEXT, "", FIXED),
    Directive("enable-debug-command", choice("no yes local"), "no", FIXED),
    # data
    Directive("databases", integer(1, I32_MAX), "16", FIXED),
    Directive("dir", TEXT, ".", FIXED),
    Directive("maxmemory", memory(), "0"),
    Directive("stream-idmp-duration", integer(1, 86400), "100"),
    Directive("stream-idmp-maxsize", integer(1, 10000), "100"),
    Directive("stream-cold-age", integer(0, 86400), "1"),
    Directive("stream-storage", choice("memory disk"), "memory", FIXED),
    Directive("stream-cache-size", memory(1 << 20), "64mb"),
    Directive("stream-file-size", memory(1 << 10), "256mb"),
    # access
    Directive("requirepass", TEXT, ""),
    Directive("aclfile", TEXT, "", FIXED),
    # notifications and monitoring
    Directive("notify-keyspace-events", EVENTS, ""),
    Directive("slowlog-log-slower-than", integer(-1, I64_MAX), "10000", alias="commandlog-execution-slower-than"),
    Directive("slowlog-max-len", integer(0, I64_MAX), "128", alias="commandlog-slow-execution-max-len"),
    Directive("latency-monitor-threshold", integer(0, I64_MAX), "0"),
    # durability
    Directive("save", SAVE_POINTS, "3600 1 300 100 60 10000"),
    Directive("dbfilename", file_name("dbfilename", "filename"), "dump.rdb", FIXED),
    Directive("save-format", choice("rdb psb"), "rdb"),
    Directive("rdb-version", integer(10, 14), "10"),
    Directive("skip-unsupported-types", YES_NO, "no"),
    Directive("stop-writes-on-bgsave-error", YES_NO, "yes"),
    Directive("appendonly", YES_NO, "no"),
    Directive("appendfilename", file_name("appendfilename", "filename"), "appendonly.aof", FIXED),
    Directive("appenddirname", file_name("appenddirname", "dirname"), "appendonlydir", FIXED),
    Directive("appendfsync", choice("everysec always no"), "everysec"),
    Directive("auto-aof-rewrite-percentage", integer(0, I32_MAX), "100"),
    Directive("auto-aof-rewrite-min-size", memory(), "64mb"),
    Directive("aof-load-truncated", YES_NO, "yes"),
    # replication
    Directive("replicaof", MASTER, "", FIXED, alias="slaveof"),
    Directive("masterauth", TEXT, "", alias="primaryauth"),
    Directive("masteruser", TEXT, "", alias="primaryuser"),
    Directive("replica-serve-stale-data", YES_NO, "yes", alias="slave-serve-stale-data"),
    Directive("replica-read-only", YES_NO, "yes", alias="slave-read-only"),
    Directive("replica-priority", integer(0, I32_MAX), "100", alias="slave-priority"),
    Directive("replica-ignore-maxmemory", YES_NO, "yes", alias="slave-ignore-maxmemory"),
    Directive("replica-announce-ip", TEXT, "", alias="slave-announce-ip"),
    Directive("replica-announce-port", integer(0, 65535), "0", alias="slave-announce-port"),
    Directive("replica-announced", YES_NO, "yes"),
    Directive("repl-ping-replica-period", integer(1, I32_MAX), "10", alias="repl-ping-slave-period"),
    Directive("repl-timeout", integer(1, I32_MAX), "60"),
    Directive("repl-backlog-size", memory(1), "1mb"),
    Directive("repl-backlog-ttl", integer(0, I64_MAX), "3600"),
    Directive("repl-diskless-sync", YES_NO, "yes"),
    Directive("repl-diskless-sync-delay", integer(0, I32_MAX), "0"),
    Directive("min-replicas-to-write", integer(0, I32_MAX), "0", alias="min-slaves-to-write"),
    Directive("min-replicas-max-lag", integer(0, I32_MAX), "10", alias="min-slaves-max-lag"),
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
lua-replicate-commands lua-time-limit max-new-connections-per-cycle max-new-tls-connections-per-cycle maxmemory-clients
maxmemory-eviction-tenacity maxmemory-policy maxmemory-samples mptcp no-appendfsync-on-rewrite oom-score-adj
oom-score-adj-values prefetch-batch-max-size proc-title-template propagation-error-behavior rdb-del-sync-files
rdb-save-incremental-fsync rdb-version-check rdbchecksum rdbcompression rdma-bind rdma-completion-vector rdma-port
rdma-rx-size repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync-max-replicas repl-mptcp
replica-full-sync-buffer-limit replica-ignore-disk-write-errors replica-lazy-flush sanitize-dump-payload server-cpulist
server_cpulist set-max-intset-entries set-max-listpack-entries set-max-listpack-value set-proc-title shutdown-on-sigint
shutdown-on-sigterm shutdown-timeout slave-lazy-flush slot-migration-max-failover-repl-bytes socket-mark-id
stream-node-max-bytes stream-node-max-entries supervised syslog-enabled syslog-facility syslog-ident
tls-auto-reload-interval tls-ciphersuites tls-cluster tls-dh-params-file tls-prefer-server-ciphers
tls-session-cache-size tls-session-cache-timeout tls-session-caching tracking-table-max-keys unixsocketgroup
vset-force-single-threaded-execution zset-max-listpack-entries zset-max-listpack-value zset-max-ziplist-entries
zset-max-ziplist-value
"""
#: Directives of the stock configuration files of Redis and Valkey that have no effect on this engine. A file or a flag
#: may contain them; a log line at startup names them.
IGNORED: frozenset[str] = frozenset(_STOCK.split())
