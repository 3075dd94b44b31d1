"""Names and rules for the planner and the tasks of a query that shares its consumer group with other programs.

A batch has a number. Each of its partitions is one consumer of the group, `<prefix>-<batch>-<partition>`, and reads new
entries exactly once. The *ledger*, a hash in the stream's slot, has a line for each partition that has read, and the
last batch whose partitions are all finished. A task watches the ledger and reads new entries in the same transaction
that writes its line. So only one of two attempts reads, and every later attempt and every replay gets the same entries,
which are pending for the consumer. Therefore only entries that were among the batch's rows can be acknowledged.

A partition's line names the run of the query that has read the partition. All scans and retries in one run count as one
delivery, so they see the same rows. If another run repeats the batch, that run counts one more delivery and writes its
own ID.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_streams.errors import PystreamsError, error
from spark_streams.read.query import loss
from spark_streams.read.query.loss import Baseline
from streamclient.config.address import Address
from streamclient.connection import Command
from streamwire.slots import same_slot_tag
from streamwire.stream_id import StreamId

#: Field of the ledger with the last batch whose partitions are all finished.
DONE = "done"


@dataclass(frozen=True)
class SharedTask:
    """Limits for the entries that one partition of a batch reads from `stream`, as consumer `consumer` of `group`.

    `reads`: number of new entries. `claims`: number of entries to claim from other consumers. These entries are idle
    for `claim_idle` milliseconds, or belong to consumers of an earlier run of the query (batches up to `since`).
    Entries delivered more than `max_deliveries` times go to the stream `dead_letters`. `counts`: whether the rows need
    the number of deliveries. `page_size`: maximum number of entries in one reply of the consumer's history. `run`: ID
    of the query's current run. `fails`: whether missing entries are an error rather than a warning. `known`:
    baseline of the stream and the group when the batch was planned. `living`: prefixes of other queries, whose entries
    are not claimed while they run.
    """

    stream: str
    group: str
    prefix: str
    batch: int
    partition: int
    since: int
    reads: int
    claims: int = 0
    claim_idle: int | None = None
    max_deliveries: int | None = None
    dead_letters: str | None = None
    counts: bool = False
    page_size: int = 10_000
    run: str = ""
    fails: bool = True
    known: Baseline = loss.UNKNOWN
    living: frozenset[bytes] = frozenset()

    @property
    def consumer(self) -> str:
        """The partition's consumer name."""
        return f"{self.prefix}-{self.batch}-{self.partition}"

    @property
    def line(self) -> str:
        """The partition's field in the ledger."""
        return f"{self.batch}-{self.partition}"


def ledger_key(stream: str, group: str, prefix: str) -> bytes:
    """Return the key of the ledger. It is in the stream's slot."""
    tag = same_slot_tag(stream.encode())
    return b"pystreams:{" + tag + b"}:taken:" + f"{len(stream)}:{stream}:{len(group)}:{group}:{prefix}".encode()


def batch_of(consumer: bytes, prefix: str) -> int | None:
    """Return the number of the batch that a consumer belongs to; None if it is not a consumer of this query."""
    found = re.fullmatch(re.escape(prefix.encode()) + rb"-([0-9]+)-[0-9]+", consumer)
    return int(found[1]) if found else None


def prefix_of(consumer: bytes) -> bytes | None:
    """Return the prefix of the query that a consumer belongs to; None if its name is not that of a query's consumer."""
    found = re.fullmatch(rb"(.+)-[0-9]+-[0-9]+", consumer, re.DOTALL)
    return found[1] if found else None


def claimable(task: SharedTask, consumers: Sequence[Any]) -> Iterator[tuple[bytes, int]]:
    """Yield the consumers in a reply to XINFO CONSUMERS from which the task may claim entries, with the minimum idle
    time.
    """
    for reply in consumers:
        info = dict(zip(reply[0::2], reply[1::2], strict=True))
        batch = batch_of(info[b"name"], task.prefix)
        dead = batch is not None and batch <= task.since
        foreign = batch is None and task.claim_idle is not None and prefix_of(info[b"name"]) not in task.living
        if int(info[b"pending"]) and (dead or foreign):
            yield info[b"name"], 0 if dead or task.claim_idle is None else task.claim_idle


def lost(address: Address, stream: str, ids: Sequence[bytes]) -> PystreamsError:
    """Return the error for pending entries that no longer exist. The IDs are in order or of several consumers."""
    parsed = sorted(map(StreamId.parse, ids))
    count = f"{len(ids)} entries"
    return error("ENTRIES_LOST", stream=stream, address=address, after=parsed[0].before(), upto=parsed[-1], count=count)


def pending_of(task: SharedTask, consumer: bytes, idle: int, most: int) -> Command:
    """Return the command that lists at most `most` pending entries of a consumer that are idle for at least `idle`
    milliseconds.
    """
    condition: Command = ("IDLE", idle) if idle else ()
    return ("XPENDING", task.stream, task.group, *condition, "-", "+", most, consumer)
