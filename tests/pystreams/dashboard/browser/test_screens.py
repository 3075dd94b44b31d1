"""The dashboard's screens in a browser: contents, live updates, changes with and without
permission, and hostile data.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import redis
from playwright.sync_api import APIResponse, Browser, Route, expect

from pystreams.dashboard.sampler import Sampler
from tests import servers
from tests.pystreams.dashboard.browser.conftest import SCREENS, Opened, Shown, fill, row, served
from tests.pystreams.dashboard.conftest import TOKEN, address_of
from tests.suite.waiting import wait_for

#: Script that waits until the dashboard has a sample with a number greater than the given one.
NEXT_LOOK = """async (number) => {
  while ((await (await fetch("/api/news")).json()).number <= number) await new Promise((done) => setTimeout(done, 20));
}"""

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)


def test_logging_in_and_out(opened: Opened, client: redis.Redis, steering: str) -> None:
    """A wrong password is reported, a server's user can log in and out, and the token is removed from the URL."""
    client.acl_setuser("ada", enabled=True, passwords=["+lovelace"], commands=["+@all"], keys=["*"])
    try:
        page = opened(fragment="")
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
    page = opened()
    assert TOKEN not in page.url
    assert page.evaluate("document.cookie") == ""


def test_the_overview_updates_itself(shown: Shown, client: redis.Redis) -> None:
    """New streams, entries and lag appear without a reload, and streams can be searched and sorted."""
    page = shown("")
    expect(page.get_by_text("There are no streams.")).to_be_visible()
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
    page.get_by_role("link", name="Live").click()
    expect(page.get_by_text("Waiting for entries")).to_be_visible()
    client.xadd("orders", {"n": 12, "city": "Turin"})
    expect(row(page, "Turin")).to_be_visible()


def test_times_without_a_zone_use_the_browsers_zone(opened: Opened, client: redis.Redis, tmp_path: Path) -> None:
    """The export dialog interprets times without a zone in the browser's time zone."""
    for second in range(1, 4):
        client.xadd("s", {"n": second}, id=f"{second}000-0")
    page = opened(fragment=f"#token={TOKEN}", timezone_id="Asia/Tokyo")
    page.goto(f"{page.url.partition('#')[0]}#/stream/s")
    page.get_by_role("button", name="Export…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Day").fill("1970-01-01")
    expect(dialog.get_by_label("From")).to_have_value("1969-12-31T15:00:00Z")
    dialog.get_by_label("From").fill("1970-01-01 09:00:02")
    dialog.get_by_label("Before").fill("")
    dialog.get_by_label("Format").select_option("jsonl")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export").click()
    download.value.save_as(tmp_path / "s.jsonl")
    assert [json.loads(line)["id"] for line in (tmp_path / "s.jsonl").read_text().splitlines()] == ["2000-0", "3000-0"]


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


def test_a_stream_is_trimmed(shown: Shown, client: redis.Redis) -> None:
    """A stream is trimmed after a confirmation."""
    fill(client)
    page = shown("stream/orders/trim")
    page.locator("select[name=by]").select_option("maxlen")
    page.get_by_label("Number").fill("2")
    page.get_by_role("button", name="Trim…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Groups still need entries")
    page.get_by_role("button", name="Remove entries").click()
    expect(page.get_by_text("Removed 8 entries.")).to_be_visible()


