"""What a test says about the servers that it is for. See ``tests/conftest.py`` for how it is honoured.

@since("8.2")     the server must be at least that new. An older real redis-server is left out, as the run says.
@hand_clock       the test moves the clock: only the core in process can do that.
@over_tcp         the test needs a connection: bytes, descriptors, going away.
"""

from __future__ import annotations

import pytest


def version(text: str) -> tuple[int, ...]:
    """``"8.10"`` as (8, 10)."""
    return tuple(int(part) for part in text.split("."))


def since(text: str) -> pytest.MarkDecorator:
    """For servers of version ``text`` or newer."""
    return pytest.mark.since(text)


hand_clock = pytest.mark.hand_clock
over_tcp = pytest.mark.over_tcp
