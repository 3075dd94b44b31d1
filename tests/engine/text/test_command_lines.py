"""Secrets in commands shown by MONITOR and the slow log."""

from __future__ import annotations

import re

import pytest

from engine.settings.directives import ALIASES, DIRECTIVES
from engine.text.command_lines import without_secrets

_SECRET = re.compile(r"(pass|password|(master|primary)(auth|user))$")


@pytest.mark.parametrize("name", [name for name in (*DIRECTIVES, *ALIASES) if _SECRET.search(name)])
def test_config_set_of_a_password_is_redacted(name: str) -> None:
    """Passwords in CONFIG SET are hidden, also among other directives and if the directive's name is in upper case."""
    words = [b"CONFIG", b"SET", b"port", b"1", name.upper().encode(), b"secret"]
    assert without_secrets(words) == [*words[:-1], b"(redacted)"]
