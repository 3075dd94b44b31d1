"""The dashboard's screens in a browser: contents, live updates, changes, hostile data, layout and accessibility."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis
from playwright.sync_api import APIResponse, Page, Route, expect

from pystreams.dashboard.sampler import Sampler
from spark_streams.reports import STREAM, StreamReport, summary, to_fields
from tests import servers
from tests.pystreams.dashboard.browser.conftest import SCREENS, Opened, Shown, fill, row, served
from tests.pystreams.dashboard.conftest import TOKEN, address_of
from tests.suite.long import FULL, short_and_long
from tests.suite.tools import needed
from tests.suite.waiting import wait_for

#: Script that waits until the dashboard has a sample with a number greater than the given one.
NEXT_LOOK = """async (number) => {
  while ((await (await fetch("/api/news")).json()).number <= number) await new Promise((done) => setTimeout(done, 20));
}"""

_FOLDER = Path(__file__).parent
#: Runs axe-core. The contrast of colours takes most of its time; `test_static` computes it for both themes.
_AXE = """(contrast) => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
  .then(() => axe.run(document, { resultTypes: ["violations"], rules: { "color-contrast": { enabled: contrast } } }))
  .then((found) => found.violations
  .filter((violation) => ["serious", "critical"].includes(violation.impact))
  .map((violation) => [violation.id, violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))]))"""

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, in the version of package-lock.json."""
    directory = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_FOLDER / name, directory / name)
    command = [needed("npm"), "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(command, cwd=directory, check=True, timeout=300)
    return (directory / "node_modules" / "axe-core" / "axe.min.js").read_text()


def test_logging_in_and_out(opened: Opened, client: redis.Redis, steering: str, axe: str) -> None:
    """A fragment that is not a token and a wrong password are reported, a server's user can log in and out, and the
    token is removed from the URL. The login page has no serious finding of axe-core.
    """
    client.acl_setuser("ada", enabled=True, passwords=["+lovelace"], commands=["+@all"], keys=["*"])
    try:
        page = opened(fragment="#a-token-without-its-name")
        expect(page.get_by_role("alert")).to_have_text(
            "The address has no token. It must end with #token= and the token."
        )
        assert "a-token" not in page.url
        page.evaluate(axe)
        assert page.evaluate(_AXE, FULL) == []
        page.get_by_label("User").fill("ada")
        page.get_by_label("Password").fill("babbage")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("refuses this user")
        page.get_by_label("Password").fill("lovelace")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(".foot")).to_contain_text("ada")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.goto(f"{steering}#/groups")
        page.reload()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    finally:
        client.acl_deluser("ada")
    page.goto(f"{steering}#token={TOKEN}")
    page.reload()
    expect(page.get_by_role("navigation", name="Screens")).to_be_visible()
    assert TOKEN not in page.url
    assert page.evaluate("document.cookie") == ""


def test_the_overview_updates_itself(shown: Shown, client: redis.Redis) -> None:
    """New streams, entries and lag appear without a reload, and streams can be searched and sorted."""
    page = shown("")
    expect(page.get_by_text("There are no streams.")).to_be_visible()
    assert " --" not in page.locator("main").inner_text()  # no advice about the command line
    fill(client)
    expect(row(page, "orders")).to_contain_text("10")
    expect(page.locator(".tile", has_text="Lag of all groups")).to_contain_text("4")
    client.xadd("orders", {"n": 11})
    expect(row(page, "orders")).to_contain_text("11")
    expect(page.locator(".tile", has_text="Lag of all groups")).to_contain_text("5")
    page.get_by_label("Search streams").fill("fail")
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.get_by_label("Search streams").fill("no such")
    expect(page.get_by_text("No stream matches.")).to_be_visible()
    page.get_by_label("Search streams").fill("")
    page.get_by_role("button", name="Length").click()
    expect(page.locator("main tbody tr").first).to_contain_text("orders")
    expect(page.get_by_role("columnheader", name="Length")).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("img", name=re.compile("Entries added, last"))).to_be_visible()


