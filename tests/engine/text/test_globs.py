"""Glob patterns: they match as in Redis, and no pattern is slow."""

from __future__ import annotations

import random

import pytest

from engine.text.globs import matches
from tests import servers
from tests.servers.connection import Connection


@pytest.mark.parametrize("pattern", [b"a*" * 30 + b"b", b"*a" * 30 + b"b", b"a*?" * 20 + b"b", b"[a-z]*" * 25 + b"0"])
@pytest.mark.parametrize("size", [5000, 500_000])
def test_no_pattern_is_slow(pattern: bytes, size: int) -> None:
    """Patterns on which a backtracking matcher would not finish give a result."""
    assert not matches(pattern, b"a" * size)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (b"x" * 2000, b"x" * 2000, True),
        (b"x" * 2000 + b"*", b"x" * 3000, True),
        (b"*" + b"x" * 1023, b"x" * 2000, True),
        (b"*" + b"x" * 1024, b"x" * 2000, False),
        (b"*x", b"a" * (1 << 20) + b"x", True),
        (b"*x", b"a" * (1 << 22) + b"x", False),
    ],
    ids=["plain", "prefix", "longest", "too long", "long text", "too much text"],
)
def test_long_patterns_and_texts_match_nothing(pattern: bytes, text: bytes, expected: bool) -> None:
    """A match that may take too long fails, which is the only difference from Redis."""
    assert matches(pattern, text) is expected


@pytest.mark.redis
def test_patterns_match_as_in_redis() -> None:
    """Random patterns and keys of special characters match as in redis-server's KEYS."""
    draw = random.Random(7)
    keys = {bytes(draw.choices(b"ab-]\\^[*Z", k=draw.randint(0, 4))) for _ in range(300)}
    with servers.redis() as running, Connection(running) as connection:
        for key in keys:
            connection.run(b"SET", key, b"")
        for _ in range(1500):
            pattern = bytes(draw.choices(b"ab*?[]^-\\Z", k=draw.randint(1, 7)))
            if pattern == b"*":
                continue  # KEYS with a single star lists all keys without matching.
            found = connection.run(b"KEYS", pattern)
            assert sorted(found) == sorted(key for key in keys if matches(pattern, key)), pattern
