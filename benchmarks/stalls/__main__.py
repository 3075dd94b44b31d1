"""Measure, print the table and save the figures; see ``table`` for its columns."""

from __future__ import annotations

import argparse
import sys

from benchmarks import results, servers
from benchmarks.stalls.table import TITLE, run


def main() -> int:
    """Measure, print and save."""
    about = "How long a client's command keeps another client waiting, on the engine and on redis-server."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=about)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case on each server (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the full sizes (default 1)")
    parser.add_argument("--quick", action="store_true", help="one round at a twentieth of the sizes")
    parser.add_argument("--only", default="", metavar="TEXT", help="run cases whose name contains TEXT")
    parser.add_argument("--server", default="", metavar="SERVER", help="engine or redis")
    results.add_option(parser)
    options = parser.parse_args()
    servers.end_with_this_process()
    scale, rounds = (0.05, 1) if options.quick else (options.scale, options.rounds)
    figures = results.new_figures()
    figures[TITLE] = run(scale, rounds, options.only, options.server)
    results.keep(figures, options.output, f"{TITLE}-")
    return 0


if __name__ == "__main__":
    sys.exit(main())
