"""Positions at which the proxy of a chaos run cuts a connection. The proxy itself belongs to the test kit."""

from __future__ import annotations

import random

from pystreams.testing.proxy import FaultProxy as Proxy
from pystreams.testing.proxy import proxy

__all__ = ["Proxy", "proxy", "somewhere"]


def somewhere(chance: random.Random) -> int:
    """Return a random number of bytes: usually within the first commands, sometimes after several batches."""
    return chance.choice((chance.randint(1, 200), chance.randint(1, 5_000), chance.randint(1, 300_000)))
