"""The screen of `top`, driven by its keys, on snapshots that are made up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from pystreams.dashboard.sampling.sampler import State
from pystreams.dashboard.sampling.snapshot import Snapshot
from pystreams.measures import GroupRow, StreamRow
from pystreams.streams.groups.group_states import Group
from pystreams.streams.groups.status import Status
from pystreams.streams.inventory import Stream
from pystreams.top.screen import Top
from streamwire.stream_id import ZERO, StreamId
from tests.pystreams.conftest import Cli

_NOW = 1_700_000_000_000


def _snapshot(**lags: int) -> Snapshot:
    """Streams of these names with a group each, which has that lag."""
    streams, groups = {}, {}
    for text, lag in lags.items():
        name = text.encode("utf-8", "surrogateescape")
        first = StreamId(_NOW - 5000, 0)
        stream = Stream(name, 10, first, first, first, 10, ZERO, 1, rate=lag / 10)
        status = Status.STALL if lag > 90 else Status.OK
        group = Group(stream, b"g", ZERO, lag, True, 0, lag // 2, 1, _NOW, behind_ms=lag * 1000, consumers=())
        streams[name] = StreamRow(stream, _NOW, lag, lag * 1000, lag // 2, status)
        groups[name, b"g"] = GroupRow(group, status)
    return Snapshot(_NOW, streams, groups, {})


class Made:
    """Looks that a test makes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.state = State(1, snapshot, None, 0)
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def sees(self, snapshot: Snapshot, problem: str | None = None) -> None:
        self.state = State(self.state.number + 1, snapshot, problem, 0)


class Screen:
    """Return the text on the screen."""

    def __init__(self, app: Top, pilot: Pilot[None]) -> None:
        self._app = app
        self.pilot = pilot

    @property
    def table(self) -> DataTable[Any]:
        return self._app.query_one(DataTable)

    def column(self, at: int = 0) -> list[str]:
        return [str(self.table.get_row_at(row)[at]) for row in range(self.table.row_count)]

    @property
    def titles(self) -> list[str]:
        return [str(column.label) for column in self.table.ordered_columns]

    def line(self, name: str) -> str:
        return str(self._app.query_one(f"#{name}", Static).render())

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await self.pilot.pause(0.01)


def _on_screen(made: Made, steps: Callable[[Screen], Awaitable[None]], **given: str) -> None:
    async def run() -> None:
        app = Top(made, "redis://there", **given)
        async with app.run_test(size=(120, 30)) as pilot:
            await pilot.pause()
            await steps(Screen(app, pilot))
        assert not made.running

    asyncio.run(run())


def test_groups_are_sorted_filtered_and_reversed() -> None:
    """Largest lag first; names rise; the filter works while it is typed; Escape shows everything again."""

    async def steps(screen: Screen) -> None:
        assert screen.column() == ["b", "aa", "a"]
        assert screen.titles[:5] == ["STREAM", "GROUP", "RATE", "DELIVERED", "LAG▼"]
        assert "3 streams   3 groups   13/s in   lag 132 (1m 39s)" in screen.line("totals")
        assert "stall 1" in screen.line("totals")
        await screen.press("r")
        assert screen.column() == ["a", "aa", "b"]
        await screen.press("<", "<", "<", "<")
        assert (screen.titles[0], screen.column()) == ("STREAM▲", ["a", "aa", "b"])
        await screen.press("/", "a")
        assert (screen.column(), "/a: 2" in screen.line("totals")) == (["a", "aa"], True)
        await screen.press("a", "enter", "r")
        assert screen.column() == ["aa"]
        await screen.press("/", "/")
        assert (screen.column(), "/aa/: 0" in screen.line("totals")) == ([], True)
        await screen.press("escape")
        assert screen.column() == ["b", "aa", "a"]
        await screen.press("tab")
        assert (screen.titles[1], screen.column()) == ("LENGTH", ["b", "aa", "a"])
        await screen.press("q")

    _on_screen(Made(_snapshot(a=3, aa=30, b=99)), steps)


def test_it_follows_until_it_is_paused() -> None:
    """The cursor stays on its row; an unreachable server is reported, next to the last data."""
    made = Made(_snapshot(a=3, b=2, c=1))

    async def steps(screen: Screen) -> None:
        await screen.press("down")
        made.sees(_snapshot(a=3, b=2, c=50, d=60))
        await screen.until(lambda: screen.column() == ["d", "c", "a", "b"])
        assert screen.column()[screen.table.cursor_row] == "b"
        await screen.press("space")
        made.sees(_snapshot(z=1))
        await screen.pilot.pause(0.5)
        assert (screen.column(), "PAUSED" in screen.line("where")) == (["d", "c", "a", "b"], True)
        await screen.press("space")
        assert screen.column() == ["z"]
        made.sees(made.state.snapshot, "The server is gone.")
        await screen.until(lambda: "The server is gone." in screen.line("where"))
        assert screen.column() == ["z"]

    _on_screen(made, steps)


def test_thousands_of_streams_cost_a_screenful() -> None:
    """The table has the first rows in its order, and shows the total."""
    made = Made(_snapshot(**{f"s{number:04}": number for number in range(5000)}))

    async def steps(screen: Screen) -> None:
        assert (screen.table.row_count, screen.column()[:2]) == (300, ["s4999", "s4998"])
        assert "the first 300 of 5,000" in screen.line("totals")
        await screen.press("/", *"0042")
        assert screen.column() == ["s0042"]

    _on_screen(made, steps, view="streams", sort="length")


def test_hostile_names_are_texts() -> None:
    """Markup is not interpreted, and no control character reaches the terminal."""
    hostile = {"[red]x[/red]": 3, "\x1b[2J\n": 2, "\udcff": 1, "l" * 500: 0}

    async def steps(screen: Screen) -> None:
        shown = screen.column()
        assert shown[:3] == ["[red]x[/red]", "\\x1b[2J\\n", "\\xff"]
        assert len(shown[3]) == 60
        await screen.press("down", "down", "tab")

    _on_screen(Made(_snapshot(**hostile)), steps, search="")


def test_the_filter_and_the_order_may_be_given() -> None:
    async def steps(screen: Screen) -> None:
        assert screen.column() == ["ab", "a"]
        assert screen.pilot.app.query_one(Input).value == "a"

    _on_screen(Made(_snapshot(b=3, a=1, ab=2)), steps, view="streams", sort="rate", search="a")


@pytest.mark.parametrize("place", ["engine"], indirect=True)
def test_it_needs_a_terminal(cli_of: Cli) -> None:
    """In a pipe there is another verb for it."""
    assert "[NO_TERMINAL]" in cli_of.failure("top", status=2)
