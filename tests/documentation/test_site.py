"""The site can be built, its links are valid, and its pages request nothing from other machines."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import docs_site
from tests import ROOT


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
