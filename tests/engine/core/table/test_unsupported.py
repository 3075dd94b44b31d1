"""Redis features that the engine does not support are rejected with an explanation."""

from __future__ import annotations

import pytest

from engine.core.table.registry import all_commands
from engine.core.table.unsupported import UNSUPPORTED
from tests.harness.core import CoreServer


@pytest.mark.parametrize(
    ("command", "name", "family"),
    [
        ("zadd k 1 m", "zadd", "sorted sets"),
        ("Blpop k 0", "Blpop", "lists"),
        ("HEXPIRE k 1 FIELDS 1 f", "HEXPIRE", "expiring hash fields"),
        ("json.set k $ 1", "json.set", "modules"),
        ("MODULE LOAD x", "module LOAD", "modules"),
        ("CLIENT TRACKING on", "client TRACKING", "client-side caches"),
        ("SETEX k 1 v", "SETEX", "SETEX and PSETEX (unlike SET with EX or PX)"),
        ("GETRANGE k 0 1", "GETRANGE", "other string commands"),
    ],
)
def test_the_error_names_the_family(command: str, name: str, family: str) -> None:
    """An unsupported command is rejected with its name, in an error that starts like the one for an unknown command."""
    text = f"ERR unknown command '{name}': this engine stores streams; {family} need Redis or Valkey"
    CoreServer(2).expect_error(command, text)


def test_an_unknown_command_that_looks_like_one_of_a_module_is_unknown() -> None:
    """The error for an unknown command does not name a family if only the start of a module's prefix matches."""
    for name in ("JSONX", "JSON"):
        CoreServer(2).expect_error(f"{name} k", f"ERR unknown command '{name}', with args beginning with: 'k' ")


def test_no_supported_command_is_in_the_table_of_unsupported_ones() -> None:
    """No command is in both tables."""
    known = {command.name for command in all_commands()}
    assert known & {name for family in UNSUPPORTED for name in family.commands} == set()


def test_debug_is_rejected_by_default() -> None:
    """DEBUG is rejected unless enable-debug-command allows it."""
    text = CoreServer(2).run("DEBUG SLEEP 0").text
    assert text.startswith("ERR DEBUG command not allowed.")
