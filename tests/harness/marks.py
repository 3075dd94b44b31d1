"""What a test says about the servers that it is for. See ``tests/conftest.py`` for how it is honoured.

@since("8.2")     the server must be at least that new. An older real redis-server is left out, as the run says.
                  A Valkey is left out, too; ``since("8.2", valkey="9.0")`` says that 9.0 has it as well.
@hand_clock       the test moves the clock: only the core in process can do that.
@over_tcp         the test needs a connection: bytes, descriptors, going away.
"""

from __future__ import annotations

import pytest


def since(text: str, valkey: str | None = None) -> pytest.MarkDecorator:
    """For servers of version ``text`` or newer, and for Valkey ``valkey`` or newer."""
    return pytest.mark.since(text, valkey)


hand_clock = pytest.mark.hand_clock
over_tcp = pytest.mark.over_tcp
