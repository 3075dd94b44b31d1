"""Where a run's figures are kept: a file of JSON for each run, in ``benchmarks/results`` where nothing else is said."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine

RESULTS = Path(__file__).resolve().parent / "results"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let the user say which file it is."""
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: a new file in benchmarks/results")


def begun() -> dict[str, Any]:
    """Return what figures begin with: when they were taken, and on what."""
    return {"taken": datetime.now(UTC).isoformat(), "machine": machine.description()}


def keep(figures: dict[str, Any], output: Path | None, prefix: str = "") -> None:
    """Write a run's figures to ``output``, else to a new file whose name is ``prefix`` and the time; say where."""
    target = output or RESULTS / f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"Figures: {target}")
