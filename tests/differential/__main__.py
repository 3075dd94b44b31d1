"""Compare the engine and redis-server on random sequences for a long time: ``python -m tests.differential``."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack

from tests import servers
from tests.differential.grammar import FAMILIES
from tests.differential.machine import machines, search


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--commands", type=int, default=200_000, help="how many commands to run in all")
    parser.add_argument("--length", type=int, default=80, help="how many commands in a sequence")
    parser.add_argument("--seed", default="0", help="sequences follow from it")
    parser.add_argument("--families", default=",".join(FAMILIES), help="kinds of commands, divided by commas")
    parser.add_argument(
        "--over-tcp", action="store_true", help="the engine as a process instead of the core in this one"
    )
    parser.add_argument("--keep-going", action="store_true", help="show every difference instead of the first")
    options = parser.parse_args()
    if servers.redis_server() is None:
        print("no redis-server found", file=sys.stderr)  # noqa: T201
        return 2
    families = set(options.families.split(","))
    found = sequences = 0
    began = shown = time.monotonic()
    with ExitStack() as stack:
        real = stack.enter_context(servers.redis())
        engine = stack.enter_context(servers.engine()) if options.over_tcp else None
        both = stack.enter_context(machines(real, engine))
        while (done := sum(machine.commands for machine in both)) < options.commands:
            difference = search(both[sequences % 2], f"{options.seed}/{sequences}", families, options.length)
            sequences += 1
            if difference is not None:
                found += 1
                print(f"seed {options.seed}/{sequences - 1}\n{difference}\n", flush=True)  # noqa: T201
                if not options.keep_going:
                    return 1
            if time.monotonic() - shown > 2:
                shown = time.monotonic()
                rate = done / (shown - began)
                print(f"{done:,} commands, {sequences:,} sequences, {rate:,.0f}/s", file=sys.stderr)  # noqa: T201
    seconds = time.monotonic() - began
    errors, ended = sum(machine.errors for machine in both), sum(machine.ended for machine in both)
    print(  # noqa: T201
        f"{done:,} commands in {sequences:,} sequences, {seconds:.0f} s: {found} differences; "
        f"{errors / done:.0%} of the replies were errors, {ended} sequences ended at an exclusion"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
