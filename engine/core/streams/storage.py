"""Storage shared by the streams of one core.

It consists of the node limits, the packing queue, the cache of decompressed spans, and the set of streams with
idempotent producers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from engine.core.streams.compressed.span_cache import SpanCache
from engine.core.streams.nodes import NodeLimits
from engine.core.streams.segment import SealedQueue


@dataclass(slots=True)
class Storage:
    """Storage of one core. Streams that are read in another thread need their own storage."""

    limits: NodeLimits = field(default_factory=NodeLimits)
    sealed: SealedQueue = field(default_factory=SealedQueue)
    cache: SpanCache = field(default_factory=SpanCache)
    #: Streams with idempotent producers (weak references).
    idempotent: WeakSet[Any] = field(default_factory=WeakSet)
