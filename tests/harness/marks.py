"""Marks for the servers that a test is for. ``tests/conftest.py`` applies them.

@since("8.2")     the server must be at least that new. An older real redis-server is left out, as the summary says.
                  A Valkey is left out, too; ``since("8.2", valkey="9.0")`` means that 9.0 has the feature as well.
@hand_clock       the test moves the clock, which only the core in process supports.
@over_tcp         the test needs a connection: bytes, descriptors, disconnecting.
"""

from __future__ import annotations

import pytest


def since(text: str, valkey: str | None = None) -> pytest.MarkDecorator:
    """Mark a test for servers of version ``text`` or later, and for Valkey ``valkey`` or later."""
    return pytest.mark.since(text, valkey)


hand_clock = pytest.mark.hand_clock
over_tcp = pytest.mark.over_tcp
