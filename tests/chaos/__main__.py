"""`python -m tests.chaos`: fifty kills in each mode on each server.

Options: `--kills N`, `--seed N`, `--server redis|engine|family`, `--mode exactlyOnce|staged`. A family is three engines
under three Sentinels. Its master is killed while the job writes with `waitReplicas=1`. At least every third kill is of
a master, and a run without one fails.
"""

# ruff: noqa: T201 - it reports on stdout

from __future__ import annotations

import argparse
import random

from tests.chaos import harness
from tests.suite.jvm import start_quickly


def main() -> None:
    start_quickly()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--server", choices=("redis", "engine", "family"), action="append")
    parser.add_argument("--mode", choices=("exactlyOnce", "staged"), action="append")
    arguments = parser.parse_args()
    for kind in arguments.server or ("redis", "engine", "family"):
        for mode in arguments.mode or ("exactlyOnce", "staged"):
            chance = random.Random(arguments.seed)
            plan = harness.plan(kind, arguments.kills, chance)
            print(f"{kind}, {mode}: {arguments.kills} kills, seed {arguments.seed}", flush=True)
            report = harness.run(kind, plan, arguments.seed, mode, lambda line: print(line, flush=True))
            print(
                f"{kind}, {mode}: {report.entries} entries, each there exactly once, nothing pending; killed "
                f"{dict(report.kills)} in {report.seconds:.0f} s; {report.masters} failovers; "
                f"the query restarted {len(report.failures)} times",
                flush=True,
            )
            for words in sorted({words[:120] for words in report.failures}):
                print(f"    {words}")


if __name__ == "__main__":
    main()
