"""Details of the screens in a browser: long values, samples, charts, focus in dialogs, and silent queries."""

from __future__ import annotations

import json
import re

import pytest
import redis
from playwright.sync_api import expect

from spark_streams.reports import STREAM, StreamReport, summary, to_fields
from tests.pystreams.dashboard.browser.conftest import Opened, Shown, fill, row

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)


def test_long_values_are_clamped_copied_and_shown_as_trees(opened: Opened, client: redis.Redis) -> None:
    """The dialog of a 300 KB value stays small, copies the whole value, and shows it as a tree with all digits of
    numbers.
    """
    value = json.dumps({"id": 12345678901234567890, "list": [{"n": at} for at in range(25_000)]})
    assert len(value) > 300_000
    client.xadd("s", {"big": value, "small": "1"}, id="1-0")
    page = opened(viewport={"width": 390, "height": 800})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{page.url.partition('#')[0]}#/stream/s")
    expect(row(page, "1-0")).to_be_visible()
    box = row(page, "1-0").bounding_box()
    assert box is not None
    assert box["height"] < 300
    page.get_by_role("button", name="1-0").click()
    dialog = page.get_by_role("dialog")
    clamped = dialog.get_by_role("region", name="Value of big").bounding_box()
    assert clamped is not None
    assert clamped["height"] <= 240
    expect(dialog.get_by_text("small")).to_be_visible()
    dialog.get_by_role("button", name="Copy big").click()
    expect(page.get_by_role("status").filter(has_text="Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == value
    dialog.get_by_role("button", name="JSON").click()
    expect(dialog.get_by_text("12345678901234567890")).to_be_visible()
    dialog.get_by_text("[25,000 elements]").click()
    expect(dialog.get_by_role("button", name="Show more (24900 left)")).to_be_attached()


def test_destructive_dialogs_focus_cancel(shown: Shown, client: redis.Redis) -> None:
    """Enter in a dialog that removes or skips something cancels it."""
    fill(client)
    page = shown("group/orders/billing")
    page.get_by_role("button", name="Remove…").first.click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Remove")
    expect(confirm).to_be_enabled()
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    for path, opens, word in (
        ("stream/orders/trim", "Trim…", "Remove entries"),
        ("pending/orders/billing", "Acknowledge…", "Acknowledge"),
        ("letters/failed", "Remove…", "Remove"),
        ("group/orders/billing", "Skip one", "Move it"),
    ):
        page = shown(path)
        page.get_by_role("button", name=opens).first.click()
        expect(page.get_by_role("dialog").get_by_role("button", name=word)).to_be_enabled()
        expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_hidden()
    assert client.xlen("orders") == 10
    assert client.xpending("orders", "billing")["pending"] == 6


def test_histograms_of_a_sample_show_its_size(shown: Shown, client: redis.Redis) -> None:
    """Each histogram shows the size of its sample, unless it covers all entries."""
    fill(client)
    page = shown("pending/orders/billing")
    expect(page.get_by_text("6 pending entries")).to_be_visible()
    expect(page.get_by_text("a sample of")).to_have_count(0)
    pipe = client.pipeline(transaction=False)
    (letter,) = client.xrange("failed", count=1)
    for at in range(11, 20_002):
        pipe.xadd("orders", {"n": at}, id=f"{at}-0")
        if at < 5_012:
            pipe.xadd("failed", letter[1])
    pipe.execute()
    client.xreadgroup("billing", "alice", {"orders": ">"}, count=20_001)
    page = shown("letters/failed")
    expect(page.get_by_text("Based on the last 5,000 of 5,005 entries.")).to_have_count(2)
    page = shown("pending/orders/billing")
    expect(page.get_by_text("Based on a sample of 10,000 of 20,001 entries.")).to_have_count(2)


def test_ticks_can_be_read(shown: Shown, client: redis.Redis) -> None:
    """No two ticks of a chart's axis have the same label, even if the values are small. Durations have one unit, and
    the axis has room for the longest label.
    """
    client.ping()
    page = shown("")
    ticks = page.evaluate(
        """async () => {
          const { Chart } = await import("/static/js/charts.js");
          const { count, seconds, short } = await import("/static/js/dom.js");
          const found = [];
          for (const [high, show] of [[1, count], [2, short], [0, short], [3, count], [1900000, count], [2000, seconds],
              [7000, seconds], [400000, seconds]]) {
            const chart = new Chart("t", [{ name: "n", label: "n", show }]);
            document.body.append(chart.element);
            chart.update({ n: { at: [1, 61, 121], values: [0, high, high] } });
            await new Promise((done) => setTimeout(done, 50));
            const axis = chart.drawn.axes[1];
            const pen = document.createElement("canvas").getContext("2d");
            pen.font = "12px system-ui, sans-serif";
            const wide = Math.max(...axis._values.map((tick) => pen.measureText(tick).width));
            found.push([axis._values, axis._size - wide]);
            chart.leave();
            chart.element.remove();
          }
          return found;
        }"""
    )
    assert all(len(set(each)) == len(each) > 1 for each, _ in ticks), ticks
    assert all(room >= 5 for _, room in ticks), ticks
    assert "2,000,000" in ticks[4][0]
    assert all(re.fullmatch(r"[0-9.]+[smhd]", tick) for each, _ in ticks[5:] for tick in each), ticks


def test_the_start_of_a_stream_is_not_shown_as_a_time(shown: Shown, client: redis.Redis) -> None:
    """The position 0-0 is shown as "before the first entry", not as a time in 1970."""
    client.xadd("s", {"a": 1})
    client.xgroup_create("s", "g", "0")
    page = shown("group/s/g")
    expect(page.locator(".tile", has_text="Position")).to_contain_text("before the first entry")
    expect(page.locator("main")).not_to_contain_text("1970")


def test_a_query_without_recent_reports_is_silent(shown: Shown, client: redis.Redis) -> None:
    """A query whose last report is old is shown as silent, and one with a recent report as reporting."""
    each = StreamReport("q", 3, "orders", "6-0", "10-0", 4, True, 1, 9, 1, None, None, 10, 5.0, 0, 0)
    for query, at in (("first-query", "1000-0"), ("second-query", "*")):
        words = to_fields(summary(query, query, 3, 50, 1000, [each]))
        client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)), id=at)
    page = shown("queries")
    table = page.get_by_role("table", name="Spark queries").locator("tbody tr")
    expect(table.filter(has_text="first-query")).to_contain_text("silent")
    expect(table.filter(has_text="second-query")).to_contain_text("reporting")


