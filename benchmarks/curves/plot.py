"""Curves as a picture: an SVG of a few panels whose axes are both logarithmic, written by hand, so that no library is
needed and the same figures give the same file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 860, 150, 80, 64, 54
_PLOT = _WIDTH - _LEFT - 150
_COLOURS = ["#1f6fb2", "#5a8f3c", "#d9822b", "#b03a4b"]

#: What is measured, with its unit -> server -> (size, figure).
Curves = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]


def svg(curves: Curves, title: str, note: str, axis: str) -> str:
    """The picture: a panel for each thing measured. ``axis`` is what the size is a number of."""
    height = _TOP + len(curves) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="36" fill="#555">{escape(note)}</text>',
    ]
    for number, (name, lines) in enumerate(curves.items()):
        parts += _panel(name, lines, axis, _TOP + number * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _panel(name: str, lines: Mapping[str, Sequence[tuple[float, float]]], axis: str, top: int) -> list[str]:
    points = [point for line in lines.values() for point in line]
    left, right = _decades([size for size, _ in points])
    low, high = _decades([figure for _, figure in points])
    bottom = top + _HEIGHT

    def x(size: float) -> float:
        return _LEFT + (_log(size) - left) / (right - left) * _PLOT

    def y(figure: float) -> float:
        return bottom - (_log(figure) - low) / (high - low) * _HEIGHT

    parts = [f'<text x="{_LEFT}" y="{top - 6}">{escape(name)}</text>']
    for decade in range(low, high + 1):
        at = y(10.0**decade)
        parts += [
            f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_LEFT + _PLOT}" y2="{at:.1f}" stroke="#ddd"/>',
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**decade:,g}</text>',
        ]
    for decade in range(left, right + 1):
        parts.append(f'<text x="{x(10.0**decade):.1f}" y="{bottom + 16}" text-anchor="middle">{_size(decade)}</text>')
    parts.append(f'<text x="{_LEFT + _PLOT + 30}" y="{bottom + 16}" fill="#555">{escape(axis)}</text>')
    for number, (server, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        drawn = " ".join(f"{x(size):.1f},{y(figure):.1f}" for size, figure in line)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        parts += [f'<circle cx="{x(size):.1f}" cy="{y(one):.1f}" r="2.2" fill="{colour}"/>' for size, one in line]
        parts.append(
            f'<text x="{_LEFT + _PLOT + 12}" y="{top + 14 + 18 * number}" fill="{colour}">{escape(server)}</text>'
        )
    return parts


def _log(value: float) -> float:
    """The decade of a value. What is nothing, or next to it, is drawn at a thousandth."""
    return math.log10(max(value, 1e-3))


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The decades below and above all values."""
    low, high = math.floor(_log(min(values))), math.ceil(_log(max(values)))
    return low, max(high, low + 1)


def _size(decade: int) -> str:
    return f"{10**decade:,}" if 0 <= decade < 5 else f"10^{decade}"
