"""A shell without sockets."""

from __future__ import annotations

import pytest

from tests.engine.shell.network.without_sockets import Shell


@pytest.fixture
def shell() -> Shell:
    """A shell that records the effects of commands."""
    shell = Shell()
    shell.runner.core.changes.recording = True
    return shell
