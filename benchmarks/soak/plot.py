"""The samples as a picture: an SVG of a few panels with lines, written by hand, so that no library is needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.soak.samples import Sample

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 860, 130, 70, 50, 46
_PLOT = _WIDTH - _LEFT - 150
_COLOURS = ["#1f6fb2", "#d9822b", "#b03a4b", "#5a8f3c"]
_MB = 1 << 20


@dataclass(frozen=True)
class Panel:
    """A title with the unit, and the lines: a name, and what of a sample it shows."""

    title: str
    lines: list[tuple[str, Callable[[Sample], float]]]


PANELS = [
    Panel("resident memory, MB", [("engine", lambda one: one.memory / _MB)]),
    Panel(
        "PING of another client, ms",
        [("p50", lambda one: one.ping_p50), ("p99", lambda one: one.ping_p99), ("longest", lambda one: one.ping_max)],
    ),
    Panel(
        "files, MB",
        [
            ("log", lambda one: one.log / _MB),
            ("snapshot", lambda one: one.snapshot / _MB),
            ("being written", lambda one: one.temporary / _MB),
        ],
    ),
    Panel("number of", [("descriptors", lambda one: one.descriptors), ("threads", lambda one: one.threads)]),
]


def svg(samples: Sequence[Sample], title: str) -> str:
    """The picture."""
    height = _TOP + len(PANELS) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, panel in enumerate(PANELS):
        parts += _drawn(panel, samples, _TOP + number * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _drawn(panel: Panel, samples: Sequence[Sample], top: int) -> list[str]:
    end = samples[-1].seconds
    most = _round_up(max(show(one) for _, show in panel.lines for one in samples))
    bottom = top + _HEIGHT
    parts = [f'<text x="{_LEFT}" y="{top - 6}">{escape(panel.title)}</text>']
    for share in (0.0, 0.5, 1.0):
        x, y = _LEFT + share * _PLOT, bottom - share * _HEIGHT
        parts += [
            f'<line x1="{_LEFT}" y1="{y:g}" x2="{_LEFT + _PLOT}" y2="{y:g}" stroke="#ddd"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4:g}" text-anchor="end">{most * share:g}</text>',
            f'<text x="{x:g}" y="{bottom + 16}" text-anchor="middle">{end * share / 60:.3g} min</text>',
        ]
    for number, (name, show) in enumerate(panel.lines):
        colour = _COLOURS[number]
        points = " ".join(
            f"{_LEFT + one.seconds / end * _PLOT:.1f},{bottom - show(one) / most * _HEIGHT:.1f}" for one in samples
        )
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>',
            f'<text x="{_LEFT + _PLOT + 12}" y="{top + 14 + 18 * number}" fill="{colour}">{escape(name)}</text>',
        ]
    return parts


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..., so that the axis has round numbers."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