def test_the_overview_leads_to_the_groups_that_need_attention(shown: Shown, client: redis.Redis) -> None:
    """The overview names the group furthest behind and links to exactly the groups that need attention."""
    now = int(client.time()[0]) * 1000
    client.xadd("orders", {"n": 1}, id=f"{now - 7_200_000}-1")
    for at in range(8):
        client.xgroup_create("orders", f"late{at}", "0")
    client.xgroup_create("orders", "ready", "$")
    page = shown("")
    tile = page.locator(".tile", has_text="Furthest behind")
    expect(tile).to_contain_text("2h")
    expect(tile.get_by_role("link")).to_have_text(re.compile("late. of orders"))
    expect(page.locator(".attention a")).to_have_count(7)
    page.get_by_role("link", name="2 more groups").click()
    expect(page.get_by_role("button", name="not ok")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("main tbody tr")).to_have_count(8)
    page.get_by_role("button", name="any").click()
    expect(page.locator("main tbody tr")).to_have_count(9)


def test_a_stream_is_browsed_filtered_and_followed(shown: Shown, client: redis.Redis) -> None:
    """The stream's screens show entries in both orders, filtered entries, a single entry, and new entries."""
    fill(client)
    page = shown("stream/orders")
    expect(page.locator("main tbody tr").first).to_contain_text("10-0")
    page.get_by_role("button", name="Oldest first").click()
    expect(page.locator("main tbody tr").first).to_contain_text("1-0")
    page.get_by_label("Where").fill("city == 'Ghent' and n > 5")
    page.get_by_label("Where").press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(3)
    page.get_by_label("Where").fill("town == 'Ghent'")
    page.get_by_label("Where").press("Enter")
    expect(page.get_by_text("No entry of this range has town.")).to_be_visible()
    page.get_by_label("Where").fill("n > 0")
    page.get_by_label("Where").press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(10)
    page.get_by_label("Where").fill("n >")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("it is not a condition")).to_be_visible()
    page.get_by_role("button", name="8-0").click()
    expect(page.get_by_role("dialog")).to_contain_text("1970-01-01T00:00:00.008Z")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Newest first").click()
    page.get_by_label("Where").fill("")
    page.get_by_role("button", name="Show", exact=True).click()
    client.xadd("orders", {"n": 12, "city": "Turin"})
    expect(row(page, "Turin")).to_be_visible()


def test_a_search_shows_its_progress_and_stops(shown: Shown, client: redis.Redis) -> None:
    """A search continues in steps through the whole stream, and Stop ends it. The page's address repeats the search."""
    pipe = client.pipeline(transaction=False)
    for at in range(1, 6_001):
        pipe.xadd("long", {"n": at}, id=f"{at}-0")
    pipe.execute()
    page = shown("stream/long")
    page.get_by_label("Where").fill("n in (7, 5900)")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("2 of 6,000 entries match")).to_be_visible()

    def hold(route: Route) -> None:
        """Leave the request without an answer."""

    page.route("**/api/entries?*cursor=*", hold)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="entries searched")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.unroute_all(behavior="ignoreErrors")
    page.reload()
    expect(page.get_by_text("2 of 6,000 entries match")).to_be_visible()


def test_times_without_a_zone_use_the_browsers_zone(opened: Opened, client: redis.Redis) -> None:
    """The range of entries interprets times without a zone in the browser's time zone."""
    for second in range(1, 4):
        client.xadd("s", {"n": second}, id=f"{second}000-0")
    page = opened(fragment=f"#token={TOKEN}", timezone_id="Asia/Tokyo")
    page.goto(f"{page.url.partition('#')[0]}#/stream/s?order=rising")
    page.get_by_label("From").fill("1970-01-01 09:00:02")
    page.get_by_label("From").press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(2)
    expect(page.locator("main tbody tr").first).to_contain_text("2000-0")


def test_a_decoded_value_is_shown_as_json(shown: Shown, client: redis.Redis) -> None:
    """A decoded value shows its format and all digits of its numbers, and a button shows its bytes."""
    client.xadd("packed", {"payload": msgpack.packb({"id": 2**60 + 1, "city": "Lyon"})}, id="1-0")
    page = shown("stream/packed")
    page.get_by_role("button", name="1-0").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("MessagePack")
    expect(dialog).to_contain_text('"id": 1152921504606846977')
    dialog.get_by_role("button", name="Bytes").click()
    expect(dialog).to_contain_text("\\x82")


