"""Rates of counters, averaged over the last seconds to smooth bursts."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

_OVER_MS = 8_000

Key = TypeVar("Key", bound=Hashable)


class Rates(Generic[Key]):
    """Counters of the last samples. A counter that decreases has the rate 0."""

    def __init__(self) -> None:
        self._counted: deque[tuple[int, Mapping[Key, int]]] = deque()

    def of(self, now: int, counts: Mapping[Key, int]) -> dict[Key, float]:
        """Return each counter's growth per second, without counters seen for the first time. `now`: milliseconds."""
        counted = self._counted
        while len(counted) > 1 and now - counted[1][0] >= _OVER_MS:
            counted.popleft()
        if counted and now < counted[-1][0]:
            counted.clear()  # the server's clock went back
        found: dict[Key, float] = {}
        for key, count in counts.items():
            for at, then in counted:
                if key in then and now > at:
                    found[key] = max(0, count - then[key]) * 1000 / (now - at)
                    break
        counted.append((now, counts))
        return found
