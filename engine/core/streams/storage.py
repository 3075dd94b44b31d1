"""What the streams of one core share: the limits of nodes, the queue for packing, the cache of decompressed spans, and
which of them remember what idempotent producers sent.
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
    """One core's. Streams that are read in another thread need one of their own."""

    limits: NodeLimits = field(default_factory=NodeLimits)
    sealed: SealedQueue = field(default_factory=SealedQueue)
    cache: SpanCache = field(default_factory=SpanCache)
    #: The streams with idempotent producers. A stream that was deleted is not kept alive by it.
    idempotent: WeakSet[Any] = field(default_factory=WeakSet)
