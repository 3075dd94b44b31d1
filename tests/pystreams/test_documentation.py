"""The page about the command line: its session runs as it stands, and it names every verb and exit status."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import redis

from pystreams.commands.root import cli
from pystreams.errors import CONDITIONS, Status
from scripts import error_docs
from tests import ROOT
from tests.pystreams.conftest import Cli

_PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text()
_VARYING = [
    (r"\b[0-9]{13}-[0-9]+\b", "ID"),
    (r"\(ID, |\(....-..-..T[0-9:.]+Z, ", "(TIME, "),
    (r"redis://[0-9.:]+[0-9]", "URL"),
    (r"\b[0-9.,]+ ?(B|KiB)(?![a-z])", "SIZE"),
    (r"(?<![\w.])(-|[0-9.,]+(e[+-][0-9]+)?/[sh])(?![\w/-])", "RATE"),
    (r"\b[0-9.]+(s|m|h)( [0-9]+(s|m))?\b", "AGE"),
    (r" +", " "),
]


def _steady(text: str) -> str:
    """The text without what differs from run to run: IDs, times, sizes, rates, and the width of columns."""
    for pattern, word in _VARYING:
        text = re.sub(pattern, word, text)
    return text


def _session() -> list[tuple[str, str]]:
    """Every command of the page with what is shown behind it."""
    blocks = re.findall(r"```console\n(.*?)```", _PAGE, re.DOTALL)
    return [
        (command, shown)
        for block in blocks
        for command, shown in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", block, re.MULTILINE)
    ]


def _run(cli_of: Cli, line: str) -> str:
    """What a line of the page writes. Of the shell it uses a pipe from printf, `head`, and `||` behind a status."""
    first, _, rest = line.partition(" | ")
    if first.startswith("head -2 "):
        return "".join(Path(first.removeprefix("head -2 ")).read_text().splitlines(keepends=True)[:2])
    line, _, otherwise = line.partition(" >/dev/null || ")
    stdin = None
    if rest:
        stdin = shlex.split(first)[1].replace("\\n", "\n")
        line = rest
    words = shlex.split(line)
    assert words.pop(0) == "pystreams"
    result = cli_of.result(*words, stdin=stdin)
    if otherwise:
        return shlex.split(otherwise)[1].replace("$?", str(result.exit_code)) + "\n" if result.exit_code else ""
    return result.stderr + result.stdout


@pytest.mark.parametrize("place", ["engine"], indirect=True)
def test_the_session_runs_as_it_stands(
    cli_of: Cli, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command after the other on an empty engine: each writes what the page shows, but for IDs, times and sizes."""
    monkeypatch.chdir(tmp_path)
    session = _session()
    assert len(session) > 20
    for line, shown in session:
        assert (line, _steady(_run(cli_of, line))) == (line, _steady(shown))


def test_every_verb_stands_on_the_page() -> None:
    """In the table at its beginning, with the verbs of a group."""
    for name, command in cli.commands.items():
        (row,) = [row for row in _PAGE.splitlines() if row.startswith("|") and f"`{name}" in row.split("|")[1]][:1] or [
            ""
        ]
        assert row, name
        if isinstance(command, click.Group):
            rows = " ".join(each for each in _PAGE.splitlines() if each.startswith(f"| `{name} "))
            assert [verb for verb in command.commands if f"{verb}`" not in rows] == []


def test_every_exit_status_stands_on_the_page() -> None:
    found = re.findall(r"^\| ([0-9]+) \|", _PAGE, re.MULTILINE)
    assert [int(status) for status in found] == sorted(Status)


def test_the_errors_on_the_page_are_todays() -> None:
    """`python scripts/error_docs.py` writes them anew. Each one is raised by a test."""
    part = error_docs.OF_COMMAND_LINE
    assert part.replaced(_PAGE, error_docs.written_of_command_line()) == _PAGE
    folders = (ROOT / "tests" / "pystreams", ROOT / "tests" / "jobs")
    tests = "".join(path.read_text() for folder in folders for path in sorted(folder.rglob("test_*.py")))
    assert [
        name for name in CONDITIONS if f"[{name}]" not in tests.replace("\\", "") and f'"{name}"' not in tests
    ] == []


def test_every_verb_has_help_with_examples() -> None:
    """And every option says what it is for."""
    pending = [(name, command) for name, command in cli.commands.items()]
    for name, command in pending:
        if isinstance(command, click.Group):
            pending += [(f"{name} {inner}", each) for inner, each in command.commands.items()]
            continue
        assert "pystreams" in (command.epilog or command.help or ""), name
        assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == [], name
