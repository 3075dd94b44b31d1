"""Fixtures for dashboard tests in Chromium, with one browser per test module.

Pages start without cookies. A test fails if its page reported an error: a failed script, a missing file, or a violation
of the content security policy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page, expect, sync_playwright

from pystreams.dashboard import audit_log
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.login import Rules
from pystreams.dashboard.run import Server, listen, site
from pystreams.dashboard.sampler import Sampler
from spark_streams.reports import STREAM, StreamReport, summary, to_fields
from tests import servers
from tests.pystreams.dashboard.conftest import TOKEN, address_of
from tests.suite.tools import needed
from tests.suite.waiting import wait_for

#: Screens with the data of `fill`, and a text that each screen shows.
SCREENS = (
    ("", "Streams"),
    ("groups", "Consumer groups"),
    ("stream/orders", "Entries added"),
    ("stream/orders/groups", "billing"),
    ("group/orders/billing", "Move the group"),
    ("pending/orders/billing", "6 pending entries"),
    ("letters", "Streams with dead letters"),
    ("letters/failed", "By reason"),
    ("queries", "Checkpoints next to groups"),
    ("audit", "Audit log"),
    ("stream/nowhere", "There is no stream 'nowhere'"),
    ("nonsense", "There is no such page."),
)
_GONE_MS = 20_000  # timeout of an expectation, generous because the browser shares two cores with other tests


@contextmanager
def served(
    url: str,
    *,
    changes: bool,
    sampler: Sampler | None = None,
    state: Path | None = None,
    port: int = 0,
) -> Iterator[str]:
    """Run a dashboard in a thread and yield its URL. It samples the server five times per second unless a sampler is
    given.

    `state` is the state directory. Port 0 selects a free port.
    """
    address = address_of(url)
    made = listen("127.0.0.1", port)
    audit = None if state is None else Audit(state / audit_log.FILE)
    rules = Rules(address, TOKEN, changes, True, audit=audit)
    sampler = sampler or Sampler(address, 0.2)
    app = site(rules, sampler, cookie=f"c{made.getsockname()[1]}")
    server = Server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [made]})
    thread.start()
    try:
        wait_for(lambda: server.started, "the dashboard")
        yield f"http://127.0.0.1:{made.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium browser for all tests of the module."""
    path = needed("chromium")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]) as chromium,
    ):
        yield chromium


@pytest.fixture(scope="module")
def steering(engine_process: servers.Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a dashboard with an audit log, which allows changes."""
    with served(engine_process.url, changes=True, state=tmp_path_factory.mktemp("state")) as url:
        yield url


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, steering: str, client: redis.Redis) -> Iterator[Opened]:
    """A function that opens a new page, logged in by default. The fixture fails if a page reported an error."""
    client.ping()
    with ExitStack() as stack:

        def open_page(url: str = steering, fragment: str = f"#token={TOKEN}", **settings: object) -> Page:
            page = browser.new_page(reduced_motion="reduce", **settings)  # type: ignore[arg-type]
            stack.enter_context(without_errors(page))
            stack.callback(page.close)
            page.set_default_timeout(_GONE_MS)
            page.goto(f"{url}{fragment}")
            if fragment.startswith("#token"):
                expect(page.get_by_role("navigation", name="Screens")).to_be_visible()
            return page

        expect.set_options(timeout=_GONE_MS)
        yield open_page


@contextmanager
def without_errors(page: Page) -> Iterator[None]:
    """Fail if the page reports an error. Rejected requests, which appear as resources that failed
    to load, are ignored.
    """
    errors: list[str] = []

    def failed(failure: Error) -> None:
        errors.append(str(failure))

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            errors.append(message.text)

    page.on("pageerror", failed)
    page.on("console", logged)
    yield
    page.remove_listener("pageerror", failed)
    page.remove_listener("console", logged)
    assert errors == []


@pytest.fixture(scope="module")
def shared(browser: Browser, steering: str) -> Page:
    """A logged-in page shared by the module's tests, because opening a page takes a second."""
    page = browser.new_page(reduced_motion="reduce", base_url=steering)
    page.set_default_timeout(_GONE_MS)
    page.goto(f"{steering}#token={TOKEN}")
    expect(page.get_by_role("navigation", name="Screens")).to_be_visible()
    return page


Shown = Callable[[str], Page]


@pytest.fixture
def shown(shared: Page, steering: str, client: redis.Redis) -> Iterator[Shown]:
    """A function that shows a screen on the shared page. The fixture fails if the page reported an error."""
    client.ping()

    def show(path: str) -> Page:
        shared.goto(f"{steering}#/{path}")
        return shared

    expect.set_options(timeout=_GONE_MS)
    with without_errors(shared):
        yield show
        shared.goto(f"{steering}#/nowhere")
        shared.set_viewport_size({"width": 1280, "height": 720})


def row(page: Page, text: str) -> Locator:
    """Return the table row that contains this text."""
    return page.locator("main tbody tr").filter(has_text=text)


def fill(client: redis.Redis) -> None:
    """Add ten orders, a group that has read six of them, dead letters, and a report of a query."""
    for at in range(1, 11):
        client.xadd("orders", {"n": at, "city": "Lyon" if at % 2 else "Ghent"}, id=f"{at}-0")
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "alice", {"orders": ">"}, count=6)
    for at in range(1, 5):
        letter = {"_original_stream": "orders", "_original_id": f"{at}-0", "_original_deliveries": 6, "_reason": "why"}
        client.xadd("failed", {**letter, "n": at}, id=f"{at}-0")
    each = StreamReport("a query", 3, "orders", "6-0", "10-0", 4, True, 1, 1, "billing", 6, 10, 5.0, 0, 0)
    words = to_fields(summary("a query", "id", 3, 50, 1000, [each]))
    client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)))
