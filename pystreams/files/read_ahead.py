"""Reading ahead: a queue between a reading and a consuming thread, limited in items and bytes."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any


class ReadAhead:
    """A queue of at most `most` items and `most_bytes` bytes. An empty queue accepts an item of any size."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._items: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._ended = False
        self._changed = threading.Condition()

    def put(self, item: Any, size: int = 0) -> bool:
        """Wait for room, and add an item of `size` bytes. Returns False if the queue has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not self._items or self._has_room(size))
            if self._ended:
                return False
            self._items.append((item, size))
            self._bytes += size
            self._changed.notify_all()
            return True

    def _has_room(self, size: int) -> bool:
        return len(self._items) < self._most and self._bytes + size <= self._most_bytes

    def get(self, timeout: float | None = None) -> Any:
        """Return the next item. Raises TimeoutError after `timeout` seconds without an item."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, timeout):
                raise TimeoutError
            item, size = self._items.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return item

    def end(self) -> None:
        """End the queue, because the consumer has stopped. A waiting or later `put` returns False."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
