"""Fences: what a server remembers of a task's rows in a stream, so that none is written twice or left out.

For each writing task (a query or a batch write, and a partition) and each stream it writes to there is a small hash
beside the stream, in the same slot of a cluster. It says how many of the task's rows of which batch are in the stream,
and their digest. It is advanced under WATCH in the same transaction as the rows it counts, so it is never wrong.
Whoever comes later (a retry, a speculative copy, a replay after a restart) reads it and skips the rows that are there;
if it brings other rows, the digest shows it.

There is one hash per task, not one for all with a field for each: WATCH watches keys, and tasks that run side by side
must not disturb each other. What all tasks of a batch share is in `records.batch_record`.

Pure: `StreamFence` is the arithmetic, `tasks.slot_transaction` talks to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from spark_streams.errors import fail
from spark_streams.write.rows.digest import RowDigest
from streamclient.commands import Command
from streamwire.slots import same_slot_tag
from streamwire.stream_id import ZERO

PREFIX = b"pystreams:fence:"
#: The fields of the hash. They are stored on servers: add fields, never rename one.
FIELDS = ("batch", "rows", "digest", "chunk", "refused")


@dataclass(frozen=True)
class WriterId:
    """Who writes: `name` is the query's ID, or one made for a batch write; the batch; and the partition.

    `attempt` is the same for all tasks that were planned together, and another one after a restart.
    """

    name: str
    batch: int
    partition: int
    attempt: str = ""

    def key(self, stream: bytes) -> bytes:
        """The key of the fence beside the stream."""
        return self.beside(stream, b"%d" % self.partition)

    def beside(self, stream: bytes, what: bytes) -> bytes:
        """A key beside the stream, in its slot."""
        return b"%b{%b}:%b:%b:%b" % (PREFIX, same_slot_tag(stream), stream, self.name.encode(), what)


@dataclass(frozen=True)
class FenceState:
    """What a fence says. All fields have their defaults where there is no fence.

    `rows` of `batch` are in the stream, with that `digest`, written in `chunk` transactions. `refused`: the number of a
    row that the server refused, and why.
    """

    batch: int = -1
    rows: int = 0
    digest: str = ""
    chunk: int = 0
    refused: str = ""

    @classmethod
    def parse(cls, values: Sequence[bytes | None]) -> FenceState:
        """From the reply to HMGET of `FIELDS`."""
        batch, rows, digest, chunk, refused = (b"" if value is None else value for value in values)
        if not batch:
            return cls()
        reason = refused.decode("utf-8", "replace")
        return cls(int(batch), int(rows), digest.decode(), int(chunk), reason)

    def rows_in(self, batch: int) -> int:
        """How many rows of a batch are in the stream for certain: none if the server refused some of them."""
        return self.rows if self.batch == batch and not self.refused else 0

    def command(self, key: bytes) -> Command:
        """The HSET that makes the fence say this."""
        words: list[bytes | str | int] = ["HSET", key]
        for name in FIELDS:
            words += [name, str(getattr(self, name))]
        return tuple(words)


class StreamFence:
    """One task's rows on their way into one stream, and the fence that counts them.

    The calls for each chunk are `unwritten`, `next_state`, `advance`; `update` comes whenever the fence was read. Rows
    are given as their hashes (`rows.digest`). `done` are the rows that this task need not bring.
    """

    def __init__(self, stream: bytes, writer: WriterId, address: object, done: RowDigest | None = None) -> None:
        self.stream = stream
        self.key = writer.key(stream)
        self.digest = done or RowDigest()
        """Of the rows of the task that are done: written, or found written."""
        self.last = ZERO
        """The stream's last ID, when the rows' own IDs were to be checked."""
        self.state = FenceState()
        """What the fence said when it was last read."""
        self.writer = writer
        self._address = address
        self._next: tuple[Any, RowDigest] | None = None  # the rows under way, and the digest with them
        self._reordered = False  # the fence's rows have ended, and were others or in another order

    @property
    def rows(self) -> int:
        """How many of the task's rows are done."""
        return self.digest.rows

    def update(self, values: Sequence[bytes | None]) -> None:
        """Take over what the fence says: the reply to HMGET of `FIELDS`.

        Raises FENCE_AHEAD, FENCE_BEHIND, FENCE_VERSION or ROW_REFUSED where this task must not go on.
        """
        state = FenceState.parse(values)
        batch = self.writer.batch
        if state.batch > batch:
            fail("FENCE_AHEAD", stream=shown(self.stream), fence=shown(self.key), found=state.batch, batch=batch)
        if state.batch < batch:
            state = FenceState(batch)
        if state.refused:
            row, _, reason = state.refused.partition(" ")
            fail("ROW_REFUSED", row=row, address=self._address, reason=reason.rstrip(". "))
        if state.rows < self.rows:
            fail("FENCE_BEHIND", stream=shown(self.stream), fence=shown(self.key), rows=state.rows, known=self.rows)
        if RowDigest.parse(state.rows, state.digest) is None:
            fail("FENCE_VERSION", stream=shown(self.stream), fence=shown(self.key), batch=batch, rows=state.rows)
        self.state = state

    def unwritten(self, hashes: Any) -> int:
        """How many of the next rows are in the stream already.

        Where the fence's rows end among them, or right before them, their digest must be the fence's (REPLAY_DIFFERS).
        If they end with the last one of these rows, it is enough that they are the same in another order, and no more
        rows may come.
        """
        done = max(0, min(self.state.rows - self.rows, len(hashes)))
        if self._reordered and len(hashes):
            self.differs()
        if self.rows + done == self.state.rows and self.state.rows:
            found = self.digest.plus(hashes[:done])
            if found.text != self.state.digest:
                stored = RowDigest.parse(self.state.rows, self.state.digest)
                if done < len(hashes) or stored is None or not found.same_rows(stored):
                    self.differs()
                self._reordered = True
        return done

    def next_state(self, hashes: Any) -> FenceState:
        """What the fence is to say once these rows, all of them, are in the stream."""
        digest = self.digest.plus(hashes)
        self._next = hashes, digest
        state = self.state
        return FenceState(state.batch, digest.rows, digest.text, state.chunk + 1)

    def advance(self, hashes: Any) -> None:
        """These rows are in the stream."""
        if self._next is not None and self._next[0] is hashes:
            self.digest = self._next[1]
        else:
            self.digest = self.digest.plus(hashes)
        self._next = None

    def finish(self) -> None:
        """The task has no more rows. Raises REPLAY_DIFFERS if the fence counts more."""
        if self.state.rows > self.rows:
            self.differs()

    def differs(self) -> NoReturn:
        """Raise REPLAY_DIFFERS."""
        writer = self.writer
        fail(
            "REPLAY_DIFFERS",
            stream=shown(self.stream),
            fence=shown(self.key),
            rows=self.state.rows,
            partition=writer.partition,
            batch=writer.batch,
        )


def shown(key: Any) -> str:
    """A key in a message."""
    return bytes(key).decode("utf-8", "backslashreplace")
