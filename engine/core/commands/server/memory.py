"""MEMORY: sizes of keys (``engine.core.keyspace.footprint``), and the shell's facts about the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.clients.description import memory_of
from engine.core.keyspace import footprint
from engine.core.protocol.args import Args
from engine.core.protocol.replies import OK, CommandError, Map, Reply, Verbatim
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text.messages import general, server

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Default number of sampled elements.
_SAMPLES = 5

memory_subcommand = container("memory", "Commands that inspect memory.", group="server", since="4.0.0")


@memory_subcommand(
    "usage key [SAMPLES count]",
    "readonly",
    keys=SUB_KEY,
    access="RO",
    complexity="O(samples); with SAMPLES 0, O(fields), or for streams O(segments + blocks of pending entries)",
)
def usage(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the size of a key and its value in bytes; large values are sampled."""
    args, samples = Args(argv, 3), _SAMPLES
    while len(args):
        if not args.option(b"SAMPLES"):
            raise CommandError(general.SYNTAX)
        samples = args.take_int()
        if samples < 0:
            raise CommandError(general.SYNTAX)
    key = argv[2]
    value = ctx.db.peek(key)
    if value is None:
        return None
    return footprint.of_key(key, value, expires=ctx.db.deadline(key) is not None, samples=samples)


@memory_subcommand("stats", complexity="O(connections)")
def stats(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns memory use by category.

    The names are the same as in Redis. Python's allocator reports no statistics, so resident memory is used instead.
    """
    facts = ctx.host.facts()
    used, peak, start = facts.memory, facts.memory_peak, facts.memory_start
    keys = sum(map(len, ctx.databases))
    dataset = max(used - start, 0)
    of_clients = {True: 0, False: 0}
    for session in ctx.sessions:
        of_clients[session.is_replica] += memory_of(session)
    per_db = {
        b"db.%d" % db.index: Map.of({b"overhead.hashtable.main": 0, b"overhead.hashtable.expires": 0})
        for db in ctx.databases
        if len(db)
    }
    return Map.of(
        {
            b"peak.allocated": peak,
            b"total.allocated": used,
            b"startup.allocated": start,
            b"replication.backlog": dict(ctx.replication.info()).get("repl_backlog_histlen", 0),
            b"clients.slaves": of_clients[True],
            b"clients.normal": of_clients[False],
            b"cluster.links": 0,
            b"aof.buffer": 0,
            **per_db,
            b"overhead.total": used - dataset,
            b"keys.count": keys,
            b"keys.bytes-per-key": dataset // keys if keys else 0,
            b"dataset.bytes": dataset,
            b"dataset.percentage": _percent(dataset, used),
            b"peak.percentage": _percent(used, peak),
            b"allocator.allocated": used,
            b"allocator.active": used,
            b"allocator.resident": used,
            b"allocator-fragmentation.ratio": 1.0,
            b"allocator-fragmentation.bytes": 0,
            b"allocator-rss.ratio": 1.0,
            b"allocator-rss.bytes": 0,
            b"rss-overhead.ratio": 1.0,
            b"rss-overhead.bytes": 0,
            b"fragmentation": 1.0,
            b"fragmentation.bytes": 0,
        }
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


@memory_subcommand("doctor")
def doctor(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a human-readable report on memory."""
    facts = ctx.host.facts()
    if not facts.memory:
        return Verbatim(server.MEMORY_REPORT_EMPTY)
    limit = ctx.config.integer("maxmemory")
    lines = [f"{facts.memory / 1e6:.1f} MB are in use, {facts.memory_peak / 1e6:.1f} MB at the peak."]
    if limit:
        lines.append(f"maxmemory is {limit / 1e6:.1f} MB: {_percent(facts.memory, limit):.0f} percent are in use.")
    return Verbatim("\n".join(lines).encode())


@memory_subcommand("malloc-stats")
def malloc_stats(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a notice that the allocator has no statistics."""
    return Verbatim(b"Stats not supported for the current allocator")


@memory_subcommand("purge")
def purge(ctx: Context, argv: list[bytes]) -> Reply:
    """Releases free memory to the operating system."""
    ctx.host.give_back_memory()
    return OK
