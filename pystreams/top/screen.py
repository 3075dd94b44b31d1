"""Screen of `pystreams top`: a live table of groups or streams, and the keys to control it.

The table shows the first few hundred rows after filtering and sorting. It is filled again when the snapshot, the
order or the filter has changed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from pystreams import measures
from pystreams.dashboard.sampling.sampler import State
from pystreams.dashboard.sampling.snapshot import Snapshot
from pystreams.measures import GroupRow, Measure, StreamRow
from pystreams.streams.groups.status import STYLES
from pystreams.values import numbers, times
from pystreams.values.names import printable

_SHOWN = 300  # maximum number of rows
_WIDEST = 60  # maximum width of a name; longer names are truncated
_POLL_SECONDS = 0.2


class Watcher(Protocol):
    """Samples the server periodically."""

    @property
    def state(self) -> State:
        """The last sample, or the reason why there is none."""
        ...

    def start(self) -> None:
        """Start sampling."""

    def stop(self) -> None:
        """Stop sampling."""


class Top(App[None]):
    """The application. `where`: the server's URL without secrets. `view`: groups or streams."""

    TITLE = "pystreams top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #where { height: 1; background: $primary; color: $text; padding: 0 1; }
    #totals { height: 1; padding: 0 1; }
    DataTable { height: 1fr; }
    Input { dock: bottom; border: none; height: 1; margin-bottom: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("tab", "view", "Groups/streams", priority=True),
        Binding("less_than_sign,left", "sort(-1)", "Sort by", key_display="<"),
        Binding("greater_than_sign,right", "sort(1)", "", key_display=">"),
        Binding("r", "reverse", "Reverse"),
        # With priority, keys typed immediately after `/` go to the filter, not to the table.
        Binding("slash", "filter", "Filter", key_display="/", priority=True),
        Binding("escape", "clear", "All", show=False),
        Binding("space", "pause", "Pause"),
    ]

    def __init__(self, watcher: Watcher, where: str, view: str = "groups", sort: str = "", search: str = "") -> None:
        super().__init__()
        self._watcher = watcher
        self._where = where
        self._view = view
        self._search = search
        self._paused = False
        self._falling = True
        self._column = self._named(sort or "lag")
        self._seen = -1
        self._state = watcher.state

    def compose(self) -> ComposeResult:
        """Return the widgets of the screen."""
        yield Static(id="where")
        yield Static(id="totals")
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        yield table
        box = Input(self._search, placeholder="part of a name", select_on_focus=False)
        box.display = False
        yield box
        yield Footer()

    def on_mount(self) -> None:
        """Start sampling."""
        self._watcher.start()
        self._table.focus()
        self._fill()
        self.set_interval(_POLL_SECONDS, self._follow)

    def on_unmount(self) -> None:
        """Stop sampling."""
        self._watcher.stop()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    def _named(self, sort: str) -> Measure[Any]:
        columns = measures.ON_TOP[self._view]
        return next((column for column in columns if column.name == sort), columns[0])

    def _follow(self) -> None:
        if not self._paused and self._watcher.state.number != self._seen:
            self._state = self._watcher.state
            self._fill()

    def _fill(self) -> None:
        """Show the snapshot. The cursor stays on its row, even if the row has moved."""
        self._seen = self._state.number
        snapshot = self._state.snapshot
        found = snapshot.ordered(self._view, self._column.name, falling=self._falling, search=self._search)
        shown = found[:_SHOWN]
        table = self._table
        under = table.cursor_row
        names = [row.value for row in table.rows]
        before = names[under] if 0 <= under < len(names) else None
        top = table.scroll_y
        table.clear(columns=True)
        for column in measures.ON_TOP[self._view]:
            mark = ("▼" if self._falling else "▲") if column is self._column else ""
            table.add_column(Text(f"{column.label}{mark}", justify="right" if column.form.right else "left"))
        keys = [repr(row.names) for row in shown]
        for name, row in zip(keys, shown, strict=True):
            table.add_row(*cells(row, self._view), key=name)
        if before in keys:
            table.move_cursor(row=keys.index(before), scroll=False)
            table.scroll_to(y=top, animate=False)
        more = f"   the first {_SHOWN} of {len(found):,}" if len(found) > len(shown) else ""
        searched = f"   /{self._search}: {len(found):,}" if self._search else ""
        self.query_one("#totals", Static).update(Text(printable(f"{headline(snapshot)}{searched}{more}")))
        self._say()

    def _say(self) -> None:
        parts = [f"{self._where}   {self._view}"]
        if self._paused:
            parts.append("PAUSED")
        if self._state.problem:
            parts.append(self._state.problem)
        self.query_one("#where", Static).update(Text(printable("   ".join(parts))))

    def action_view(self) -> None:
        """Switch between groups and streams."""
        self._view = "streams" if self._view == "groups" else "groups"
        self._column = self._named(self._column.name)
        self._fill()

    def action_sort(self, step: int) -> None:
        """Sort by the next or the previous column: names ascending, all other columns descending."""
        columns = measures.ON_TOP[self._view]
        self._column = columns[(columns.index(self._column) + step) % len(columns)]
        self._falling = self._column.form.right or self._column.name == "status"
        self._fill()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._falling = not self._falling
        self._fill()

    def action_pause(self) -> None:
        """Freeze the table, or update it again."""
        self._paused = not self._paused
        self._say()
        self._follow()

    def action_filter(self) -> None:
        """Open the filter."""
        box = self.query_one(Input)
        if self.focused is box:
            box.insert_text_at_cursor("/")
        box.display = True
        self.screen.set_focus(box)

    def action_clear(self) -> None:
        """Close the filter and show everything."""
        self.query_one(Input).value = ""
        self._close_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter while the user types."""
        self._search = event.value
        self._fill()

    def on_input_submitted(self) -> None:
        """Keep the filter and go back to the table."""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one(Input).display = False
        self.screen.set_focus(self._table)


def cells(row: StreamRow | GroupRow, view: str) -> list[Text]:
    """Return the cells of a row. Names are escaped, so that markup and control characters in them have no effect."""
    return [_cell(column, row) for column in measures.ON_TOP[view]]


def _cell(column: Measure[Any], row: StreamRow | GroupRow) -> Text:
    text = column.text(row)
    if column.form is measures.NAME and len(text) > _WIDEST:
        text = text[: _WIDEST - 1] + "…"
    style = STYLES.get(text, "") if column.form is measures.STATUS else ""
    return Text(text, style, justify="right" if column.form.right else "left")


def headline(snapshot: Snapshot) -> str:
    """Return the totals of all streams and groups as text."""
    totals = snapshot.totals
    parts = [
        numbers.things(totals.streams, "stream"),
        numbers.things(totals.groups, "group"),
        f"{numbers.rate(totals.rate)} in",
        f"lag {numbers.count(totals.lag, exact=totals.exact)} ({times.shown(totals.behind_ms)})",
        f"pending {totals.pending:,}",
        *(f"{status} {count}" for status, count in totals.statuses.items() if count and status != "ok"),
    ]
    return "   ".join(parts)