def test_empty_screens_suggest_no_shell_commands(shown: Shown, client: redis.Redis) -> None:
    """Empty screens suggest actions in the browser, not shell commands."""
    client.ping()
    for path, empty in (("", "There are no streams."), ("groups", "There are no consumer groups.")):
        page = shown(path)
        expect(page.get_by_text(empty)).to_be_visible()
        text = page.locator("main").inner_text()
        assert "pystreams " not in text.replace("pystreams engine", ""), path
        assert " --" not in text, path


def test_unknown_addresses_show_an_error(opened: Opened, client: redis.Redis) -> None:
    """An unknown page shows an error. A fragment that is not a token is removed from the URL, with an explanation on
    the login page.
    """
    page = opened()
    page.goto(f"{page.url.partition('#')[0]}#/nonsense")
    expect(page.get_by_role("heading", level=1, name="There is no such page.")).to_be_visible()
    stray = opened(fragment="#a-token-without-its-name")
    expect(stray.get_by_role("alert")).to_have_text("The address has no token. It must end with #token= and the token.")
    assert "a-token" not in stray.url


def test_texts_are_readable_on_a_phone(opened: Opened, client: redis.Redis) -> None:
    """Reasons wrap, long names keep to three lines, and a pending entry is shown with its consumer and deliveries."""
    fill(client)
    letter = {"_original_stream": "orders", "_original_id": "1-0", "_original_deliveries": 6}
    client.xadd("failed", {**letter, "_reason": "delivered more than five times", "n": 1})
    client.xadd("n" * 300, {"n": 1})
    page = opened(viewport={"width": 390, "height": 800})
    base = page.url.partition("#")[0]
    page.goto(f"{base}#/letters/failed")
    label = page.locator(".bars .label", has_text="more than five times")
    assert label.evaluate("(one) => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight + 1")
    page.goto(f"{base}#/stream/{'n' * 300}")
    assert page.get_by_role("heading", level=1).evaluate("(one) => one.clientHeight") < 90
    page.goto(f"{base}#/pending/orders/billing")
    page.get_by_role("button", name="1-0", exact=True).click()
    for words in ("Consumer", "alice", "Deliveries"):
        expect(page.get_by_role("dialog")).to_contain_text(words)
