"""Shrinking of failing sequences of commands: fewer steps first, then fewer words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.differential.grammar import Step

T = TypeVar("T")


def shrink(
    steps: list[Step], found: T, fails: Callable[[list[Step]], T | None], seconds: float = 30
) -> tuple[list[Step], T]:
    """Leave out steps and words for up to ``seconds``. Return the shortest failing sequence, and the result of
    ``fails`` for it.

    ``fails`` returns None if a sequence does not fail; ``found`` is its result for ``steps``.
    """
    end = time.monotonic() + seconds
    size = max(len(steps) // 2, 1)
    while size:
        position = 0
        while position < len(steps) and time.monotonic() < end:
            fewer = steps[:position] + steps[position + size :]
            failure = fails(fewer) if fewer else None
            if failure is None:
                position += size
            else:
                steps, found = fewer, failure
        size //= 2
    for position in range(len(steps)):
        for index in range(len(steps[position][1]) - 1, 0, -1):
            client, words = steps[position]
            fewer = [*steps[:position], (client, words[:index] + words[index + 1 :]), *steps[position + 1 :]]
            failure = fails(fewer) if time.monotonic() < end else None
            if failure is not None:
                steps, found = fewer, failure
    return steps, found
