"""Write the table of metrics into docs/reference/metrics.md: `python scripts/metrics_docs.py` after changing one.

A test fails where the two differ.
"""

from __future__ import annotations

from pystreams.metrics import table
from pystreams.metrics.table import Metric
from scripts.generated import ROOT, Part

PART = Part(ROOT / "docs" / "reference" / "metrics.md", r"<!-- metrics: .*? -->\n", "<!-- end of metrics -->")


def _row(metric: Metric) -> str:
    labels = " ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help.replace('|', chr(92) + '|')} |\n"


def written() -> str:
    """Return today's tables, one for each subject."""
    subjects = (
        ("Streams and groups", table.OF_STREAMS.values()),
        ("Spark queries", table.OF_QUERIES.values()),
        ("The server", (*table.OF_SERVER, *table.OF_INFO.values())),
        ("The exporter", table.OF_EXPORTER),
    )
    head = "| metric | type | labels | what |\n|---|---|---|---|\n"
    return "".join(f"\n## {title}\n\n{head}{''.join(map(_row, metrics))}" for title, metrics in subjects) + "\n"


if __name__ == "__main__":
    PART.write(written())
