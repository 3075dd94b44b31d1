"""The site can be built, its links are valid, and its pages request nothing from other machines."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from scripts import docs_site
from tests import ROOT
from tests.suite.long import long_only
from tests.suite.tools import needed


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method it replaces
        """Do nothing."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the site's configuration and no pages."""
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs").mkdir()
    return tmp_path


def _with_pages(folder: Path, **pages: str) -> Path:
    listed = "".join(f"  - {name}: {name}.md\n" for name in pages)
    settings, _, _ = (folder / "mkdocs.yml").read_text().partition("\nnav:\n")
    (folder / "mkdocs.yml").write_text(f"{settings}\nnav:\n{listed}")
    for name, text in pages.items():
        (folder / "docs" / f"{name}.md").write_text(text)
    return folder


def test_the_site_is_complete(folder: Path) -> None:
    """A strict build succeeds: links, anchors and pictures exist, every page is in the navigation, and nothing is
    loaded from another host.
    """
    shutil.copytree(ROOT / "docs", folder / "docs", dirs_exist_ok=True)
    assert docs_site.build(folder) == []
    assert (folder / "site" / "index.html").exists()


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[there](nowhere.md) [there](other.md#nowhere)", ["page does not exist", "anchor does not exist"]),
        (
            "[there](nowhere.csv) ![picture](nowhere.png) ![picture](https://example.com/p.png)",
            [
                "index.html: loads https://example.com/p.png",
                "index.html: nowhere.csv has no target",
                "index.html: nowhere.png has no target",
            ],
        ),
    ],
    ids=["links between pages", "files and other machines"],
)
def test_a_broken_link_fails_the_build(folder: Path, text: str, faults: list[str]) -> None:
    """A broken link, anchor or picture fails the build, and each kind is named."""
    found = "\n".join(docs_site.build(_with_pages(folder, index=f"# Start\n\n{text}\n", other="# Other\n")))
    assert [fault for fault in faults if fault not in found] == []


def test_a_page_that_the_navigation_leaves_out_is_named(folder: Path) -> None:
    """The build names a page that is missing from the navigation, and an item of the navigation without a page."""
    _with_pages(folder, index="# Start\n", gone="# Gone\n")
    (folder / "docs" / "gone.md").rename(folder / "docs" / "lost.md")
    assert list(docs_site.unlisted(folder)) == [
        "lost.md: not in the navigation of mkdocs.yml",
        "gone.md: in the navigation of mkdocs.yml, but the page does not exist",
    ]


@contextlib.contextmanager
def _served(site: Path) -> Iterator[str]:
    """Serve ``site`` with a web server, and yield its address."""
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join(20)


@long_only
def test_the_search_finds_a_page_and_asks_no_other_machine(folder: Path) -> None:
    """In a browser, the search finds a page by its words without requests to other machines.

    It does so for a site on a web server and for a site opened as files.
    """
    shutil.copytree(ROOT / "docs", folder / "docs", dirs_exist_ok=True)
    assert docs_site.build(folder) == []
    path = needed("chromium")
    with (
        _served(folder / "site") as served,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]) as browser,
    ):
        for here in (served, f"{(folder / 'site').as_uri()}/"):
            page, asked = browser.new_page(), list[str]()
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(f"{here}index.html")
            page.get_by_role("button", name="Search").click()
            page.keyboard.type("dead letters")
            expect(page.get_by_text(re.compile("^[0-9]+ results$"))).to_be_visible(timeout=20_000)
            page.keyboard.press("Enter")
            expect(page).to_have_title("Dead letters - pystreams", timeout=20_000)
            assert [url for url in asked if not url.startswith((here, "blob:", "data:"))] == []