def test_long_values_are_clamped_copied_and_shown_as_json(shown: Shown, client: redis.Redis) -> None:
    """The dialog of a 90 KB value stays small, copies the whole value, and shows JSON with all digits of numbers."""
    value = json.dumps({"id": 12345678901234567890, "list": [{"n": at} for at in range(8_000)]})
    assert len(value) > 80_000
    client.xadd("s", {"big": value, "small": "1"}, id="1-0")
    page = shown("stream/s")
    page.set_viewport_size({"width": 390, "height": 800})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
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


def test_pending_entries_are_changed_in_bulk(shown: Shown, client: redis.Redis) -> None:
    """Selected entries can be acknowledged, and all entries that match a filter can be claimed."""
    fill(client)
    client.xclaim("orders", "billing", "bob", 0, ["2-0"], idle=700_000, retrycount=7)
    page = shown("pending/orders/billing")
    expect(page.get_by_role("listitem", name="10–60 min: 1")).to_be_attached()
    page.get_by_label("Choose 1-0").check()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("dialog")).to_contain_text("Acknowledge 1 of 6 pending entries")
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("status").filter(has_text="Acknowledged 1 pending entry.")).to_be_visible()
    page.get_by_label("Idle for at least").fill("10m")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.get_by_label("Claim for").fill("carol")
    page.get_by_role("button", name="Claim").click()
    page.get_by_role("dialog").get_by_role("button", name="Claim").click()
    expect(page.get_by_text("Claimed 1 pending entry.")).to_be_visible()
    assert [each["consumer"] for each in client.xpending_range("orders", "billing", "2-0", "2-0", 1)] == [b"carol"]


def test_a_change_appears_in_the_audit_log(shown: Shown, client: redis.Redis) -> None:
    """The audit log shows a change's user, values before and after, and result, and can be searched."""
    fill(client)
    page = shown("group/orders/billing")
    page.get_by_role("button", name="Skip one").click()
    page.get_by_role("dialog").get_by_role("button", name="Move it").click()
    expect(page.get_by_text("Moved the group billing to 7-0.")).to_be_visible()
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Changes").click()
    change = row(page, "Move the group billing of orders to 7-0.")
    for text in ("token", "6-0 → 7-0", "Moved the group billing to 7-0."):
        expect(change).to_contain_text(text)
    page.get_by_label("Search changes").fill("no such change")
    expect(page.get_by_text("No change matches the search.")).to_be_visible()


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


def test_without_permission_nothing_can_be_changed(
    opened: Opened, client: redis.Redis, instance: servers.Running
) -> None:
    """Without permission, no screen has controls for changes, and a hand-made request is rejected."""
    fill(client)
    with served(instance.url, changes=False) as url:
        page = opened(url)
        expect(page.get_by_text("read-only")).to_be_visible()
        for path in ("group/orders/billing", "pending/orders/billing", "letters/failed", "stream/orders"):
            page.goto(f"{url}#/{path}")
            expect(page.locator("main h1")).to_be_visible()
            expect(page.get_by_role("button", name=re.compile("…$"))).to_have_count(0)
            expect(page.get_by_role("checkbox")).to_have_count(0)
        status = page.evaluate(
            """async () => {
              const session = (await (await fetch("/api/session")).json()).session;
              const headers = {"content-type": "application/json", "x-csrf-token": session.csrf};
              return (await fetch("/api/changes/purge", {method: "POST", headers, body: "{}"})).status;
            }"""
        )
    assert status == 403


def test_hostile_names_and_values_are_shown_as_text(shown: Shown, client: redis.Redis) -> None:
    """Markup in names and values is shown as text and never executed."""
    evil = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
    client.xadd(evil, {evil: evil})
    client.xgroup_create(evil, evil, "0")
    client.xreadgroup(evil, evil, {evil: ">"})
    page = shown("")
    page.get_by_role("link", name=evil).first.click()
    expect(page.locator("main h1")).to_have_text(evil)
    expect(page.locator(".fields").first).to_contain_text("onerror")
    page.get_by_role("link", name="Groups (1)").click()
    page.locator("main tbody").get_by_role("link", name=evil).click()
    expect(row(page, "<img")).to_be_visible()
    page.get_by_role("link", name="Pending entries").click()
    expect(row(page, "<img")).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.owned") is None
    client.xadd("", {"": "nothing"})
    client.xgroup_create("", "", "0")
    page = shown("stream/")
    expect(row(page, "nothing")).to_be_visible()
    page.get_by_role("link", name="Groups (1)").click()
    page.locator("main tbody").get_by_role("link", name="(no name)").first.click()
    expect(page.get_by_role("button", name="Preview")).to_be_visible()


