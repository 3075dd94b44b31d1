"""Idempotent producers of a stream: (producer ID, idempotent ID) -> the ID of the entry that was added for them.

The newest ``maxsize`` idempotent IDs of each producer are kept, each for ``duration`` seconds after its entry's time.
A look-up does not test the age: :meth:`Producers.expire` must be called about once a second.
"""

from __future__ import annotations

from hashlib import blake2b

#: The largest limits that a stream can have.
MOST_IDMP_SECONDS = 86_400
MOST_IDMP_IDS = 10_000


def content_id(fields: list[bytes]) -> bytes:
    """The idempotent ID of an entry's content, 16 bytes; the order of its field-value pairs does not matter."""
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
        #: Counters since the beginning: new idempotent IDs, and duplicates that were not added again.
        self.added = 0
        self.duplicates = 0

    def find(self, producer: bytes, iid: bytes) -> int | None:
        """The ID of the entry that the producer sent as ``iid``, None if there is none or it was forgotten."""
        return self.by_producer.get(producer, {}).get(iid)

    def remember(self, producer: bytes, iid: bytes, entry_id: int) -> None:
        """Record a new entry, and forget the producer's oldest where it has more than ``maxsize``."""
        sent = self.by_producer.setdefault(producer, {})
        sent[iid] = entry_id
        self.added += 1
        while len(sent) > self.maxsize:
            del sent[next(iter(sent))]

    def configure(self, duration: int, maxsize: int) -> bool:
        """Set both limits; whether one changed. If so, everything recorded is forgotten."""
        if (duration, maxsize) == (self.duration, self.maxsize):
            return False
        self.duration, self.maxsize = duration, maxsize
        self.by_producer.clear()
        return True

    def expire(self, now_ms: int) -> None:
        """Forget IDs older than ``duration``, and producers without any left."""
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
        """How many idempotent IDs are recorded."""
        return sum(map(len, self.by_producer.values()))

    def copy(self) -> Producers:
        """An independent copy."""
        other = Producers(self.duration, self.maxsize)
        other.by_producer = {producer: dict(sent) for producer, sent in self.by_producer.items()}
        other.added, other.duplicates = self.added, self.duplicates
        return other
