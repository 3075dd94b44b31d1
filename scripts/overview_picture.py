"""Picture of the way of the data, for the README: `python scripts/overview_picture.py`.

Writes `docs/images/overview-light.svg` and `overview-dark.svg`. A test fails if a file differs from what this script
writes.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
#: Colours by theme: text, secondary text, lines, fill of boxes, fill of the server, accent, text on the accent.
THEMES = {
    "light": ("#1f2328", "#59636e", "#818b98", "#ffffff", "#f6f8fa", "#3f51b5", "#ffffff"),
    "dark": ("#f0f6fc", "#9198a1", "#7d8590", "#151b23", "#0d1117", "#8c9eff", "#0d1117"),
}
_WIDTH, _HEIGHT = 880, 240
#: Boxes: left edge, width, title, lines.
_BOXES = (
    (6, 132, "Producers", ("any Redis client,", "Debezium, Spark,", "pystreams produce")),
    (196, 172, "Stream", ("", "", "one per topic, or many")),
    (390, 146, "Consumer group", ("position, lag,", "pending entries,", "seen by every tool")),
    (596, 126, "Spark", ("micro-batches,", "parallel tasks,", "checkpoint")),
    (772, 102, "Sink", ("stream, Delta,", "Parquet,", "foreachBatch")),
)
_TOP, _BOX = 62, 106  # upper edge and height of the boxes
#: Arrows between boxes: from, to, middle of the label, label.
_ARROWS = ((138, 196, 161, "XADD"), (536, 596, 570, "read"), (722, 772, 745, "write"))


def picture(theme: str) -> str:
    """Return the picture as SVG, in the colours of a theme."""
    text, second, line, box, server, accent, on_accent = THEMES[theme]

    def words(x: float, y: float, content: str, size: int = 13, colour: str = text, weight: int = 400) -> str:
        return (
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
            f'text-anchor="middle">{escape(content)}</text>'
        )

    def arrow(path: str, colour: str = line) -> str:
        return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6" marker-end="url(#head)"/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">',
        "<title>Producers add entries to a stream; Spark reads them through a consumer group and writes a sink</title>",
        f'<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 10 5 0 10z" fill="{line}"/></marker></defs>',
        f'<rect x="184" y="14" width="364" height="178" rx="10" fill="{server}" stroke="{line}" '
        'stroke-dasharray="5 4"/>',
        words(366, 38, "server: embedded, pystreams serve, Redis or Valkey", 13, second),
    ]
    for left, width, title, lines in _BOXES:
        middle = left + width / 2
        edge = accent if title == "Spark" else line
        parts.append(
            f'<rect x="{left}" y="{_TOP}" width="{width}" height="{_BOX}" rx="8" fill="{box}" stroke="{edge}" '
            f'stroke-width="1.5"/>'
        )
        parts.append(words(middle, _TOP + 26, title, 14, accent if title == "Spark" else text, 600))
        parts += [words(middle, _TOP + 49 + 19 * number, each, 12, second) for number, each in enumerate(lines) if each]
    for number in range(6):  # entries of the stream, the finished ones first
        x, done = 206 + 26 * number, number < 3
        fill, mark = (accent, on_accent) if done else ("none", second)
        parts.append(f'<rect x="{x}" y="{_TOP + 40}" width="22" height="22" rx="3" fill="{fill}" stroke="{accent}"/>')
        parts.append(words(x + 11, _TOP + 56, f"{number + 1}", 12, mark))
    for start, end, middle, label in _ARROWS:
        parts += [arrow(f"M{start} 115H{end}"), words(middle, 105, label, 12, second)]
    parts += [
        arrow("M368 115H390"),
        arrow("M659 168V210H463V172"),
        words(561, 228, "acknowledged when the batch is finished; repeated after a crash, written once", 12, second),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    for name in THEMES:
        (IMAGES / f"overview-{name}.svg").write_text(picture(name))
