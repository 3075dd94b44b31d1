"""Planning of a batch of a shared group: the numbers of entries that each of its consumers may read and claim.

Like `spark_streams.read.ranges.plan`, the function `plan` is pure: it computes an offset from facts and limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_streams.config.read import LimitOptions
from spark_streams.read.query import planning
from spark_streams.read.query.offsets import Offsets, SharedBatch, Source
from streamclient.streams.model import Range
from streamwire.stream_id import LAST, ZERO, StreamId

_MOST = 100_000  # default maximum number of entries per task, which arrive in one reply


@dataclass(frozen=True)
class Facts:
    """Facts for planning a batch.

    `lag`: number of entries that the group has yet to read in each stream, or an estimate. `claims`: number of entries
    pending for other consumers that may be claimed. `starts`: start of a new query, if the batch is planned without
    knowing the previous one (Spark 4.0 and 4.1). `cores`: cores for which tasks are planned. `lost`: number of entries
    that the query has noticed as lost so far.
    """

    lag: Mapping[str, int]
    claims: Mapping[str, int]
    source: Source
    starts: Mapping[str, StreamId] | None = None
    cores: int = 1
    lost: Mapping[str, int] = field(default_factory=dict)


def plan(number: int, since: int, facts: Facts, limits: LimitOptions) -> Offsets:
    """Return the batch with the number `number`. `since`: number of the last batch of the query's earlier runs.

    The batch is empty if the group has no entries for it.
    """
    lag = facts.lag
    if limits.max_entries is not None:
        left = max(0, limits.max_entries - sum(facts.claims.values()))
        lag = planning.shares(left, lag, number) if left else {}
    most = limits.max_per_partition or _MOST
    # A batch without a known start has all existing entries, in as many parts as necessary.
    parts = planning.parts(lag, limits.min_partitions, limits.max_per_partition if facts.starts is None else most)
    reads = {stream: _equal_parts(count, parts.get(stream, 1), most) for stream, count in lag.items() if count}
    reads = {**dict.fromkeys(facts.claims, (0,)), **reads}
    consumers = [
        Range(stream, ZERO, LAST, index, count + (0 if index else facts.claims.get(stream, 0)))
        for stream, counts in sorted(reads.items())
        for index, count in enumerate(counts)
    ]
    return Offsets(
        {},
        tasks=planning.tasks(consumers, limits, facts.cores),
        lost=facts.lost,
        shared=SharedBatch(number, since, reads, facts.claims),
        source=facts.source,
        starts=facts.starts,
    )


def _equal_parts(count: int, parts: int, most: int) -> tuple[int, ...]:
    """Return the number of entries of each part: numbers that differ by at most 1, none above `most`."""
    parts = max(1, min(parts, count))
    count = min(count, parts * most)
    return tuple(count * (part + 1) // parts - count * part // parts for part in range(parts))
