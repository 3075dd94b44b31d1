"""What the job `flight_delays` prints at its end: the table, what was read and written, and the groups' state.

Owns the layout alone; every figure comes in computed.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobs.flight_check import Figures, Group

BANDS = ("<1", "1-3", "3-5", ">5", "no reading")
HEADER = (
    "airport  visibility  departures  cancelled   late  > 3 h   mean delay  std. dev.  longest\n"
    "            (miles)                         >= 15 min           (min)      (min)    (min)"
)


def table(statistics: Mapping[Group, Figures]) -> str:
    """Lay the statistics out, one line for each airport and visibility band, the worst sight first."""
    lines = [HEADER]
    for airport, band in sorted(statistics, key=lambda group: (group[0], BANDS.index(group[1]))):
        figures = statistics[airport, band]
        lines.append(
            f"{airport:7}  {band:>10}  {number(figures['scheduled'], 10)}  {number(figures['cancelled'], 9)}"
            f"  {number(figures['late'], 5)}  {number(figures['very_late'], 5)}"
            f"  {number(figures.get('delay_mean'), 11, 1)}  {number(figures.get('delay_stddev'), 9, 1)}"
            f"  {number(figures.get('delay_max'), 7)}"
        )
    return "\n".join(lines)


def number(value: float | None, width: int, digits: int = 0) -> str:
    """Return a figure right-aligned, or a dash where there is none."""
    return f"{'-':>{width}}" if value is None else f"{value:>{width},.{digits}f}"
