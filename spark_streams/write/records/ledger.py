"""Ledgers: what a server remembers of a query's last batch for all of its streams, in one hash per query.

Attempts of one batch may write to different streams, so the records beside the streams do not tell them of each other.
The ledger does:

    first:BATCH            the attempt whose tasks may write themselves; empty once a driver has begun to end the batch
    stream:BATCH:STREAM    a stream that a task of any attempt may have written to; noted before the first row
    staged:KEY             a key with staged rows (its value: the batch); what is left of it can be cleaned up
    driver:BATCH:NUMBER    the attempt whose driver was the NUMBERth to end the batch, from 1
    prepared:BATCH         the attempt that has claimed all its streams and may have begun to publish
    committed              the last batch that was committed
    rows:BATCH             how many rows it has in all streams, and their digest

A task notes its streams before it asks who may write. A driver empties `first` before it asks for the streams. So the
driver knows every stream that a task may still write to, and shuts it there (`BatchRecord.sealed`).

Two drivers may end a batch at the same time: the old one was slow, not dead. Each takes a number before it reads
`prepared`. Only the driver with the last number may set `prepared`, and a stream is never claimed from a later driver.
So either the later driver sees that all streams were claimed, and finishes that, or the earlier one publishes nothing.

Writes that cannot be repeated under their name need no ledger. The fields of earlier batches are removed by a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.records.fence import PREFIX, WriterId, shown
from spark_streams.write.rows.digest import RowDigest
from streamclient.compare_and_set import change
from streamclient.connection import Command, Connection

_REMOVED_AT_ONCE = 1000

#: Shortest retention of records, in milliseconds: a task may be silent for long.
RECORD_MS = 86_400_000
_UNNAMED_MS = 30 * RECORD_MS


def kept_ms(options: WriteOptions, lasting: bool) -> int:
    """Return the retention of records after their last change, in milliseconds; 0 keeps them permanently.

    A write that cannot be repeated (not `lasting`) removes its records when it ends. Until then they are kept as long
    as any others: if the server's clock jumps ahead and they expire, a retried task writes its rows twice.
    """
    if options.fence_retention:
        return max(options.fence_retention, RECORD_MS)
    return 0 if lasting else _UNNAMED_MS


def has_ledger(options: WriteOptions, lasting: bool) -> bool:
    """Whether the write keeps a ledger: it may be repeated, or its tasks stage, and may die."""
    return lasting or options.mode == "staged"


def ledger_key(name: str) -> bytes:
    """The key of the ledger of a query or a write."""
    return b"%b{%b}:ledger" % (PREFIX, name.encode())


@dataclass(frozen=True)
class Account:
    """What a ledger says of one batch.

    `prepared`: the attempt that was the last to claim all streams, or empty. `driver`: the number of this attempt's
    driver. `rows`: those of the batch if it was committed (None: not known). `old`: fields that are of no use any more.
    """

    streams: tuple[bytes, ...] = ()
    staged: tuple[bytes, ...] = ()
    prepared: str = ""
    is_committed: bool = False
    rows: RowDigest | None = None
    old: tuple[bytes, ...] = ()
    driver: int = 0


class Ledger:
    """The ledger of one writer's batch. `keep_ms`: how long it is kept after its last change; 0 for ever."""

    @property
    def key(self) -> bytes:
        """Its key."""
        return self._key

    def __init__(self, connection: Connection, writer: WriterId, keep_ms: int) -> None:
        self._connection = connection
        self._writer = writer
        self._key = ledger_key(writer.name)
        self._keep: list[Command] = [("PEXPIRE", self._key, keep_ms)] if keep_ms else []

    def entering(self, streams: Iterable[bytes]) -> list[Command]:
        """The commands of a task that comes to these streams. `may_write` takes their replies."""
        writer = self._writer
        names: list[bytes | str] = []
        for stream in streams:
            names += [b"stream:%d:%b" % (writer.batch, stream), b""]
        first = f"first:{writer.batch}"
        return [
            ("HSET", self._key, *names),
            ("HSETNX", self._key, first, writer.attempt),
            *self._keep,
            ("HMGET", self._key, first, "committed"),
        ]

    def may_write(self, commands: Sequence[Command], replies: Sequence[object]) -> bool:
        """Whether the task may write itself, from the replies to `entering`.

        Raises BATCH_COMMITTED if a later batch was committed.
        """
        self._connection.check(commands, replies)
        found = replies[-1]
        assert isinstance(found, list)
        first, committed = found
        self._check_order(int(committed or -1))
        return bool((first or b"").decode() == self._writer.attempt)

    def _check_order(self, committed: int) -> None:
        if committed > self._writer.batch:
            fail("BATCH_COMMITTED", ledger=shown(self._key), found=committed, batch=self._writer.batch)

    def staging(self, key: bytes) -> list[Command]:
        """The command of a task that is about to stage rows under this key."""
        return [("HSET", self._key, b"staged:%b" % key, self._writer.batch), *self._keep]

    def close(self, streams: Iterable[bytes]) -> Account:
        """End the writing of tasks, and return what there is. `streams`: those known to the driver, noted as well."""
        batch = self._writer.batch
        names: list[bytes | str] = [f"first:{batch}", b""]
        for stream in streams:
            names += [b"stream:%d:%b" % (batch, stream), b""]
        driver = 1
        while True:
            taking: list[Command] = [("HSETNX", self._key, f"driver:{batch}:{driver}", self._writer.attempt)]
            asking: list[Command] = [("HSET", self._key, *names), *taking, *self._keep, ("HGETALL", self._key)]
            found: list[bytes] = self._connection.commands(asking)[-1]
            drivers = self._drivers(found)
            if self._writer.attempt in drivers.values():
                driver = max(number for number, attempt in drivers.items() if attempt == self._writer.attempt)
                break
            driver = max(drivers) + 1
        touched, staged, old = [], [], []
        prepared, committed = "", -1
        rows: RowDigest | None = None
        for name, value in zip(found[::2], found[1::2], strict=True):
            kind, _, rest = name.partition(b":")
            if kind == b"staged":
                if int(value) <= batch:
                    staged.append(rest)
                    old.append(name)
                continue
            if kind == b"committed":
                committed = int(value)
                continue
            number, _, stream = rest.partition(b":")
            if number and int(number) < batch:
                old.append(name)
            elif number and int(number) == batch and kind == b"stream":
                touched.append(stream)
            elif number and int(number) == batch and kind == b"prepared":
                prepared = value.decode()
            elif number and int(number) == batch and kind == b"rows":
                count, _, digest = value.decode().partition(" ")
                rows = RowDigest.parse(int(count), digest)
        self._check_order(committed)
        is_committed = committed == batch
        known = rows if is_committed else None
        return Account(tuple(touched), tuple(staged), prepared, is_committed, known, tuple(old), driver)

    def _drivers(self, found: Sequence[bytes]) -> dict[int, str]:
        """The attempts whose drivers have come to end the batch, by their numbers, from the reply to HGETALL."""
        prefix = b"driver:%d:" % self._writer.batch
        fields = zip(found[::2], found[1::2], strict=True)
        return {int(name[len(prefix) :]): value.decode() for name, value in fields if name.startswith(prefix)}

    def prepared(self, account: Account) -> None:
        """All streams are claimed by this attempt. Raises ATTEMPT_REPLACED if another driver has come in between."""
        mine, batch = self._writer.attempt, self._writer.batch
        name, later = f"prepared:{batch}", f"driver:{batch}:{account.driver + 1}"

        def decide(replies: list[Any]) -> list[Command]:
            prepared, driver = replies[0]
            found = (prepared or b"").decode()
            if driver is not None or found not in (account.prepared, mine):
                fail("ATTEMPT_REPLACED", stream=shown(self._key), batch=batch)
            return [] if found == mine else [("HSET", self._key, name, mine)]

        change(self._connection, [self._key], [("HMGET", self._key, name, later)], decide)

    def committing(self, account: Account, rows: RowDigest | None) -> list[Command]:
        """The commands that mark the batch as committed, with these rows, and forget what is of no use any more."""
        batch = self._writer.batch
        words: list[str | int] = ["committed", batch]
        if rows is not None:
            words += [f"rows:{batch}", f"{rows.rows} {rows.text}"]
        commands: list[Command] = [("HSET", self._key, *words)]
        starts = range(0, len(account.old), _REMOVED_AT_ONCE)
        commands += [("HDEL", self._key, *account.old[at : at + _REMOVED_AT_ONCE]) for at in starts]
        return [*commands, *self._keep]
