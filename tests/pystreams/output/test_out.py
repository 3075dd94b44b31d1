"""Output for terminals, pipes and programs."""

from __future__ import annotations

import errno
import io
import json
import os
import sys

import pytest

from pystreams.errors import error
from pystreams.output import Column, Form, Lines, Output
from spark_streams.errors import PystreamsError

_COLUMNS = [Column("NAME"), Column("N", right=True), Column("STATUS", styles={"ok": "green"})]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def _table(monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO) -> str:
    monkeypatch.setattr("sys.stdout", stdout)
    Output().table(_COLUMNS, [["[bold]x" + "y" * 100, "5", "ok"], ["日本", "12", "stop"]])
    return stdout.getvalue()


def test_a_table_is_aligned_and_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are never truncated, wide characters count as two, and a pipe gets no colors and no trailing spaces."""
    wide = 107
    assert _table(monkeypatch, io.StringIO()).splitlines() == [
        f"{'NAME':<{wide}}   N  STATUS",
        f"[bold]x{'y' * 100}   5  ok",
        f"日本{' ' * (wide - 4)}  12  stop",
    ]


def test_a_terminal_gets_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets the same columns with colors, unless NO_COLOR is set."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = _table(monkeypatch, _Terminal())
    assert "\x1b[32mok" in coloured
    assert len(coloured.splitlines()) == 3
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in _table(monkeypatch, _Terminal())


@pytest.mark.parametrize("as_json", [True, False])
def test_errors_and_warnings_go_to_standard_error(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """With `--json`, errors and warnings are JSON, and notes are left out. Control characters are escaped."""
    stderr = io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    out = Output(Form.JSON if as_json else Form.TABLE)
    out.note("by the way")
    out.warn("take \x1b[2J care")
    out.failed(error("NO_GROUPS", stream="s"))
    lines = stderr.getvalue().splitlines()
    if as_json:
        first, second = map(json.loads, lines)
        assert (first["warning"]["message"], second["error"]["id"]) == ("take \x1b[2J care", "NO_GROUPS")
    else:
        assert lines[:2] == ["by the way", "warning: take \\x1b[2J care"]
        assert lines[2].startswith("error: [NO_GROUPS] The stream 's'")


class _Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_a_file_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk on standard output is reported as a file error, not as a server error."""
    with pytest.raises(PystreamsError, match="The file standard output cannot be used: No space left on device"):
        _table(monkeypatch, _Full())


def test_standard_error_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed standard error does not stop the command."""
    monkeypatch.setattr("sys.stderr", _Closed())
    for as_json in (False, True):
        out = Output(Form.JSON if as_json else Form.TABLE)
        out.note("by the way")
        out.warn("take care")
        out.failed(error("NO_GROUPS", stream="s"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_valid_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """Characters that the encoding lacks are written as JSON escapes."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", stdout)
    out = Output(Form.JSON)
    out.document({"name": "köln 😀"})
    out.flush()
    assert json.loads(stdout.buffer.getvalue()) == {"name": "köln 😀"}  # type: ignore[attr-defined]


_HOSTILE = "a\x1b]0;title\x07\x00\x7f\x9b2J\u202eb\tc"


def _all_outputs(out: Output) -> None:
    for form in Form:
        Lines(Output(form), several=True).write(_HOSTILE.encode(), b"1-0", [_HOSTILE.encode()] * 2)
    out.line(_HOSTILE)
    out.table(_COLUMNS, [[_HOSTILE, "1", "ok"]])
    out.document({_HOSTILE: _HOSTILE})


def test_a_terminal_never_gets_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """No output to a terminal contains control characters, and JSON still has the same content."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout", _Terminal())
    monkeypatch.setattr("sys.stderr", _Terminal())
    out = Output()
    _all_outputs(out)
    out.note(_HOSTILE)
    out.warn(_HOSTILE)
    out.failed(error("NO_SUCH_STREAM", stream=_HOSTILE, address=_HOSTILE))
    out.refused(_HOSTILE)
    for written in (sys.stdout.getvalue(), sys.stderr.getvalue()):  # type: ignore[attr-defined]
        assert [each for each in written if not each.isprintable() and each != "\n"] == []
    assert json.loads(sys.stdout.getvalue().splitlines()[-1]) == {_HOSTILE: _HOSTILE}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (Form.JSON, '{"rows": [{"a": "x,y", "b": null}, {"a": "", "b": [1]}], "more": false}\n{"a": true}\n'),
        (Form.JSONL, '{"a": "x,y", "b": null}\n{"a": "", "b": [1]}\n{"a": true}\n'),
        (Form.CSV, 'a,b\n"x,y",\n,[1]\na\ntrue\n'),
    ],
)
def test_a_document_has_three_forms(monkeypatch: pytest.MonkeyPatch, form: Form, written: str) -> None:
    """JSON lines and CSV write one record per line; CSV starts a header for each set of columns."""
    monkeypatch.setattr("sys.stdout", io.StringIO())
    out = Output(form)
    out.document({"rows": [{"a": "x,y", "b": None}, {"a": "", "b": [1]}], "more": False}, "rows")
    out.document({"a": True})
    assert sys.stdout.getvalue() == written  # type: ignore[attr-defined]
