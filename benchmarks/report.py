"""Layout of figures: names, medians with their spread, ratios, and whether a target is reached.

A spread is the distance from the slowest to the fastest run in percent of the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

NAME = 36
_CELL = 20


def head(*columns: str) -> str:
    """Return the heading of a table."""
    return "  ".join([f"{'':{NAME}}", *(f"{column:>{_CELL}}" for column in columns)])


def rate(runs: Sequence[float]) -> str:
    """Return a median and its spread."""
    median = statistics.median(runs)
    return f"{median:12,.0f} {100 * (max(runs) - min(runs)) / median:5.0f} %"


def line(name: str, cells: Sequence[str], rest: Sequence[str] = ()) -> str:
    """Return a row of a table; `rest` follows its columns."""
    return "  ".join([f"{name:{NAME}}", *(f"{cell:>{_CELL}}" for cell in cells), *rest]).rstrip()


def with_target(ratio: float, least: float | None = None, most: float | None = None) -> str:
    """Return a ratio; if there is a target, also the target and whether the ratio reaches it."""
    target = least if most is None else most
    if target is None:
        return f"{ratio:7.2f}" + " " * 20
    word = "reached" if reached(ratio, least, most) else "MISSED"
    return f"{ratio:7.2f} {'>=' if most is None else '<='} {target:4.2g}  {word:8}"


def reached(ratio: float, least: float | None = None, most: float | None = None) -> bool:
    """Return whether a ratio reaches its target; true without a target."""
    return (least is None or ratio >= least) and (most is None or ratio <= most)
