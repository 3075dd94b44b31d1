"""Fences: what a server remembers of a task's rows in a stream, so that none is written twice or left out.

For each writing task (a query or a batch write, and a partition) and each stream it writes to there is a small hash
beside the stream, in the same slot of a cluster. It says how many of the task's rows of which batch are in the stream,
and their digest. It is advanced under WATCH in the same transaction as the rows it counts, so it is never wrong.
Whoever comes later (a retry, a speculative copy, a replay after a restart) reads it and skips the rows that are there;
if it brings other rows, the digest shows it.

There is one hash per task, not one for all with a field for each: WATCH watches keys, and tasks that run side by side
must not disturb each other.

Pure: `StreamFence` is the arithmetic, `spark_streams.write.slot_transaction` talks to the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_streams.client.link import Command
from spark_streams.client.slots import same_slot_tag
from spark_streams.errors import fail
from spark_streams.stream_id import ZERO

PREFIX = b"pystreams:fence:"
FIELDS = ("batch", "rows", "digest", "chunk", "refused", "floor")
"""The fields of the hash. They are stored on servers: add fields, never rename one."""

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class WriterId:
    """Who writes: `name` is the query's ID, or one made for a batch write; the batch; and the partition."""

    name: str
    batch: int
    partition: int

    def key(self, stream: bytes) -> bytes:
        """The key of the fence beside the stream."""
        return b"%b{%b}:%b:%b:%d" % (PREFIX, same_slot_tag(stream), stream, self.name.encode(), self.partition)


@dataclass(frozen=True)
class FenceState:
    """What a fence says. All fields have their defaults where there is no fence.

    `rows` of `batch` are in the stream, with that `digest`, written in `chunk` transactions. `refused`: the number of a
    row that the server refused, and why. `floor`: the stream's last ID before an overwriting write.
    """

    batch: int = -1
    rows: int = 0
    digest: str = ""
    chunk: int = 0
    refused: str = ""
    floor: str = ""

    @classmethod
    def parse(cls, values: Sequence[bytes | None]) -> FenceState:
        """From the reply to HMGET of `FIELDS`."""
        batch, rows, digest, chunk, refused, floor = (b"" if value is None else value for value in values)
        if not batch:
            return cls()
        reason = refused.decode("utf-8", "replace")
        return cls(int(batch), int(rows), digest.decode(), int(chunk), reason, floor.decode())

    def command(self, key: bytes) -> Command:
        """The HSET that makes the fence say this."""
        words: list[bytes | str | int] = ["HSET", key]
        for name in FIELDS:
            words += [name, str(getattr(self, name))]
        return tuple(words)


class StreamFence:
    """One task's rows on their way into one stream, and the fence that counts them.

    The calls for each chunk are `unwritten`, `next_state`, `advance`; `update` comes whenever the fence was read.
    """

    def __init__(self, stream: bytes, writer: WriterId, address: object) -> None:
        self.stream = stream
        self.key = writer.key(stream)
        self.rows = 0
        """Rows of the task that are done: written, or found written."""
        self.last = ZERO
        """The stream's last ID, when the rows' own IDs were to be checked."""
        self.state = FenceState()
        """What the fence said when it was last read."""
        self._writer = writer
        self._address = address
        self._digest = hashlib.sha256()  # of the rows that are done
        self._next: tuple[memoryview, hashlib._Hash] | None = None  # the commands under way, and the digest after them

    def update(self, values: Sequence[bytes | None]) -> None:
        """Take over what the fence says: the reply to HMGET of `FIELDS`.

        Raises FENCE_AHEAD, FENCE_BEHIND or ROW_REFUSED where this task must not go on.
        """
        state = FenceState.parse(values)
        batch = self._writer.batch
        if state.batch > batch:
            fail("FENCE_AHEAD", stream=_shown(self.stream), fence=_shown(self.key), found=state.batch, batch=batch)
        if state.batch < batch:
            state = FenceState(batch)
        if state.refused:
            row, _, reason = state.refused.partition(" ")
            fail("ROW_REFUSED", row=row, address=self._address, reason=reason)
        if state.rows < self.rows:
            fail("FENCE_BEHIND", stream=_shown(self.stream), fence=_shown(self.key), rows=state.rows, known=self.rows)
        self.state = state

    def unwritten(self, commands: memoryview, bounds: Sequence[int]) -> int:
        """How many of the next rows are in the stream already. Row i is `commands[bounds[i]:bounds[i + 1]]`.

        Where the fence's rows end among them, or right before them, their digest must be the fence's (REPLAY_DIFFERS).
        """
        done = min(self.state.rows - self.rows, len(bounds) - 1)
        if self.rows + done == self.state.rows and self.state.rows:
            digest = self._digest.copy()
            digest.update(commands[: bounds[done]])
            if _text(digest) != self.state.digest:
                self._differs()
        return done

    def next_state(self, commands: memoryview, rows: int) -> FenceState:
        """What the fence is to say once these `rows` rows, all of them, are in the stream."""
        digest = self._digest.copy()
        digest.update(commands)
        self._next = commands, digest
        state = self.state
        return FenceState(state.batch, self.rows + rows, _text(digest), state.chunk + 1, "", state.floor)

    def advance(self, commands: memoryview, rows: int) -> None:
        """These rows are in the stream."""
        if self._next is not None and self._next[0] is commands:
            self._digest = self._next[1]
        else:
            self._digest.update(commands)
        self._next = None
        self.rows += rows

    def finish(self) -> None:
        """The task has no more rows. Raises REPLAY_DIFFERS if the fence counts more."""
        if self.state.rows > self.rows:
            self._differs()

    def _differs(self) -> None:
        writer = self._writer
        fail(
            "REPLAY_DIFFERS",
            stream=_shown(self.stream),
            fence=_shown(self.key),
            rows=self.state.rows,
            partition=writer.partition,
            batch=writer.batch,
        )


def _text(digest: hashlib._Hash) -> str:
    return digest.hexdigest()[: 2 * _DIGEST_BYTES]


def _shown(key: Any) -> str:
    return bytes(key).decode("utf-8", "backslashreplace")
