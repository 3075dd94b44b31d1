"""Idempotent producers of a stream: a map of (producer ID, idempotent ID) to the ID of the added entry.

The newest ``maxsize`` idempotent IDs of each producer are kept, each for ``duration`` seconds after its entry's time.
Lookups do not check the age of IDs, so ``Producers.expire`` must be called about once per second.
"""

from __future__ import annotations

from hashlib import blake2b
from heapq import heappop, heappush

#: Maximum ``duration`` of a stream.
MOST_IDMP_SECONDS = 86_400
#: Maximum ``maxsize`` of a stream.
MOST_IDMP_IDS = 10_000


def content_id(fields: list[bytes]) -> bytes:
    """Return a 16-byte idempotent ID of an entry's content, independent of the order of its field-value pairs."""
    total = 0
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        digest = blake2b(b"%d:%b%b" % (len(name), name, value), digest_size=16).digest()
        total += int.from_bytes(digest, "little")
    return (total % (1 << 128)).to_bytes(16, "little")


class Producers:
    """The producers of one stream. ``duration`` is in seconds.

    A heap has for each producer a time that is not later than its oldest ID, so that `expire` examines only producers
    with an ID that is too old. A copy shares the IDs of a producer until one of the two changes them.
    """

    __slots__ = ("_oldest", "_own", "added", "by_producer", "duplicates", "duration", "maxsize")

    def __init__(self, duration: int, maxsize: int) -> None:
        self.duration = duration
        self.maxsize = maxsize
        #: Producer ID -> idempotent ID -> entry ID, oldest first. Callers must not change it.
        self.by_producer: dict[bytes, dict[bytes, int]] = {}
        #: The heap: milliseconds of an entry ID in eight bytes, so that bytes are ordered like numbers, and a producer.
        self._oldest: list[bytes] = []
        #: Producers whose IDs are not shared with a copy; None if there was no copy.
        self._own: set[bytes] | None = None
        #: Total number of idempotent IDs recorded so far, including dropped ones.
        self.added = 0
        #: Total number of duplicates, which were not added again.
        self.duplicates = 0

    def find(self, producer: bytes, iid: bytes) -> int | None:
        """Return the ID of the entry that the producer sent as ``iid``; None if no such entry is recorded."""
        return self.by_producer.get(producer, {}).get(iid)

    def restore(self, producer: bytes, sent: dict[bytes, int]) -> None:
        """Set the idempotent IDs of a producer, oldest first, that were recorded in a file."""
        if sent:
            self.by_producer[producer] = sent
            self._push(producer, next(iter(sent.values())))

    def remember(self, producer: bytes, iid: bytes, entry_id: int) -> None:
        """Record a new entry; drop the producer's oldest IDs beyond ``maxsize``."""
        sent = self._sent(producer)
        if not sent:
            self._push(producer, entry_id)
        sent[iid] = entry_id
        self.added += 1
        while len(sent) > self.maxsize:
            del sent[next(iter(sent))]

    def drop(self, producer: bytes, iid: bytes) -> None:
        """Drop an idempotent ID if it is recorded."""
        if self.find(producer, iid) is not None:
            del self._sent(producer)[iid]

    def _sent(self, producer: bytes) -> dict[bytes, int]:
        """Return the IDs of a producer, to be changed."""
        sent, own = self.by_producer.get(producer), self._own
        if sent is None:
            sent = self.by_producer[producer] = {}
        elif own is not None and producer not in own:
            sent = self.by_producer[producer] = dict(sent)
        if own is not None:
            own.add(producer)
        return sent

    def _push(self, producer: bytes, entry_id: int) -> None:
        heappush(self._oldest, (entry_id >> 64).to_bytes(8, "big") + producer)

    def configure(self, duration: int, maxsize: int) -> bool:
        """Set both limits and return whether either changed. A change drops all records."""
        if (duration, maxsize) == (self.duration, self.maxsize):
            return False
        self.duration, self.maxsize = duration, maxsize
        self.by_producer, self._oldest, self._own = {}, [], None
        return True

    def expire(self, now_ms: int, most: int) -> int:
        """Drop up to about ``most`` IDs that are older than ``duration``, and producers without IDs.

        Returns how many IDs and producers were examined. If this is less than ``most``, none is left to drop.
        """
        limit = now_ms - self.duration * 1000
        end = max(limit + 1, 0).to_bytes(8, "big")
        done = 0
        while done < most and self._oldest and self._oldest[0] < end:
            producer = heappop(self._oldest)[8:]
            done += 1
            if producer not in self.by_producer:
                continue
            sent = self._sent(producer)
            while sent:
                iid, entry_id = next(iter(sent.items()))
                if entry_id >> 64 > limit:
                    self._push(producer, entry_id)
                    break
                del sent[iid]
                done += 1
            else:
                del self.by_producer[producer]
        return done

    def tracked(self) -> int:
        """Return the number of idempotent IDs that are recorded now."""
        return sum(map(len, self.by_producer.values()))

    def copy(self) -> Producers:
        """Return an independent copy."""
        other = Producers(self.duration, self.maxsize)
        other.by_producer, other._oldest = dict(self.by_producer), self._oldest[:]
        self._own, other._own = set(), set()
        other.added, other.duplicates = self.added, self.duplicates
        return other
