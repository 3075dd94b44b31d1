"""Withdrawal of a batch that was interrupted: the rows that it has written, and their removal.

A replay with other rows is refused, because rows of the interrupted attempt are in the streams. If the query was fixed
and its rows differ on purpose, a user withdraws the batch: its rows are removed from the streams, or are kept but no
longer counted. The fixed query then writes the batch as if it were new.

1. `look` reads the records. Each transaction has left its number of rows and their digest in its fence. Its entries are
   adjacent in the stream, so they are found by the digest, also between entries of other writers.
2. `withdraw` acts as a driver of the batch: it stops the tasks of all attempts, takes the next number, and seals all
   streams. If the records have changed since `look`, it stops there.
3. It removes `prepared` from the ledger, so that no driver finishes the publication of an earlier attempt, and claims
   all streams. From now on no earlier driver can publish or commit.
4. It takes back one transaction at a time, the last one first. The entries and the fence change together, so a kill
   leaves a batch with fewer rows. Repeated, `withdraw` continues there.

Later drivers have higher numbers: if the query starts meanwhile, it claims the streams, and `withdraw` fails.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.write.executor import claim, close_ledger, collect_evidence
from spark_streams.write.protocol import RECORD_MS, Protocol
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    Account,
    Evidence,
    FenceState,
    WriterId,
    open_batch,
    row_hashes,
    shown,
    withdrawals,
)
from streamclient.connection import Command, Connection, change
from streamclient.record_keys import of_query
from streamwire.stream_id import ZERO, StreamId

_PAGE = 1000  # entries read at a time
_SEARCHED = 20_000  # least number of entries that are searched at a time
_MASK = (1 << 64) - 1


class OutdatedError(Exception):
    """The records have changed since `look`. The argument says what has changed. No row was taken back."""


@dataclass(frozen=True)
class Transaction:
    """Rows that one transaction has added to a stream.

    `before`, `after`: the fence's values. `ids`: the rows' entries; empty if they were not found, because some were
    deleted or trimmed. Transactions of earlier versions of the connector count as one.
    """

    stream: bytes
    partition: int
    before: FenceState
    after: FenceState
    ids: tuple[bytes, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.after.rows - self.before.rows


@dataclass(frozen=True)
class Batch:
    """The rows that a batch has written.

    `name`: the query's ID, with a number for a write from foreachBatch, or the name of a batch write.
    `prepared`: the attempt whose rows the next driver would publish, or empty. `withdrawn`: earlier withdrawals of
    batches of this name, as documents. `attempt`: a name for the withdrawal.
    """

    name: str
    number: int
    is_committed: bool
    prepared: str
    seen: dict[bytes, Evidence]
    written: tuple[Transaction, ...] = field(default=(), compare=False)
    withdrawn: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    attempt: str = field(default_factory=lambda: f"withdrawal-{uuid.uuid4().hex}", compare=False)

    @property
    def is_begun(self) -> bool:
        """Whether there is something to withdraw."""
        return self.is_committed or bool(self.prepared) or any(each.fences for each in self.seen.values())

    @property
    def rows(self) -> int:
        """Number of rows in the streams."""
        return sum(state.rows for each in self.seen.values() for state in each.fences.values())

    @property
    def streams(self) -> int:
        """Number of streams that have rows of the batch."""
        return sum(bool(each.fences) for each in self.seen.values())


def interrupted(connection: Connection, name: str) -> int | None:
    """Return the batch of a query or a write that is not committed; None if all are."""
    return open_batch(connection.command("HGETALL", of_query(name.encode(), b"ledger")))


def look(connection: Connection, name: str, number: int, *, find: bool = True) -> Batch:
    """Return what the batch has written. Changes nothing. `find`: whether the rows' entries are looked for.

    Raises BATCH_COMMITTED if a later batch is committed, and FENCE_AHEAD if a later batch has been started.
    """
    protocol = Protocol(WriterId(name, number, 0))
    ledger = connection.command("HGETALL", protocol.writer.ledger_key)
    account = protocol.account(ledger)
    # Without a ledger, nothing is sealed.
    seen = collect_evidence(connection, replace(protocol, has_ledger=False), account.streams)
    batch = Batch(name, number, account.is_committed, account.prepared, _comparable(seen))
    if not find:
        return batch
    written: list[Transaction] = []
    for stream, each in seen.items():
        transactions = _transactions(connection, protocol.writer, stream, each)
        written += _found(connection, stream, each, transactions)
    withdrawn = tuple({"batch": number, **json.loads(note)} for number, note in withdrawals(ledger))
    return replace(batch, written=tuple(written), withdrawn=withdrawn)


def withdraw(connection: Connection, batch: Batch, *, removes: bool, at: str) -> None:
    """Take the batch back: remove its rows that were found, or keep them, and count none of them. `at`: the time, for
    the note in the ledger.

    Raises OutdatedError if the batch has changed since `look`, and ATTEMPT_REPLACED if a new attempt has claimed a
    stream meanwhile.
    """
    if look(connection, batch.name, batch.number, find=False) != batch:
        raise OutdatedError(f"batch {batch.number}")
    protocol = _protocol(connection, batch)
    account = close_ledger(connection, protocol, ())
    seen = collect_evidence(connection, protocol, account.streams)
    now = replace(batch, is_committed=account.is_committed, prepared=account.prepared, seen=_comparable(seen))
    if now != batch:
        raise OutdatedError(f"batch {batch.number}")
    _release(connection, protocol, account, batch, removes, at)
    for stream, each in seen.items():
        if claim(connection, protocol, stream, each, account, ()) is None:
            raise OutdatedError(f"batch {batch.number} in the stream '{shown(stream)}'")
    for done in reversed(batch.written):
        _take_back(connection, protocol.of_partition(done.partition), done, done.ids if removes else ())


def _comparable(seen: dict[bytes, Evidence]) -> dict[bytes, Evidence]:
    """Return the evidence without what other writers, and `withdraw` itself, change."""
    return {stream: Evidence(replace(each.record, sealed=-1), each.fences) for stream, each in sorted(seen.items())}


def _protocol(connection: Connection, batch: Batch) -> Protocol:
    """Return the protocol for a driver of its own. Its records last as long as the ledger, and at least a day."""
    writer = WriterId(batch.name, batch.number, 0, batch.attempt)
    left = int(connection.command("PTTL", writer.ledger_key))
    return Protocol(writer, max(left, RECORD_MS) if left >= 0 else 0)


def _release(
    connection: Connection, protocol: Protocol, account: Account, batch: Batch, removes: bool, at: str
) -> None:
    found = sum(len(each.ids) for each in batch.written)
    note = json.dumps({"at": at, "rows": batch.rows, "removed": found if removes else 0})
    reads, ledger = [protocol.ledger_reads(account)], protocol.writer.ledger_key
    change(connection, [ledger], reads, lambda replies: protocol.release(account, note, replies[0]))


def _take_back(connection: Connection, protocol: Protocol, each: Transaction, ids: Sequence[bytes]) -> None:
    record, fence = protocol.writer.record_key(each.stream), protocol.writer.fence_key(each.stream)
    reads: list[Command] = [("HMGET", record, *RECORD_FIELDS), ("HMGET", fence, *FENCE_FIELDS)]

    def decide(replies: list[Any]) -> list[Command]:
        return protocol.withdraw(each.stream, each.after, each.before, ids, replies)

    change(connection, [record, fence], reads, decide)


# --- Finding the entries


def _transactions(connection: Connection, writer: WriterId, stream: bytes, seen: Evidence) -> list[Transaction]:
    """Return the transactions that have written to the stream, without their entries, by partition."""
    replies = connection.commands([("HGETALL", writer.fence_key(stream, partition)) for partition in seen.fences])
    found: list[Transaction] = []
    for (partition, state), reply in zip(seen.fences.items(), replies, strict=True):
        history = FenceState.history(reply)
        if history[-1] != state:  # the batch is being written; `withdraw` will notice that, too
            history = [state]
        before = FenceState(writer.batch)
        for after in history:
            found.append(Transaction(stream, partition, before, after))
            before = after
    return found


def _found(
    connection: Connection, stream: bytes, seen: Evidence, transactions: Sequence[Transaction]
) -> list[Transaction]:
    """Return the transactions with the entries that they have added, if these are still there.

    Equal rows may be in the stream several times. Each partition's transactions are in order, and the last possible
    entries are chosen: earlier ones were kept when the batch was withdrawn before, or are of another writer.
    """
    wanted = {(each.rows, _total(each)) for each in transactions if not each.after.refused}
    floor = StreamId.parse(seen.record.floor) if seen.record.floor else ZERO
    windows: dict[tuple[int, int], list[tuple[bytes, ...]]] = {each: [] for each in wanted}
    for key, ids in _windows(connection, stream, floor, wanted):
        windows[key].append(ids)
    found: list[Transaction] = []
    taken: set[bytes] = set()
    end: StreamId | None = None
    for each, following in zip(reversed(transactions), [None, *reversed(transactions)], strict=False):
        if following is None or following.partition != each.partition:
            end = None
        for ids in reversed(windows.get((each.rows, _total(each)), [])):
            if taken.isdisjoint(ids) and (end is None or StreamId.parse(ids[-1]) < end):
                end = StreamId.parse(ids[0])
                taken.update(ids)
                found.append(replace(each, ids=ids))
                break
        else:
            found.append(each)
    return found[::-1]


def _total(each: Transaction) -> int:
    return (each.after.row_digest.total - each.before.row_digest.total) & _MASK


def _windows(
    connection: Connection, stream: bytes, floor: StreamId, wanted: set[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], tuple[bytes, ...]]]:
    """Yield the IDs of adjacent entries after `floor` that have a wanted number and total, with both, in order."""
    sizes = sorted({rows for rows, _ in wanted})
    if not sizes:
        return
    totals = {size: np.array([total for rows, total in wanted if rows == size], np.uint64) for size in sizes}
    ids: list[bytes] = []
    hashes = [np.zeros(0, np.uint64) for _ in _forms(())]
    at, is_over = floor, False
    while not is_over:
        before = len(ids)
        while len(ids) < before + max(_SEARCHED, sizes[-1]) and not is_over:
            page = connection.command("XRANGE", stream, f"({at}", "+", "COUNT", _PAGE)
            is_over = len(page) < _PAGE
            if page:
                at = StreamId.parse(page[-1][0])
                ids += [entry_id for entry_id, _ in page]
                new = _hashes(page)
                hashes = [np.concatenate(each) for each in zip(hashes, new, strict=True)]
        found: set[tuple[int, int, int]] = set()
        for form in hashes:
            sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(form, dtype=np.uint64)))
            for size in sizes:
                if size <= len(ids):
                    sum_of = sums[size:] - sums[:-size]
                    first = max(0, before - size + 1)  # earlier windows have been searched
                    hits = np.flatnonzero(np.isin(sum_of[first:], totals[size])) + first
                    found.update((hit, size, int(sum_of[hit])) for hit in hits.tolist())
        for hit, size, total in sorted(found):
            yield (size, total), tuple(ids[hit : hit + size])
        ids = ids[-sizes[-1] :]
        hashes = [form[-sizes[-1] :] for form in hashes]


def _hashes(page: Sequence[Any]) -> list[Any]:
    """Return the hashes of entries, for each form in which rows may have had their own IDs."""
    words = [fields or [] for _, fields in page]
    offsets = np.cumsum([0, *(len(fields) // 2 for fields in words)])
    names = pa.array([name for fields in words for name in fields[::2]], pa.binary())
    values = pa.array([value for fields in words for value in fields[1::2]], pa.binary())
    pairs = pa.array(offsets, pa.int64()), names, values
    ids = [entry_id for entry_id, _ in page]
    return [
        row_hashes((), pairs, None if form is None else pa.array(form, pa.binary()), len(page)) for form in _forms(ids)
    ]


def _forms(ids: Sequence[bytes]) -> list[list[bytes] | None]:
    """Return the values of the column `_id` that may have led to these IDs: none, complete IDs, times, and `*`."""
    return [None, [*ids], [each.removesuffix(b"-0") for each in ids], [b"*"] * len(ids)]
