"""Features of Redis that the engine leaves out are reported as such."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.table.registry import all_commands
from engine.core.table.unsupported import UNSUPPORTED, subject_of
from tests.harness.clients import SocketClient
from tests.harness.core import CoreServer
from tests.servers import Running


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("GEOADD k 1 2 m", "ERR unknown command 'GEOADD': this is a stream engine, without geo commands"),
        ("json.set k $ 1", "ERR unknown command 'json.set': this is a stream engine, without modules"),
        ("MODULE LOAD x", "ERR unknown command 'module LOAD': this is a stream engine, without modules"),
        ("JSONX k", "ERR unknown command 'JSONX', with args beginning with: 'k' "),
    ],
)
def test_the_error_names_the_subject(command: str, text: str) -> None:
    """A command left out is rejected by name, in an error that starts as for any unknown command."""
    CoreServer(2).expect_error(command, text)


def test_no_command_of_the_engine_is_left_out() -> None:
    """CLIENT TRACKING alone is in both tables: it can be switched off."""
    known = {one.name for one in all_commands()}
    assert known & {name for one in UNSUPPORTED for name in one.commands} == {"client|tracking"}


@pytest.mark.redis
def test_every_command_of_redis_is_known_or_left_out(redis_process: Running) -> None:
    """No command of a real Redis is an unknown one without a reason."""
    known = {one.full_name for one in all_commands()}

    def missing(row: Any) -> list[bytes]:
        if subject_of(row[0]):
            return []
        subs = [name for sub in row[9] for name in missing(sub)]
        return subs if row[0] in known else [row[0], *subs]

    with SocketClient(redis_process.connect(), 2, None) as client:
        found = {name for row in client.run("COMMAND") for name in missing(row)}
    assert not {name for name in found if not name.startswith(b"cluster|")}
