"""The table that the job `flight_delays` prints at its end.

This module determines only the layout. The figures are computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystreams.jobs.flights.check import Figures, Group

BANDS = ("<1", "1-3", "3-5", ">5", "no reading")  # in miles, the lowest visibility first

# Figure, title, second line of the title, width, digits after the point.
COLUMNS = (
    ("scheduled", "departures", "", 10, 0),
    ("cancelled", "cancelled", "", 9, 0),
    ("late", "late", ">= 15 min", 9, 0),
    ("very_late", "very late", "> 3 h", 9, 0),
    ("delay_mean", "mean delay", "min", 10, 1),
    ("delay_stddev", "std. dev.", "min", 9, 1),
    ("delay_max", "longest", "min", 7, 0),
)


def table(statistics: Mapping[Group, Figures]) -> str:
    """Format the statistics: a header of two lines, then a line per airport and visibility band."""
    titles = [f"{title:>{width}}" for _, title, _, width, _ in COLUMNS]
    below = [f"{text:>{width}}" for _, _, text, width, _ in COLUMNS]
    lines = [
        "  ".join([f"{'airport':7}", f"{'visibility':>10}", *titles]),
        "  ".join([f"{'':7}", f"{'miles':>10}", *below]),
    ]
    for airport, band in sorted(statistics, key=lambda group: (group[0], BANDS.index(group[1]))):
        figures = statistics[airport, band]
        cells = [number(figures.get(name), width, digits) for name, _, _, width, digits in COLUMNS]
        lines.append("  ".join([f"{airport:7}", f"{band:>10}", *cells]))
    return "\n".join(lines)


def number(value: float | None, width: int, digits: int) -> str:
    """Return a figure right-aligned, or a dash if it is missing."""
    return f"{'-':>{width}}" if value is None else f"{value:>{width},.{digits}f}"
