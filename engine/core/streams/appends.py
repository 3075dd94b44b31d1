"""Stream creation and growth: the ID of the next entry, new streams, and their records of idempotent producers."""

from __future__ import annotations

from array import array

import numpy as np

from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.streams.idempotency import Producers
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream
from engine.settings.config import Config
from engine.text import messages

#: Approximate maximum number of idempotent IDs, producers and streams that one call examines for expiry.
_EXPIRED_AT_ONCE = 2000
#: The first numbers: ``counted`` returns slices of them.
_NUMBERS = array("Q", range(10_000))


class Streams:
    """State shared by all streams of one core."""

    __slots__ = ("_config", "_expiring", "storage")

    def __init__(self, config: Config) -> None:
        self._config = config
        self.storage = Storage()
        #: Streams whose idempotent IDs are still to be expired.
        self._expiring: list[Stream] = []

    def new(self) -> Stream:
        """Return an empty stream that is not in the keyspace yet."""
        return Stream(self.storage)

    def producers_of(self, stream: Stream) -> Producers:
        """Return the stream's idempotency records, created with the configured limits on first use."""
        producers = stream.producers
        if producers is None:
            integer = self._config.integer
            producers = Producers(integer("stream-idmp-duration"), integer("stream-idmp-maxsize"))
        if not producers.by_producer:
            # Register again: `expire_producers` removes a stream from the set when its last producer expires.
            stream.remember_producers(producers)
        return producers

    def expire_producers(self, now: int) -> bool:
        """Expire some of the idempotent IDs that are too old at ``now`` (milliseconds since the epoch); return whether
        the caller must call again, soon, for the others.
        """
        idempotent, left = self.storage.idempotent, _EXPIRED_AT_ONCE
        if not self._expiring:
            self._expiring = list(idempotent)
        while self._expiring and left > 0:
            stream = self._expiring[-1]
            producers = stream.producers
            done = producers.expire(now, left) if producers is not None else 0
            if done < left:
                self._expiring.pop()
                if producers is None or not producers.by_producer:
                    idempotent.discard(stream)
            left -= done + 1
        return bool(self._expiring)


def next_id(stream: Stream | None, word: bytes, now_ms: int) -> int:
    """Return the ID of a new entry for ``*``, ``ms-*`` or an explicit ID.

    Raises CommandError if ``word`` is not an ID, or if the ID would not be above the stream's last ID.
    """
    last_id = stream.last_id if stream is not None else 0
    if word == b"*":
        if last_id == ids.MAX_ID:
            raise CommandError(messages.ID_EXHAUSTED)
        return now_ms << 64 if now_ms > last_id >> 64 else last_id + 1
    if word.endswith(b"-*"):
        ms = ids.parse_u64(word[:-2])
        if ms < 0:
            raise CommandError(messages.INVALID_ID)
        if last_id == ids.MAX_ID:
            raise CommandError(messages.ID_EXHAUSTED)
        entry_id = last_id + 1 if last_id >> 64 == ms else ms << 64
        if not entry_id:
            entry_id = 1
        if entry_id <= last_id or entry_id >> 64 != ms:
            raise CommandError(messages.ID_TOO_SMALL)
        return entry_id
    entry_id = ids.parse(word)
    if last_id == ids.MAX_ID:
        raise CommandError(messages.ID_EXHAUSTED)
    if entry_id <= last_id:
        raise CommandError(messages.ID_TOO_SMALL)
    return entry_id


def counted(first: int, count: int) -> array[int]:
    """Return ``count`` consecutive numbers from ``first``, in the array type used for sequence numbers."""
    if first + count <= len(_NUMBERS):
        return _NUMBERS[first : first + count]
    numbers = array("Q")
    numbers.frombytes((np.arange(count, dtype=np.uint64) + np.uint64(first)).tobytes())
    return numbers
