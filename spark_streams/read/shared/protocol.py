"""Sharing a consumer group with programs that are not Spark: the names and rules that planner and tasks agree on. Pure.

A batch has a number. Each of its partitions is one consumer of the group, `<prefix>-<batch>-<partition>`, and takes
what is new exactly once: the *ledger*, a hash that lies in the stream's slot, says which partitions have taken theirs,
and up to which batch all are done. A task watches the ledger, and takes in the transaction that writes its line; so of
two attempts only one takes, and every later attempt, and every replay, gets what that one got: what is pending for
the consumer. Nothing that was taken can be acknowledged without having been part of the batch's rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_streams.client.slots import same_slot_tag

DONE = "done"


@dataclass(frozen=True)
class Taker:
    """One partition of a batch: the consumer `consumer` of `group`, and what it may take of `stream`.

    `take`: so many new entries; `claim`: so many of those that others have left for `claim_idle` milliseconds, or that
    consumers of an earlier life of the query, up to batch `since`, have. Entries delivered more than `max_deliveries`
    times go to `dead_letters`. `counts`: whether the rows need the number of deliveries.
    """

    stream: str
    group: str
    prefix: str
    batch: int
    partition: int
    since: int
    take: int
    claim: int = 0
    claim_idle: int | None = None
    max_deliveries: int | None = None
    dead_letters: str | None = None
    counts: bool = False
    page_size: int = 10_000

    @property
    def consumer(self) -> str:
        return f"{self.prefix}-{self.batch}-{self.partition}"

    @property
    def line(self) -> str:
        """The partition's field in the ledger."""
        return f"{self.batch}-{self.partition}"


def ledger(stream: str, group: str, prefix: str) -> bytes:
    """The key of the ledger."""
    tag = same_slot_tag(stream.encode())
    return b"pystreams:{" + tag + b"}:taken:" + f"{len(stream)}:{stream}:{len(group)}:{group}:{prefix}".encode()


def batch_of(consumer: bytes, prefix: str) -> int | None:
    """The batch that a consumer belongs to, if it is one of this query's."""
    found = re.fullmatch(re.escape(prefix.encode()) + rb"-([0-9]+)-[0-9]+", consumer)
    return int(found[1]) if found else None


def shares(lag: int, parts: int, most: int) -> tuple[int, ...]:
    """What each of `parts` partitions may take of `lag` entries, none more than `most`."""
    if lag <= 0:
        return (0,)
    parts = max(1, min(parts, lag))
    lag = min(lag, parts * most)
    return tuple(lag * (i + 1) // parts - lag * i // parts for i in range(parts))
