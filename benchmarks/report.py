"""How figures are laid out: names, medians with their spread, ratios, and whether a target is reached.

A spread is the distance of the slowest from the fastest run in per cent of the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

NAME = 36
_CELL = 20


def head(*columns: str) -> str:
    """The line above a table."""
    return "  ".join([f"{'':{NAME}}", *(f"{column:>{_CELL}}" for column in columns)])


def rate(runs: Sequence[float]) -> str:
    """A median and its spread."""
    median = statistics.median(runs)
    return f"{median:12,.0f} {100 * (max(runs) - min(runs)) / median:5.0f} %"


def line(name: str, cells: Sequence[str], rest: Sequence[str] = ()) -> str:
    """A row of a table; `rest` stands behind its columns."""
    return "  ".join([f"{name:{NAME}}", *(f"{cell:>{_CELL}}" for cell in cells), *rest]).rstrip()


def judged(ratio: float, least: float | None = None, most: float | None = None) -> str:
    """A ratio, with its target, and whether that is reached, where there is one."""
    target = least if most is None else most
    if target is None:
        return f"{ratio:7.2f}" + " " * 20
    word = "reached" if reached(ratio, least, most) else "MISSED"
    return f"{ratio:7.2f} {'>=' if most is None else '<='} {target:4.2g}  {word:8}"


def reached(ratio: float, least: float | None = None, most: float | None = None) -> bool:
    """Whether a ratio is what it should be; true where nothing is asked of it."""
    return (least is None or ratio >= least) and (most is None or ratio <= most)
