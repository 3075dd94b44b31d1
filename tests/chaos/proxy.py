"""Where the proxy of a chaos run cuts. The proxy itself is the test kit's."""

from __future__ import annotations

import random

from pystreams.testing.proxy import FaultProxy as Proxy
from pystreams.testing.proxy import proxy

__all__ = ["Proxy", "proxy", "somewhere"]


def somewhere(chance: random.Random) -> int:
    """Return a random number of bytes: mostly small, within a command or two, sometimes after some batches."""
    return chance.choice((chance.randint(1, 200), chance.randint(1, 5_000), chance.randint(1, 300_000)))
