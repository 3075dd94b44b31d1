"""Tables of commands with their replies, run in order on a server without keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.harness.kinds import Server


def play(server: Server, dialogue: Sequence[tuple[Any, Any]]) -> None:
    """Run each command and compare its reply."""
    for number, (command, reply) in enumerate(dialogue):
        came = server.run(*(command if isinstance(command, tuple) else (command,)))
        assert server.same(came, reply), f"step {number}, {command}: {came!r} instead of {reply!r}"
