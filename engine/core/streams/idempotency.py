"""Idempotent producers of a stream: a map of (producer ID, idempotent ID) to the ID of the added entry.

The newest ``maxsize`` idempotent IDs of each producer are kept, each for ``duration`` seconds after its entry's time.
Lookups do not check the age of IDs, so ``Producers.expire`` must be called about once per second.
"""

from __future__ import annotations

from hashlib import blake2b

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
    """The producers of one stream. ``duration`` is in seconds."""

    __slots__ = ("added", "by_producer", "duplicates", "duration", "maxsize")

    def __init__(self, duration: int, maxsize: int) -> None:
        self.duration = duration
        self.maxsize = maxsize
        #: Producer ID -> idempotent ID -> entry ID, oldest first.
        self.by_producer: dict[bytes, dict[bytes, int]] = {}
        #: Total number of idempotent IDs recorded so far, including dropped ones.
        self.added = 0
        #: Total number of duplicates, which were not added again.
        self.duplicates = 0

    def find(self, producer: bytes, iid: bytes) -> int | None:
        """Return the ID of the entry that the producer sent as ``iid``; None if no such entry is recorded."""
        return self.by_producer.get(producer, {}).get(iid)

    def remember(self, producer: bytes, iid: bytes, entry_id: int) -> None:
        """Record a new entry; drop the producer's oldest IDs beyond ``maxsize``."""
        sent = self.by_producer.setdefault(producer, {})
        sent[iid] = entry_id
        self.added += 1
        while len(sent) > self.maxsize:
            del sent[next(iter(sent))]

    def configure(self, duration: int, maxsize: int) -> bool:
        """Set both limits and return whether either changed. A change drops all records."""
        if (duration, maxsize) == (self.duration, self.maxsize):
            return False
        self.duration, self.maxsize = duration, maxsize
        self.by_producer.clear()
        return True

    def expire(self, now_ms: int) -> None:
        """Drop IDs older than ``duration`` and producers without IDs."""
        limit = now_ms - self.duration * 1000
        for producer, sent in list(self.by_producer.items()):
            while sent:
                iid, entry_id = next(iter(sent.items()))
                if entry_id >> 64 > limit:
                    break
                del sent[iid]
            if not sent:
                del self.by_producer[producer]

    def tracked(self) -> int:
        """Return the number of idempotent IDs that are recorded now."""
        return sum(map(len, self.by_producer.values()))

    def copy(self) -> Producers:
        """Return an independent copy."""
        other = Producers(self.duration, self.maxsize)
        other.by_producer = {producer: dict(sent) for producer, sent in self.by_producer.items()}
        other.added, other.duplicates = self.added, self.duplicates
        return other
