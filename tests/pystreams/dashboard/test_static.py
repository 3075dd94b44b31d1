"""Static files of the dashboard: the unmodified chart library, contrast of colors, and no way from text to HTML."""

from __future__ import annotations

import hashlib
import re

import pytest

from pystreams.dashboard.run import STATIC

_PUBLISHED = {  # of the npm package uplot 1.6.32
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
_OURS = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts]


def test_the_chart_library_is_the_published_one() -> None:
    """The files of the chart library equal those of the published package."""
    folder = STATIC / "vendor" / "uplot"
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert found == _PUBLISHED
    assert "uPlot (v1.6.32)" in (folder / "uPlot.iife.min.js").read_text()[:200]


def test_pages_use_no_other_host_and_write_no_html() -> None:
    """Our files contain no URL of another host, no API that turns text into HTML or code, and no inline script or
    style.
    """
    assert len(_OURS) > 10
    for path in _OURS:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert (
            re.findall(r"https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
            == []
        )
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page) == []


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_can_be_read(theme: int) -> None:
    """Text colors have a contrast of at least 4.5 on every background."""
    style = (STATIC / "style.css").read_text()
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: _luminance(pair[theme]) for name, *pair in found}

    def contrast(foreground: str, background: str) -> float:
        low, high = sorted((colours[foreground], colours[background]))
        return (high + 0.05) / (low + 0.05)

    texts = ("text", "muted", "accent", "ok", "warning", "bad", "rewind")
    pairs = [(text, behind) for text in texts for behind in ("page", "surface", "raised")] + [("on-accent", "accent")]
    assert {pair: round(contrast(*pair), 2) for pair in pairs if contrast(*pair) < 4.5} == {}
