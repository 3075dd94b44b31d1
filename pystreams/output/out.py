"""What a command writes: results to standard output, everything else to standard error.

Results are a table for people or, with --json, one document or a line of JSON for each record. A reader that closes the
pipe (`| head`) ends the command quietly: `ReaderGoneError`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from spark_streams.errors import PystreamsError


class ReaderGoneError(Exception):
    """Whoever read the output has closed it: there is nobody to work for."""


@dataclass(frozen=True)
class Column:
    """A column of a table. `right`: numbers are aligned there. `styles`: colours of certain cells, on terminals."""

    title: str
    right: bool = False
    styles: dict[str, str] | None = None


class Output:
    """`json`: whether programs read the results. Made for each command, when its streams are known."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._out: TextIO = sys.stdout
        self._errors = Console(file=sys.stderr, highlight=False, markup=False, soft_wrap=True)

    @property
    def on_terminal(self) -> bool:
        """Whether a person sees the results as they are written."""
        return self._out.isatty()

    def write(self, text: str) -> None:
        """Write text as it is. Lone surrogates, which no encoding has, are escaped."""
        try:
            self._out.write(text)
        except UnicodeEncodeError:
            encoding = self._out.encoding or "ascii"
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except BrokenPipeError:
            raise ReaderGoneError from None

    def flush(self) -> None:
        """Let the reader have what was written."""
        try:
            self._out.flush()
        except BrokenPipeError:
            raise ReaderGoneError from None

    def line(self, text: str = "") -> None:
        """A line for people."""
        self.write(text + "\n")

    def document(self, value: Any) -> None:
        """A value as JSON, on a line of its own."""
        self.write(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) + "\n")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, empty: str = "") -> None:
        """Rows under their titles. Cells are never cut or wrapped. `empty` is said where there are no rows."""
        found = [list(row) for row in rows]
        if not found:
            self.note(empty)
            return
        widths = [
            max(cell_len(column.title), *(cell_len(row[at]) for row in found)) for at, column in enumerate(columns)
        ]
        titles = [column.title for column in columns]
        console = Console(file=self._out, highlight=False, markup=False, soft_wrap=True) if self.on_terminal else None
        for row in (titles, *found):
            if console is None:
                self.line("  ".join(map(_padded, columns, row, widths)).rstrip())
                continue
            styles = [
                "bold" if row is titles else (column.styles or {}).get(cell, "")
                for column, cell in zip(columns, row, strict=True)
            ]
            cells = zip(map(_padded, columns, row, widths), styles, strict=True)
            try:
                console.print(Text("  ").join(Text(cell, style) for cell, style in cells))
            except BrokenPipeError:
                raise ReaderGoneError from None

    def note(self, text: str) -> None:
        """Something to know beside the results, on standard error; with --json nothing."""
        if text and not self.json:
            self.flush()
            self._errors.print(Text(text, style="dim"))

    def warn(self, text: str) -> None:
        """Something that may be wrong, on standard error; as JSON with --json."""
        self.flush()
        self._say("warning", {"message": text}, text, "yellow")

    def failed(self, failure: PystreamsError) -> None:
        """The error that ends the command, on standard error; as JSON with --json."""
        parameters = {"id": failure.condition, "message": str(failure)}
        self._say("error", parameters, str(failure), "red")

    def _say(self, kind: str, document: dict[str, Any], text: str, style: str) -> None:
        if self.json:
            self._errors.file.write(json.dumps({kind: document}, ensure_ascii=False) + "\n")
        else:
            safe = "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)
            self._errors.print(Text.assemble((f"{kind}: ", f"bold {style}"), safe))

    @contextmanager
    def progress(self, doing: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show how long work goes on, on standard error if that is a terminal. Gives the function that adds to it."""
        if self.json or not self._errors.is_terminal:
            yield lambda _: None
            return
        columns = [SpinnerColumn(), TextColumn("{task.description}")]
        bar = (
            [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()] if total else [TextColumn("{task.completed:,}")]
        )
        with Progress(*columns, *bar, console=self._errors, transient=True) as shown:
            task = shown.add_task(doing, total=total)
            yield lambda amount: shown.advance(task, amount)


def _padded(column: Column, cell: str, width: int) -> str:
    """A cell as wide as its column. Some characters take two places on a terminal."""
    space = " " * (width - cell_len(cell))
    return space + cell if column.right else cell + space
