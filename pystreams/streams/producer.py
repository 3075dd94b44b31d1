"""Adding entries: pipelines of XADD, an optional rate, and routing of entries to streams by a key field."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pystreams.errors import fail
from pystreams.streams.paged_calls import failure
from pystreams.values.names import shown
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, refusal_of
from streamwire.slots import checksum

_BATCH_ENTRIES = 500
_BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Target:
    """Destination of entries: one stream, or with `partitions` the streams `<stream>:{0}`, `<stream>:{1}` and so on.

    The CRC16 of the key field's value selects one of these streams, as in the connector.

    `maxlen`: approximate maximum length of the stream.
    """

    stream: bytes
    key_field: bytes | None = None
    partitions: int | None = None
    maxlen: int | None = None

    def of(self, words: Sequence[bytes]) -> bytes:
        """Return the stream of an entry. A missing key field counts as empty."""
        if self.partitions is None:
            return self.stream
        key = next((words[at + 1] for at in range(0, len(words), 2) if words[at] == self.key_field), b"")
        return b"%b:{%d}" % (self.stream, checksum(key) % self.partitions)

    def command(self, words: Sequence[bytes], entry_id: bytes = b"*") -> Command:
        """Return the command that adds an entry."""
        trims: Command = () if self.maxlen is None else ("MAXLEN", "~", self.maxlen)
        return ("XADD", self.of(words), *trims, entry_id, *words)


class Producer:
    """Adds entries in batches. Call `flush` at the end, and before a pause.

    `added`: number of entries that the server confirmed. `answered`: those of them before the first refused entry.
    `later`: those of them after it. `unconfirmed`: number of entries sent without a reply so far.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._commands: list[Command] = []
        self._bytes = 0
        self.added = self.answered = self.later = 0
        self.unconfirmed = 0

    def add(self, command: Command) -> None:
        """Buffer an entry, and add the buffered entries if they are a full batch."""
        self._commands.append(command)
        self._bytes += sum(len(word) for word in command if isinstance(word, bytes))
        if len(self._commands) >= _BATCH_ENTRIES or self._bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Add the buffered entries. Raises ROW_REFUSED for the first refused entry, or the error of `failure`.

        The server also processes the entries after the refused one.
        """
        commands, self._commands, self._bytes = self._commands, [], 0
        refused: tuple[Command, ResponseError] | None = None
        self.unconfirmed = len(commands)
        for command, reply in zip(commands, self._connection.pipeline(commands), strict=True):
            if not isinstance(reply, ResponseError):
                self.added += 1
                self.later += refused is not None
            elif refused is None:
                refused = command, reply
            self.unconfirmed -= 1
            self.answered += refused is None
        if refused is not None:
            if str(refused[1]).startswith("WRONGTYPE") or refusal_of(refused[1]) is not Refusal.ROW:
                raise failure(self._connection, *refused)
            stream = refused[0][1]
            assert isinstance(stream, bytes)
            fail(
                "ROW_REFUSED",
                address=self._connection.address,
                stream=shown(stream),
                reason=str(refused[1]).rstrip("."),
                added=self.added,
                later=self.later,
            )


def paced(count: int | None, rate: float | None) -> Iterator[int]:
    """Yield the number of entries that are due, until the sum is `count`. Without a `rate`, yield full batches."""
    begin = time.monotonic()
    sent = 0
    while count is None or sent < count:
        due = _BATCH_ENTRIES if rate is None else int((time.monotonic() - begin) * rate) + 1 - sent
        if due <= 0:
            time.sleep(min(0.05, 1 / rate if rate else 0.05))
            continue
        due = min(due, _BATCH_ENTRIES, due if count is None else count - sent)
        sent += due
        yield due
