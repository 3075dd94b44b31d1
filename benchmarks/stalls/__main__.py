"""Measure, print the table, keep the figures: see ``table`` for what is shown."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.stalls.table import TITLE, run

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> int:
    """Measure, print, keep."""
    about = "How long a client's command keeps another client waiting, on the engine and on redis-server."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=about)
    parser.add_argument("--rounds", type=int, default=3, help="of each case on each server (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the full sizes (default 1)")
    parser.add_argument("--quick", action="store_true", help="one round at a twentieth of the sizes")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--server", default="", metavar="SERVER", help="engine or redis")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: a new file in benchmarks/results")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that the servers are ended, too
    scale, rounds = (0.05, 1) if options.quick else (options.scale, options.rounds)
    figures: dict[str, Any] = {"taken": datetime.now(UTC).isoformat(), "machine": machine.description()}
    figures[TITLE] = run(scale, rounds, options.only, options.server)
    target = options.output or RESULTS / f"{TITLE}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"Figures: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
