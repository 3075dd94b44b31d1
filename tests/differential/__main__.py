"""Compare the engine and redis-server on random sequences for a long time: ``python -m tests.differential``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tests import servers
from tests.differential import blocking
from tests.differential.grammar import FAMILIES
from tests.differential.machine import Difference, machines, search
from tests.differential.sides import exact_trims
from tests.suite import tools

#: Modes, each with its share of the commands if all modes run, and a description.
MODES = {
    "core": (0.6, "the core in this process"),
    "tcp": (0.3, "the engine as a process"),
    "blocking": (0.1, "the core with a client that waits"),
}
#: Function that runs the sequence with this number, and returns its difference and the total number of commands so far.
Runner = Callable[[int], tuple[Difference | None, int]]


@contextmanager
def _runner(mode: str, options: argparse.Namespace) -> Iterator[Runner]:
    families = set(options.families.split(","))
    with ExitStack() as stack:
        real = stack.enter_context(servers.redis())
        if mode == "blocking":
            stack.enter_context(exact_trims(real))
            waiting = [blocking.BlockingMachine(real, proto) for proto in (2, 3)]

            def run(number: int) -> tuple[Difference | None, int]:
                found = blocking.search(waiting[number % 2], f"{options.seed}/{number}", options.length)
                return found, sum(machine.commands for machine in waiting)
        else:
            engine = stack.enter_context(servers.engine()) if mode == "tcp" else None
            both = stack.enter_context(machines(real, engine))

            def run(number: int) -> tuple[Difference | None, int]:
                found = search(both[number % 2], f"{options.seed}/{number}", families, options.length)
                return found, sum(machine.commands for machine in both)

        yield run


def _compare(mode: str, commands: int, options: argparse.Namespace) -> int:
    """Run this number of commands; return the number of differences."""
    found = done = number = 0
    began = shown = time.monotonic()
    with _runner(mode, options) as run:
        while done < commands and (options.keep_going or not found):
            difference, done = run(number)
            if difference is not None:
                found += 1
                print(f"seed {options.seed}/{number}\n{difference}\n", flush=True)  # noqa: T201
            number += 1
            if time.monotonic() - shown > 2:
                shown = time.monotonic()
                print(f"{mode}: {done:,} of {commands:,} commands", file=sys.stderr)  # noqa: T201
    description = MODES[mode][1]
    seconds = time.monotonic() - began
    print(f"{description}: {done:,} commands in {number:,} sequences, {seconds:.0f} s, {found} differences")  # noqa: T201
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--commands", type=int, default=200_000, help="number of commands of all modes together")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all", help="what is compared with redis-server")
    parser.add_argument("--length", type=int, default=80, help="number of commands per sequence")
    parser.add_argument("--seed", default="0", help="seed of the random sequences")
    parser.add_argument("--families", default=",".join(FAMILIES), help="kinds of commands, separated by commas")
    parser.add_argument("--keep-going", action="store_true", help="show every difference instead of the first")
    options = parser.parse_args()
    if tools.path_of("redis-server") is None:
        print("no redis-server found", file=sys.stderr)  # noqa: T201
        return 2
    shares = {options.mode: 1.0} if options.mode != "all" else {mode: share for mode, (share, _) in MODES.items()}
    found = sum([_compare(mode, round(options.commands * share), options) for mode, share in shares.items()])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
