"""Storage shared by the streams of one core.

It consists of the packing queue, the cache of decompressed spans, and the set of streams with
idempotent producers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from engine.core.streams.compressed.span_cache import SpanCache
from engine.core.streams.segment import SealedQueue

#: Maximum size in bytes of the cache of streams that are read once.
_READ_ONCE_BYTES = 1 << 20


@dataclass(slots=True)
class Storage:
    """Storage of one core. Streams that are read in another thread need their own storage."""

    sealed: SealedQueue = field(default_factory=SealedQueue)
    cache: SpanCache = field(default_factory=SpanCache)
    #: Streams with idempotent producers (weak references).
    idempotent: WeakSet[Any] = field(default_factory=WeakSet)

    @classmethod
    def for_reading_once(cls) -> Storage:
        """Return a storage for copies of streams that are read once, in order, so that a small cache suffices."""
        return cls(cache=SpanCache(_READ_ONCE_BYTES))