_SCROLLING = """() => [...document.querySelectorAll("body *")].filter((one) => one.scrollWidth > one.clientWidth + 1
  && ["auto", "scroll"].includes(getComputedStyle(one).overflowX)).map((one) => one.outerHTML.slice(0, 120))"""

#: Screens with a dialog, and the button that opens the dialog.
DIALOGS = {"stream/orders": ("10-0",), "group/orders/billing": ("Skip one",)}


def _fits(page: Page, width: int) -> None:
    """Fail if the page is wider than the window, or scrolls sideways on a phone."""
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert width > 360 or page.evaluate(_SCROLLING) == []
    header = page.locator("header.side").bounding_box()
    assert header is not None
    assert width > 860 or header["height"] < (150 if width > 560 else 200)  # on a phone, it scrolls with the page
    expect(page.locator(".foot .server")).to_contain_text("127.0.0.1")


def test_every_screen_fits_and_is_accessible(shown: Shown, client: redis.Redis, axe: str) -> None:
    """No screen is wider than the window, and no screen or dialog has a serious finding of axe-core.

    The long form includes the dark theme and the contrast of colours.
    """
    fill(client)
    found: dict[str, Any] = {}

    def check(page: Page, name: str) -> None:
        for theme in ("light", "dark") if FULL else ("light",):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            page.evaluate(axe)
            found[f"{name} {theme}"] = page.evaluate(_AXE, FULL)

    for path, text in SCREENS:
        page = shown(path)
        expect(page.locator("main")).to_contain_text(text)
        check(page, path)
        for button in DIALOGS.get(path, ()):
            page.get_by_role("button", name=button).first.click()
            expect(page.get_by_role("dialog")).to_be_visible()
            check(page, f"{path} {button}")
            page.keyboard.press("Escape")
        for width in (768, 360, 1280):
            _fits(page, width)
    background = "getComputedStyle(document.documentElement).backgroundColor"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) == "rgb(14, 17, 22)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(background) == "rgb(245, 246, 248)"
    assert {name: each for name, each in found.items() if each} == {}


def test_updates_keep_the_focus(shown: Shown, client: redis.Redis) -> None:
    """A focused button keeps the focus when a new sample redraws its part of the page."""
    fill(client)
    page = shown("letters/failed")
    reason = page.get_by_role("button", name="why", exact=True)
    focused = "(node) => { node.focus(); window.before = node; return node === document.activeElement; }"
    wait_for(lambda: reason.evaluate(focused), "the focus")
    client.xadd("failed", {"_original_stream": "orders", "_original_id": "9-0", "_reason": "why"})
    wait_for(lambda: page.evaluate("() => !window.before.isConnected"), "the redrawn list")
    expect(reason).to_be_focused()


def test_texts_are_readable_on_a_phone(shown: Shown, client: redis.Redis) -> None:
    """Reasons wrap, long names keep to three lines, and a pending entry is shown with its consumer and deliveries."""
    fill(client)
    letter = {"_original_stream": "orders", "_original_id": "1-0", "_original_deliveries": 6}
    client.xadd("failed", {**letter, "_reason": "delivered more than five times", "n": 1})
    client.xadd("n" * 300, {"n": 1})
    page = shown("letters/failed")
    page.set_viewport_size({"width": 390, "height": 800})
    label = page.locator(".bars .label", has_text="more than five times")
    assert label.evaluate("(one) => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight + 1")
    shown(f"stream/{'n' * 300}")
    assert page.get_by_role("heading", level=1).evaluate("(one) => one.clientHeight") < 90
    shown("pending/orders/billing")
    page.get_by_role("button", name="1-0", exact=True).click()
    for words in ("Consumer", "alice", "Deliveries"):
        expect(page.get_by_role("dialog")).to_contain_text(words)


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


