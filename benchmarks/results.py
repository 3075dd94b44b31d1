"""Storage of figures: one JSON file per run, in ``benchmarks/results`` by default."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine

RESULTS = Path(__file__).resolve().parent / "results"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--output`."""
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: a new file in benchmarks/results")


def new_figures() -> dict[str, Any]:
    """Return the start of a run's figures: the time and the machine."""
    return {"taken": datetime.now(UTC).isoformat(), "machine": machine.description()}


def keep(figures: dict[str, Any], output: Path | None, prefix: str = "") -> None:
    """Write a run's figures to ``output``, or to a new file named ``prefix`` and the time; print its path."""
    target = output or RESULTS / f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"Figures: {target}")
