"""Rates: how fast counters grow, over the last seconds, so that bursts do not make a rate jump."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

_OVER_MS = 8_000

Key = TypeVar("Key", bound=Hashable)


class Rates(Generic[Key]):
    """The counters of the last looks. One that goes back stands still."""

    def __init__(self) -> None:
        self._counted: deque[tuple[int, Mapping[Key, int]]] = deque()

    def of(self, now: int, counts: Mapping[Key, int]) -> dict[Key, float]:
        """What each counter has grown by per second; none of what is seen for the first time. `now`: milliseconds."""
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
