"""Build the documentation site: `python scripts/docs_site.py`, or `make docs`. The result is in site/.

Fails if a link, an anchor or a picture has no target, a page is not in the navigation, or a page makes the browser load
something from another machine. Zensical reports broken links between pages. This script checks the other conditions.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from scripts.generated import ROOT

#: Attributes with URLs that a browser loads, by element. Links (`a`) load nothing until a reader follows them.
_FETCHED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src", "video": "src"}


class _Page(HTMLParser):
    """Links, loaded resources and anchors of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if (attribute := _FETCHED.get(tag)) in given and given.get("rel") != "canonical":
            self.loads.append(given[attribute or ""])


def faults(site: Path) -> Iterator[str]:
    """Yield a line for each problem in the pages below ``site``."""
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    styles = {path: re.findall(r"url\(['\"]?(https?:[^)'\"]*)", path.read_text()) for path in site.rglob("*.css")}
    for path, addresses in styles.items():
        yield from (f"{path.relative_to(site)}: loads {address}" for address in addresses)
    for path, page in pages.items():
        if path.name == "404.html":  # its links start at the root of the site
            continue
        name = path.relative_to(site)
        yield from (f"{name}: loads {load}" for load in page.loads if urlsplit(load).netloc)
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: {link} has no target"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link} has no such anchor"


def unlisted(folder: Path) -> Iterator[str]:
    """Yield the pages below ``folder``/docs that are missing from the navigation, and navigation entries without a
    page.
    """
    _, _, navigation = (folder / "mkdocs.yml").read_text().partition("\nnav:\n")
    listed = set(re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE))
    pages = {str(path.relative_to(folder / "docs")) for path in (folder / "docs").rglob("*.md")}
    yield from (f"{name}: not in the navigation of mkdocs.yml" for name in sorted(pages - listed))
    yield from (
        f"{name}: in the navigation of mkdocs.yml, but the page does not exist" for name in sorted(listed - pages)
    )


#: Creates workers from source text in the script: a page opened as a file may create workers, but not load their files.
_WORKER = """if (location.protocol === "file:") {{
  const make = window.Worker, source = {source};
  window.Worker = function () {{ return new make(URL.createObjectURL(new Blob([source]))); }};
}}
"""


def search_from_a_folder(site: Path) -> None:
    """Make the search work in pages that are opened as files. Such pages may not load the search's index and worker."""
    (site / "search.js").write_text(f"var __index = {(site / 'search.json').read_text()};\n")
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    (bundle,) = (site / "assets" / "javascripts").glob("bundle.*.js")
    bundle.write_text(_WORKER.format(source=json.dumps(worker.read_text())) + bundle.read_text())


def keep_names_whole(site: Path) -> None:
    """Mark code without blanks, so that docs/site.css can keep names from breaking at their hyphens."""
    for path in site.rglob("*.html"):
        path.write_text(re.sub(r"<code>(?=[^<\s]{1,60}</code>)", '<code class="name">', path.read_text()))


def build(folder: Path) -> list[str]:
    """Build ``folder``/site from ``folder``/mkdocs.yml and ``folder``/docs. Return the problems."""
    shutil.rmtree(folder / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        output, _, _ = re.sub(r"\x1b\[[0-9;]*m", "", run.stderr + run.stdout).partition("Traceback")
        return [output.strip()]
    search_from_a_folder(folder / "site")
    keep_names_whole(folder / "site")
    return [*unlisted(folder), *faults(folder / "site")]


if __name__ == "__main__":
    wrong = build(ROOT)
    print(*wrong or [f"The site is in {ROOT / 'site'}: open index.html."], sep="\n")
    sys.exit(1 if wrong else 0)