def test_without_permission_nothing_can_be_changed(
    opened: Opened, client: redis.Redis, instance: servers.Running
) -> None:
    """Without permission, no screen has controls for changes, and a hand-made request is rejected.

    Exports are still available. Their errors appear in the dialog, which can be used with the keyboard alone.
    """
    fill(client)
    with served(instance.url, changes=False) as url:
        page = opened(url)
        expect(page.get_by_text("read-only")).to_be_visible()
        for path in ("group/orders/billing", "pending/orders/billing", "letters/failed", "stream/orders"):
            page.goto(f"{url}#/{path}")
            expect(page.locator("main h1")).to_be_visible()
            expect(page.get_by_role("button", name=re.compile("^(?!Export).*…$"))).to_have_count(0)
            expect(page.get_by_role("checkbox")).to_have_count(0)
        page.get_by_role("button", name="Export…").press("Enter")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Before").fill("nonsense")
        dialog.get_by_label("Before").press("Enter")
        expect(dialog.get_by_role("alert")).to_contain_text("before is 'nonsense', but it must be start, end, an ID")
        expect(dialog.get_by_role("button", name="Export")).to_be_enabled()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        status = page.evaluate(
            """async () => {
              const session = (await (await fetch("/api/session")).json()).session;
              const headers = {"content-type": "application/json", "x-csrf-token": session.csrf};
              return (await fetch("/api/changes/trim", {method: "POST", headers, body: "{}"})).status;
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


SCROLLING = """() => [...document.querySelectorAll("body *")].filter((one) => one.scrollWidth > one.clientWidth + 1
  && ["auto", "scroll"].includes(getComputedStyle(one).overflowX)).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("width", [1280, 768, 360])
def test_every_screen_fits_the_window(opened: Opened, client: redis.Redis, width: int) -> None:
    """No page is wider than the window, every control has a name, and both themes exist."""
    fill(client)
    page = opened(viewport={"width": width, "height": 800}, color_scheme="dark")
    base = page.url.split("#")[0]
    for path, shown in SCREENS:
        page.goto(f"{base}#/{path}")
        expect(page.locator("main")).to_contain_text(shown)
        assert (path, page.evaluate("document.documentElement.scrollWidth")) == (path, width)
        if width == 360:
            assert (path, page.evaluate(SCROLLING)) == (path, [])
        header = page.locator("header.side").bounding_box()
        assert header is not None
        assert width > 860 or header["height"] < 150, path
        expect(page.locator(".foot .server")).to_contain_text("127.0.0.1")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, a, input, select, textarea")].filter((one) =>
              one.offsetParent && !one.textContent.trim() && !one.getAttribute("aria-label") && !one.labels?.length)
              .map((one) => one.outerHTML)"""
        )
        assert (path, nameless) == (path, [])
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(14, 17, 22)"
    page.get_by_role("button", name="Switch to light colours").click()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(245, 246, 248)"


def test_keyboard_shortcuts(shown: Shown, client: redis.Redis) -> None:
    """Keyboard shortcuts open the search, the list of shortcuts and a screen, and move through rows."""
    fill(client)
    page = shown("")
    expect(row(page, "orders")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search streams")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next row")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.get_by_role("heading", name="Consumer groups")).to_be_visible()
    expect(row(page, "billing")).to_be_visible()
    page.keyboard.press("j")
    expect(row(page, "billing").get_by_role("link", name="billing")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="billing")).to_be_visible()


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


@pytest.mark.parametrize("path", ["stream/gone", "stream/gone/groups", "group/gone/g", "pending/gone/g"])
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


def test_many_windows_stay_usable(browser: Browser, client: redis.Redis, steering: str) -> None:
    """Eight windows of one browser show new streams, three of them follow a stream."""
    client.xadd("first", {"a": 1})
    expect.set_options(timeout=60_000)
    with browser.new_context() as context:
        pages = [context.new_page() for _ in range(8)]
        for at, page in enumerate(pages):
            page.goto(f"{steering}#{'/stream/first/tail' if at > 4 else '/' if at else f'token={TOKEN}'}")
            expect(page.get_by_role("navigation", name="Screens")).to_be_visible()
        for page in pages[5:]:
            expect(page.get_by_text("Waiting for entries…")).to_be_visible()
        client.xadd("first", {"a": 2}, id="9999999999999-7")
        client.xadd("second", {"a": 1})
        for at, page in enumerate(pages):
            expect(row(page, "9999999999999-7" if at > 4 else "second")).to_be_visible()


@pytest.mark.parametrize("held", ["**/api/overview", "**/api/streams?*"])
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


def test_five_thousand_streams_stay_usable(opened: Opened, client: redis.Redis, instance: servers.Running) -> None:
    """Five thousand streams are shown in pages, with their total number, and can be searched by part of a name."""
    pipe = client.pipeline(transaction=False)
    for at in range(5000):
        pipe.xadd(f"sensor:{at:04}", {"t": at})
        if at % 50 == 0:
            pipe.xgroup_create(f"sensor:{at:04}", "g", "0")
    pipe.execute()
    with served(instance.url, changes=False) as url:
        page = opened(url=url)
        expect(page.get_by_text("1–50 of 5,000")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("51–100 of 5,000")).to_be_visible()
        page.get_by_label("Search streams").fill("sensor:49")
        expect(page.get_by_text("1–50 of 100")).to_be_visible()
        page.get_by_label("Search streams").fill("sensor:4999")
        expect(page.locator("main tbody tr")).to_have_count(1)
        page.goto(f"{url}#/groups")
        expect(page.get_by_text("1–50 of 100")).to_be_visible()
