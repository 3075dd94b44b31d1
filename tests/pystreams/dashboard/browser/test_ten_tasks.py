"""The ten tasks of docs/operations/ten-tasks.md, done in a browser by the steps listed there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import redis
from playwright.sync_api import expect

from scripts import tasks_server
from tests import ROOT, servers
from tests.pystreams.dashboard.browser.conftest import Shown, row

pytestmark = pytest.mark.parametrize("place", ["engine"], indirect=True)


def _steps() -> list[str]:
    """The numbered steps of the last section of docs/operations/ten-tasks.md."""
    section = (ROOT / "docs/operations/ten-tasks.md").read_text().partition("## The same in the dashboard")[2]
    return [line.partition(". ")[2] for line in section.splitlines() if re.match(r"[0-9]\. ", line)]


def test_the_ten_tasks_of_a_stranger(
    shown: Shown, client: redis.Redis, place: servers.Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the server of docs/operations/ten-tasks.md, by exactly the steps listed there."""
    monkeypatch.setenv("PYSTREAMS_URL", place.url)
    monkeypatch.chdir(tmp_path)
    assert tasks_server.main() == 0
    client.acl_log_reset()  # other tests here are refused things as well
    with redis.Redis(port=place.port, username="reader", password="secret") as job, pytest.raises(redis.ResponseError):
        job.xreadgroup("shipping", "me", {"orders": ">"})
    steps = iter(_steps())

    def step(begin: str) -> None:
        assert next(steps).startswith(begin)

    page = shown("")
    dialog = page.get_by_role("dialog")
    try:
        step("Open the dashboard.")
        first = page.locator(".attention a").first
        expect(first).to_contain_text("shipping of orders")
        expect(first).to_contain_text("stall")
        expect(first).to_contain_text("89 behind")
        step("Click `shipping`.")
        first.click()
        expect(page.locator("main tbody tr").first).to_contain_text("ship-2")
        expect(page.locator("main tbody tr").first).to_contain_text("1")
        step('Click "Pending entries".')
        page.get_by_role("link", name="Pending entries").click()
        entry = page.locator("main tbody tr")
        expect(entry.locator(".badge")).to_have_text("7")
        step("Click its ID.")
        entry.get_by_role("button").click()
        expect(dialog).to_contain_text("heavy")
        step("Close the entry")
        page.keyboard.press("Escape")
        entry.get_by_role("checkbox").check()
        step('Click "Acknowledge…".')
        page.get_by_role("button", name="Acknowledge…").click()
        expect(dialog).to_contain_text("Acknowledge 1 of 1 pending entry of shipping of orders")
        step('Click "Acknowledge".')
        dialog.get_by_role("button", name="Acknowledge").click()
        expect(page.get_by_text("Acknowledged 1 pending entry.")).to_be_visible()
        step("Go back to `shipping`")
        page.locator(".crumbs").get_by_role("link", name="shipping").click()
        page.get_by_label("To", exact=True).fill("1h")
        step('Click "Preview".')
        page.get_by_role("button", name="Preview").click()
        expect(dialog.get_by_role("row", name="Lag")).to_contain_text("89")
        step('Click "Move it".')
        dialog.get_by_role("button", name="Move it").click()
        expect(page.locator(".tile", has_text="Lag")).to_contain_text(re.compile("(59|60|61)"))
        step('Click "Dead letters"')
        page.get_by_role("navigation", name="Screens").get_by_role("link", name="Dead letters").click()
        page.get_by_role("link", name="failed-orders").click()
        step('Click the reason "delivered more than 5 times"')
        page.get_by_role("button", name="delivered more than 5 times", exact=True).click()
        page.get_by_role("button", name="Replay…").click()
        expect(dialog).to_contain_text("Replay 2 dead letters of failed-orders")
        step('Click "Replay".')
        dialog.get_by_role("button", name="Replay").click()
        expect(page.get_by_text("Replayed 2 dead letters.")).to_be_visible()
        assert (client.xlen("orders"), client.xlen("failed-orders")) == (182, 0)
        step('Click "Overview", `visits` and "Export…".')
        page.get_by_role("navigation", name="Screens").get_by_role("link", name="Overview").click()
        page.get_by_role("link", name="visits", exact=True).click()
        page.get_by_role("button", name="Export…").click()
        step("Choose the day 2024-11-22.")
        dialog.get_by_label("Day").fill("2024-11-22")
        expect(dialog.get_by_label("From")).to_have_value(re.compile("2024-11-2[12]T.*Z"))
        expect(dialog.get_by_label("Before")).to_have_value(re.compile("2024-11-2[23]T.*Z"))
        expect(dialog.get_by_label("Format")).to_have_value("parquet")
        step('Click "Export".')
        with page.expect_download() as download:
            dialog.get_by_role("button", name="Export").click()
        assert download.value.suggested_filename == "visits.parquet"
        download.value.save_as(tmp_path / "visits.parquet")
        assert pq.read_table(tmp_path / "visits.parquet").to_pydict()["hour"] == ["9", "12", "18"]
        expect(dialog).to_have_count(0)
        step('Click "Spark queries".')
        page.get_by_role("navigation", name="Screens").get_by_role("link", name="Spark queries").click()
        expect(row(page, "archive")).to_be_visible()
        cells = row(page, "archive").get_by_role("cell").all_inner_texts()
        read, group = (text for text in cells if re.fullmatch(r"[0-9]{13}-0", text))
        assert int(read.split("-")[0]) - int(group.split("-")[0]) == 5000
        step('Click "Server".')
        page.get_by_role("navigation", name="Screens").get_by_role("link", name="Server").click()
        expect(row(page, "call the command")).to_contain_text("reader")
        expect(row(page, "call the command")).to_contain_text("xreadgroup")
        step("Ask `/metrics`")
        assert next(steps, None) is None
        asked = page.evaluate("fetch('/metrics').then((answer) => answer.text())")
        assert re.search(r'redis_stream_group_lag{.*group="shipping".*} [0-9]', asked)
    finally:
        client.acl_deluser("reader")
