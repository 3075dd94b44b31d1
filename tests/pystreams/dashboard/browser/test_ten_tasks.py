"""The ten tasks of docs/operations/ten-tasks.md, done in a browser by the steps listed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Locator, expect

from scripts import tasks_server
from tests import ROOT, servers
from tests.pystreams.dashboard.browser.conftest import Shown, row
from tests.suite.long import long_only

_MOST_TABS = 200

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)


def _steps() -> list[str]:
    """Return the numbered steps of the last section of docs/operations/ten-tasks.md."""
    section = (ROOT / "docs/operations/ten-tasks.md").read_text().partition("## The same in the dashboard")[2]
    return [line.partition(". ")[2] for line in section.splitlines() if re.match(r"[0-9]\. ", line)]


def _reach(control: Locator) -> None:
    """Press Tab until the control has the focus."""
    expect(control).to_be_enabled()
    for _ in range(_MOST_TABS):
        if control.evaluate("(element) => element === document.activeElement"):
            return
        control.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {control}")


@pytest.mark.parametrize("hand", ["mouse", pytest.param("keyboard", marks=long_only)])
def test_the_ten_tasks_of_a_stranger(
    hand: str,
    shown: Shown,
    client: redis.Redis,
    instance: servers.Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each task can be completed by the documented steps, with the mouse or with the keyboard alone."""
    monkeypatch.setenv("PYSTREAMS_URL", instance.url)
    monkeypatch.chdir(tmp_path)
    assert tasks_server.main() == 0
    steps = iter(_steps())

    def step(begin: str) -> None:
        assert next(steps).startswith(begin)

    def press(control: Locator, key: str = "Enter") -> None:
        """Click a control, or reach it with Tab and press a key."""
        if hand == "mouse":
            control.click()
        else:
            _reach(control)
            control.page.keyboard.press(key)

    def write(control: Locator, text: str, typed: str = "") -> None:
        """Fill a field, or reach it with Tab and type."""
        if hand == "mouse":
            control.fill(text)
        else:
            _reach(control)
            control.page.keyboard.type(typed or text)

    page = shown("")
    dialog = page.get_by_role("dialog")
    try:
        step("Open the dashboard.")
        first = page.locator(".attention a").first
        expect(first).to_contain_text("shipping of orders")
        expect(first).to_contain_text("stall")
        expect(first).to_contain_text("89 behind")
        step("Click `shipping`.")
        press(first)
        expect(page.locator("main tbody tr").first).to_contain_text("ship-2")
        expect(page.locator("main tbody tr").first).to_contain_text("1")
        step('Click "Pending entries".')
        press(page.get_by_role("link", name="Pending entries"))
        entry = page.locator("main tbody tr")
        expect(entry.locator(".badge")).to_have_text("7")
        step("Click its ID.")
        press(entry.get_by_role("button"))
        expect(dialog).to_contain_text("heavy")
        step("Close the entry")
        page.keyboard.press("Escape")
        press(entry.get_by_role("checkbox"), "Space")
        step('Click "Acknowledge…".')
        press(page.get_by_role("button", name="Acknowledge…"))
        expect(dialog).to_contain_text("Acknowledge 1 of 1 pending entry of the group shipping of orders")
        step('Click "Acknowledge".')
        press(dialog.get_by_role("button", name="Acknowledge"))
        expect(page.get_by_text("Acknowledged 1 pending entry.")).to_be_visible()
        step("Go back to `shipping`")
        press(page.locator(".crumbs").get_by_role("link", name="shipping"))
        write(page.get_by_label("To", exact=True), "1h")
        step('Click "Preview".')
        press(page.get_by_role("button", name="Preview"))
        expect(dialog.get_by_role("row", name="Lag")).to_contain_text("89")
        step('Click "Move it".')
        press(dialog.get_by_role("button", name="Move it"))
        expect(page.locator(".tile", has_text="Lag")).to_contain_text(re.compile("(59|60|61)"))
        step('Click "Dead letters"')
        press(page.get_by_role("navigation", name="Screens").get_by_role("link", name="Dead letters"))
        page.get_by_role("link", name="failed-orders").click()
        step('Click the reason "delivered more than 5 times"')
        press(page.get_by_role("button", name="delivered more than 5 times", exact=True))
        page.get_by_role("button", name="Replay…").click()
        expect(dialog).to_contain_text("Replay 2 dead letters of failed-orders")
        step('Click "Replay".')
        press(dialog.get_by_role("button", name="Replay"))
        expect(page.get_by_text("Replayed 2 dead letters.")).to_be_visible()
        assert (client.xlen("orders"), client.xlen("failed-orders")) == (182, 0)
        step('Click "Spark queries".')
        press(page.get_by_role("navigation", name="Screens").get_by_role("link", name="Spark queries"))
        expect(row(page, "archive")).to_be_visible()
        for width in (400, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            expect(row(page, "archive").get_by_text("GROUP_BEHIND, 5 entries")).to_be_visible()
        step('Click "Groups"')
        press(page.get_by_role("navigation", name="Screens").get_by_role("link", name="Groups"))
        press(page.get_by_role("link", name="shipping", exact=True))
        expect(page.get_by_role("img", name=re.compile("Lag and pending, last"))).to_be_visible()
        assert next(steps, None) is None
    finally:
        client.acl_deluser("reader")
