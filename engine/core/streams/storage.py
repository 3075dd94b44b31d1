"""What the streams of one core share: the limits of nodes, the queue for packing, the cache of decompressed spans."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.streams.compressed.span_cache import SpanCache
from engine.core.streams.nodes import NodeLimits
from engine.core.streams.segment import SealedQueue


@dataclass(slots=True)
class Storage:
    """One core's. Streams that are read in another thread need one of their own."""

    limits: NodeLimits = field(default_factory=NodeLimits)
    sealed: SealedQueue = field(default_factory=SealedQueue)
    cache: SpanCache = field(default_factory=SpanCache)
