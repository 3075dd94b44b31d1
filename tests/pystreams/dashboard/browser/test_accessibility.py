"""Accessibility of every screen and dialog, checked by axe-core: no serious findings in the light and dark themes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from playwright.sync_api import Page, expect

from tests import servers
from tests.pystreams.dashboard.browser.conftest import SCREENS, Opened, fill, served
from tests.suite.tools import needed
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)

_FOLDER = Path(__file__).parent
_RUN = """() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
  .then(() => axe.run(document, { resultTypes: ["violations"] })).then((found) => found.violations
  .filter((violation) => ["serious", "critical"].includes(violation.impact))
  .map((violation) => [violation.id, violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))]))"""

#: Screens with a dialog, and the button that opens the dialog.
DIALOGS = (
    ("stream/orders", "10-0"),
    ("stream/orders", "Export…"),
    ("group/orders/billing", "Skip one"),
)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, in the version of package-lock.json."""
    directory = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_FOLDER / name, directory / name)
    command = [needed("npm"), "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(command, cwd=directory, check=True, timeout=300)
    return (directory / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def dashboard(client: redis.Redis, instance: servers.Running, tmp_path: Path) -> Iterator[str]:
    """The URL of a dashboard of two servers, with an audit log."""
    fill(client)
    with (
        servers.redis() as second,
        served(instance.url, changes=True, other=second.url, state=tmp_path) as url,
    ):
        yield url


def _findings(page: Page, axe: str) -> Any:
    page.evaluate(axe)
    return page.evaluate(_RUN)


def test_updates_keep_the_focus(opened: Opened, dashboard: str, client: redis.Redis) -> None:
    """A focused button keeps the focus when a new sample redraws its part of the page."""
    page = opened(url=dashboard)
    page.goto(f"{dashboard}#/letters/failed")
    reason = page.get_by_role("button", name="why", exact=True)
    focused = "(node) => { node.focus(); window.before = node; return node === document.activeElement; }"
    wait_for(lambda: reason.evaluate(focused), "the focus")
    client.xadd("failed", {"_original_stream": "orders", "_original_id": "9-0", "_reason": "why"})
    wait_for(lambda: page.evaluate("() => !window.before.isConnected"), "the redrawn list")
    expect(reason).to_be_focused()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_screen_has_a_serious_finding(opened: Opened, dashboard: str, axe: str, theme: str) -> None:
    """Every screen, the dialogs, the list of keys and the login page have no serious finding."""
    found: dict[str, Any] = {}
    page = opened(url=dashboard, color_scheme=theme)

    def check(name: str, show: Callable[[], Any]) -> None:
        show()
        if findings := _findings(page, axe):
            found[name] = findings

    for path, text in SCREENS:
        page.goto(f"{dashboard}#/{path}")
        expect(page.locator("main")).to_contain_text(text)
        check(path, lambda: None)
    for path, button in DIALOGS:
        page.goto(f"{dashboard}#/{path}")
        page.get_by_role("button", name=button).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        check(f"{path} {button}", lambda: None)
        page.keyboard.press("Escape")
    page.keyboard.press("?")
    check("keys", lambda: expect(page.get_by_role("dialog")).to_be_visible())
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Log out").click()
    check("login", lambda: expect(page.get_by_role("heading", name="Log in")).to_be_visible())
    assert found == {}
