"""Operation in a browser: several servers, the audit log, long searches and decoded values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
import redis
from playwright.sync_api import Route, expect

from tests import servers
from tests.pystreams.dashboard.browser.conftest import Opened, fill, row, served

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)


@pytest.fixture
def other() -> Iterator[servers.Running]:
    """A second server."""
    with servers.redis() as running:
        yield running


@pytest.fixture
def dashboard(client: redis.Redis, instance: servers.Running, other: servers.Running, tmp_path: Path) -> Iterator[str]:
    """The URL of a dashboard of two servers, with an audit log."""
    fill(client)
    with served(instance.url, changes=True, other=other.url, state=tmp_path) as url:
        yield url


def test_servers_are_switched_and_one_may_fail(opened: Opened, dashboard: str, other: servers.Running) -> None:
    """The list of servers shows the permissions on each. If one server fails, the list says so, and the other stays
    usable.
    """
    with redis.Redis(port=other.port) as data:
        data.xadd("elsewhere", {"a": 1})
    page = opened(url=dashboard)
    page.get_by_label("Server", exact=True).select_option("second")
    expect(row(page, "elsewhere")).to_be_visible()
    expect(page.locator(".foot")).to_contain_text("read-only")
    assert page.url == f"{dashboard}on/second#/"
    page.get_by_role("link", name="All servers").click()
    expect(row(page, "first")).to_contain_text("token, may change")
    expect(row(page, "second")).to_contain_text("token, read-only")
    expect(row(page, "second")).to_contain_text("Connected")
    servers.stop(other.process)
    expect(row(page, "second")).to_contain_text("No answer for")
    expect(row(page, "first")).to_contain_text("Connected")
    row(page, "first").get_by_role("link", name="first").click()
    expect(row(page, "orders")).to_be_visible()


def test_a_change_appears_in_the_audit_log(opened: Opened, dashboard: str) -> None:
    """The audit log shows a change's user, values before and after, and result, and can be searched."""
    page = opened(url=f"{dashboard}")
    page.goto(f"{dashboard}#/group/orders/billing")
    page.get_by_role("button", name="Skip one").click()
    page.get_by_role("dialog").get_by_role("button", name="Move it").click()
    expect(page.get_by_text("Moved the group billing to 7-0.")).to_be_visible()
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Changes").click()
    change = row(page, "Move the group billing of orders to 7-0.")
    for text in ("token", "6-0 → 7-0", "Moved the group billing to 7-0."):
        expect(change).to_contain_text(text)
    page.get_by_label("Search changes").fill("no such change")
    expect(page.get_by_text("No change matches the search.")).to_be_visible()


def test_a_search_shows_its_progress_and_stops(opened: Opened, dashboard: str, client: redis.Redis) -> None:
    """A search continues in steps through the whole stream, and Stop ends it. The page's address repeats the search."""
    pipe = client.pipeline(transaction=False)
    for at in range(1, 12_001):
        pipe.xadd("long", {"n": at}, id=f"{at}-0")
    pipe.execute()
    page = opened(url=dashboard)
    page.goto(f"{dashboard}#/stream/long")
    page.get_by_label("Where").fill("n in (7, 11000)")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("2 of 12,000 entries match")).to_be_visible()

    def hold(route: Route) -> None:
        """Leave the request without an answer."""

    page.route("**/api/entries?*cursor=*", hold)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="searched, ")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    page.unroute_all(behavior="ignoreErrors")
    page.reload()
    expect(page.get_by_text("2 of 12,000 entries match")).to_be_visible()


def test_a_range_limits_the_entries(opened: Opened, dashboard: str) -> None:
    """From and To limit the entries, in the displayed order."""
    page = opened(url=dashboard)
    page.goto(f"{dashboard}#/stream/orders")
    page.get_by_label("From").fill("8-0")
    page.get_by_label("To", exact=True).fill("6-0")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("main tbody tr th")).to_have_text(["8-0", "7-0", "6-0"])


def test_a_decoded_value_is_a_tree(opened: Opened, dashboard: str, client: redis.Redis) -> None:
    """A decoded value shows its format and all digits of its numbers, and a button shows its bytes."""
    client.xadd("packed", {"payload": msgpack.packb({"id": 2**60 + 1, "city": "Lyon"})}, id="1-0")
    page = opened(url=dashboard)
    page.goto(f"{dashboard}#/stream/packed")
    page.get_by_role("button", name="1-0").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("MessagePack")
    expect(dialog).to_contain_text("id: 1152921504606846977")
    dialog.get_by_role("button", name="Bytes").click()
    expect(dialog).to_contain_text("\\x82")
