"""The command line's page in the documentation: it lists every verb and exit status. tests/documentation runs its
examples.
"""

from __future__ import annotations

import re

import click

from pystreams.errors import CONDITIONS, Status
from tests import ROOT
from tests.pystreams.conftest import verbs

_PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text()


def test_the_page_lists_every_verb() -> None:
    """The list at the start of the page has every verb and subcommand."""
    items = [line.partition(": ")[0] for line in _PAGE.splitlines() if line.startswith("* `")]
    for name, command in verbs().items():
        inner = command.commands if isinstance(command, click.Group) else {}
        found = [item for item in items if f"`{name}`" in item or item.startswith(f"* `{name} ")]
        assert found, name
        assert [verb for verb in inner if f"{verb}`" not in " ".join(found)] == []


def test_the_page_lists_every_exit_status() -> None:
    """The page lists every exit status in order."""
    found = re.findall(r"^\* \*\*([0-9]+)\*\*: ", _PAGE, re.MULTILINE)
    assert [int(status) for status in found] == sorted(Status)


def test_every_error_has_a_test() -> None:
    """A test names each error of the command line."""
    folders = (ROOT / "tests" / "pystreams", ROOT / "tests" / "jobs")
    tests = "".join(path.read_text() for folder in folders for path in sorted(folder.rglob("test_*.py")))
    assert [
        name for name in CONDITIONS if f"[{name}]" not in tests.replace("\\", "") and f'"{name}"' not in tests
    ] == []


def test_every_verb_has_help_with_examples() -> None:
    """Every verb has examples, and every option has a help text."""
    pending = [*verbs().items()]
    for name, command in pending:
        if isinstance(command, click.Group):
            pending += [(f"{name} {inner}", each) for inner, each in command.commands.items()]
            continue
        assert "pystreams" in (command.epilog or command.help or ""), name
        assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == [], name
