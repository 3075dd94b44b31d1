"""The words of random commands: keys, groups, IDs and options, all drawn from the random source.

IDs are small numbers that mostly grow, so that ranges, deletions and claims match entries. Times are either now or far
from every threshold, so that no comparison depends on a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
Words = list[str]

KEYS = ["s", "s", "s", "t", "t", "u"]
GROUPS = ["g", "g", "g", "h"]
CONSUMERS = ["a", "a", "b", "b", "c"]
#: Idle times and thresholds: zero, or so large that a slow run does not matter.
MIN_IDLES = ["0", "0", "0", "500000", "2000000000", "-7"]
IDLES = ["0", "1000000", "3000000000", "-1"]
TIMES = ["1", "1000000", "-3", "99999999999999"]


class Vocabulary:
    """Words for one sequence; a ``plain`` sequence deletes no entry and sets no counter explicitly."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._top = 0
        self.plain = random.random() < 0.33

    def one(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def key(self) -> str:
        return self.one(KEYS)

    def next_id(self) -> str:
        """Return an ID that is mostly greater than all earlier ones."""
        if self.chance(0.1):
            return self.id()
        if self.chance(0.12):
            return f"{self._top // 4}-*"
        self._top += self.number(1, 5)
        return f"{self._top // 4}-{self._top % 4}"

    def id(self) -> str:
        """Return an ID among the existing ones."""
        point = self.number(0, self._top + 2)
        return f"{point // 4}" if self.chance(0.2) else f"{point // 4}-{point % 4}"

    def ids(self, most: int = 5) -> Words:
        return [self.id() for _ in range(self.number(1, most))]

    def low(self) -> str:
        return "-" if self.chance(0.3) else ("(" if self.chance(0.2) else "") + self.id()

    def high(self) -> str:
        return "+" if self.chance(0.3) else ("(" if self.chance(0.2) else "") + self.id()

    def count(self, probability: float = 0.5) -> Words:
        if not self.chance(probability):
            return []
        return [self.one(["COUNT", "count"]), str(self.number(1, 6) if self.chance(0.9) else self.number(-1, 0))]

    def fields(self) -> Words:
        return [
            word
            for n in range(self.number(1, 3))
            for word in (self.one(["f", "g", "", "field"]), self.one(["1", "-17", "", "value", "a\r\nb", "x" * 70]))
        ]

    def trim(self) -> Words:
        """Return a trimming strategy with its threshold."""
        strategy = self.one(["MAXLEN", "MINID"])
        threshold = str(self.number(0, 12)) if strategy == "MAXLEN" else self.id()
        words = [strategy, *([self.one(["~", "~", "="])] if self.chance(0.6) else []), threshold]
        if self.chance(0.5 if "~" in words else 0.05):
            words += ["LIMIT", str(self.number(0, 12))]
        return words


#: Function that makes a command.
Maker = Callable[[Vocabulary], Words]
#: Functions of commands about one subject, each with its frequency relative to the other functions.
Family = list[tuple[Maker, float]]