def test_a_query_without_recent_reports_is_silent(shown: Shown, client: redis.Redis) -> None:
    """A query whose last report is old is shown as silent, and one with a recent report as reporting."""
    each = StreamReport("q", 3, "orders", "6-0", "10-0", 4, True, 1, 1, None, None, 10, 5.0, 0, 0)
    for query, at in (("first-query", "1000-0"), ("second-query", "*")):
        words = to_fields(summary(query, query, 3, 50, 1000, [each]))
        client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)), id=at)
    page = shown("queries")
    table = page.get_by_role("table", name="Spark queries").locator("tbody tr")
    expect(table.filter(has_text="first-query")).to_contain_text("silent")
    expect(table.filter(has_text="second-query")).to_contain_text("reporting")


def test_a_page_survives_a_restart_of_the_server(opened: Opened, instance: servers.Running) -> None:
    """When the server stops, a banner appears above the last data. After a restart, the page continues by itself."""
    with servers.redis() as first, redis.Redis(port=first.port) as data:
        data.xadd("kept", {"a": 1})
        port = first.port
        with served(first.url, changes=True) as url:
            page = opened(url=url)
            expect(row(page, "kept")).to_be_visible()
            servers.stop(first.process)
            expect(page.get_by_role("alert")).to_contain_text("Server unreachable")
            expect(row(page, "kept")).to_be_visible()
            with servers.redis("--port", str(port)), redis.Redis(port=port) as again:
                again.xadd("anew", {"a": 1})
                expect(row(page, "anew")).to_be_visible(timeout=20_000)
                expect(page.get_by_role("alert")).to_be_hidden()


def test_a_restart_of_the_dashboard_leads_to_the_login(opened: Opened, instance: servers.Running) -> None:
    """When the dashboard stops, a banner appears. After a restart, which ends all sessions, the login is shown."""
    with served(instance.url, changes=True) as url:
        page = opened(url=url)
    expect(page.get_by_role("alert")).to_contain_text("The dashboard does not answer")
    with served(instance.url, changes=True, port=int(url.split(":")[2].strip("/"))):
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.parametrize("path", ["stream/gone", "group/gone/g"])
def test_a_page_of_a_removed_stream_shows_no_old_numbers(shown: Shown, client: redis.Redis, path: str) -> None:
    """A page whose stream is removed or replaced shows that, and continues when the stream is back."""
    client.xgroup_create("gone", "g", 0, mkstream=True)
    page = shown(path)
    expect(page.get_by_text("Not found.")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    client.delete("gone")
    expect(page.get_by_role("heading", name="Not found.")).to_be_visible()
    client.set("gone", "text")
    expect(page.get_by_role("heading", name="This page cannot be shown.")).to_be_visible()
    client.delete("gone")
    client.xgroup_create("gone", "g", 0, mkstream=True)
    expect(page.get_by_role("heading", name=re.compile("Not found|cannot be shown"))).to_be_hidden()


@pytest.mark.parametrize("held", short_and_long(["**/api/streams?*"], [["**/api/overview"]]))
def test_a_sample_during_loading_is_not_missed(
    opened: Opened, client: redis.Redis, instance: servers.Running, held: str
) -> None:
    """A sample that arrives while a screen is loading is shown without waiting for the next one."""
    client.ping()
    sampler = Sampler(address_of(instance.url), 3600.0)
    with served(instance.url, changes=False, sampler=sampler) as url:
        page = opened(url=url)
        expect(page.get_by_text("There are no streams.")).to_be_visible()
        before: list[tuple[Route, APIResponse]] = []
        released = False

        def hold(route: Route) -> None:
            if released:
                route.continue_()
            else:
                before.append((route, route.fetch()))

        page.route(held, hold)
        for stream, begin in (("first", page.reload), ("second", sampler.hurry)):
            before.clear()
            released = False
            begin()
            wait_for(lambda: page.evaluate("true") and before, "the request of the page")
            client.xadd(stream, {"a": 1})
            number = sampler.state.number
            sampler.hurry()
            page.evaluate(NEXT_LOOK, number)
            released = True
            for route, response in before:
                route.fulfill(response=response)
            expect(row(page, stream)).to_be_visible()
