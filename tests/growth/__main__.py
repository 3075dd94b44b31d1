"""Compare the growth of commands' cost with redis-server: ``REDIS_SERVER=... python -m tests.growth``.

Prints a line for each case with a conspicuous growth, or with ``--all`` for every case: milliseconds of processor time
on the engine for n and 4n arguments, and on redis-server for 4n.
"""

from __future__ import annotations

import argparse
import sys

from tests import servers
from tests.growth.cases import cases
from tests.growth.measuring import on_server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.growth", description=__doc__)
    parser.add_argument("--arguments", type=int, default=5_000, help="n; the greater number is 4n")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--all", action="store_true", help="show every case")
    options = parser.parse_args()
    few, many = options.arguments, 4 * options.arguments
    conspicuous = 0
    with servers.engine() as engine, servers.redis() as real:
        for case in cases():
            if options.only not in case.name:
                continue
            cost_few = min(on_server(engine, case, few)[0] for _ in range(2))
            cost_many, reply = on_server(engine, case, many)
            if cost_many > 8 * cost_few:
                cost_many = min(cost_many, on_server(engine, case, many)[0])
            real_cost, real_reply = on_server(real, case, many)
            grows = cost_many > 0.05 and cost_many > 8 * cost_few
            conspicuous += grows
            if grows or options.all:
                error = f"  redis-server: {str(real_reply)[:60]}" if type(real_reply) is not type(reply) else ""
                figures = f"{cost_few * 1000:9.1f} {cost_many * 1000:9.1f} {real_cost * 1000:9.1f}"
                print(f"{figures}  {'GROWS' if grows else '     '} {case.name}{error}", flush=True)  # noqa: T201
    return 1 if conspicuous else 0


if __name__ == "__main__":
    sys.exit(main())
