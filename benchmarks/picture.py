"""Charts: an SVG of panels below each other, drawn by matplotlib. The same figures give the same file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

#: Name of a line -> its points, (x, y).
Lines = Mapping[str, Sequence[tuple[float, float]]]

_WIDTH, _HEIGHT = 9, 1.9  # inches, of a panel
_STYLE = {
    "svg.fonttype": "none",  # text stays text, which a browser can search
    "svg.hashsalt": "pystreams",  # element IDs depend on the figures, not on randomness
    "path.simplify": False,  # each point is drawn
    "font.size": 9,
    "axes.titlesize": 9,
}


def svg(panels: Mapping[str, Lines], title: str, note: str, axis: str, *, logarithmic: bool = False) -> str:
    """Return the chart as XML.

    Args:
        panels: Title with unit -> lines.
        title: Subject of the chart.
        note: Machine and conditions of the measurement.
        axis: Quantity on the x axis, with its unit.
        logarithmic: Whether both axes are logarithmic. Values of y below 0.001 are then drawn at 0.001.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(panels)), layout="constrained")
        figure.suptitle(f"{title}\n{note}".strip(), fontsize=10)
        for (name, lines), axes in zip(panels.items(), figure.subplots(len(panels), squeeze=False)[:, 0], strict=True):
            axes.set_title(name, loc="left")
            axes.grid(color="#dddddd")
            if logarithmic:
                axes.set_xscale("log")
                axes.set_yscale("log")
            for line, points in lines.items():
                ys = [max(y, 1e-3) if logarithmic else y for _, y in points]
                marker = "o" if len(points) < 20 else ""
                axes.plot([x for x, _ in points], ys, label=line, linewidth=1.2, marker=marker, markersize=3)
            if not logarithmic:
                axes.set_ylim(bottom=0)
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        axes.set_xlabel(axis)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
