"""`top`: streams and groups as a live table in the terminal."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from pystreams import measures
from pystreams.commands.verbs import Run, verb
from pystreams.connect.target import address_of
from pystreams.errors import fail
from pystreams.values import times

_NEEDS = "+scan +xinfo +xpending +xrange +time +info +memory|usage"
_SORTS = sorted({each.name for view in measures.ON_TOP.values() for each in view})


@verb(
    "top",
    needs=_NEEDS,
    examples=("pystreams top", "pystreams top --streams --sort rate", "pystreams top --filter orders"),
)
@click.option("--streams", is_flag=True, help="Start with streams instead of groups.")
@click.option("--sort", type=click.Choice(_SORTS), default="lag", show_default=True, help="Initial sort column.")
@click.option("--filter", "search", default="", metavar="TEXT", help="Show only names that contain this text.")
@click.option("--interval", default="2s", show_default=True, help="Time between two samples.")
def top(run: Run, streams: bool, sort: str, search: str, interval: str) -> None:
    r"""Watch streams and groups in the terminal: lag, rates, pending entries, status.

    \b
    Keys: tab   groups or streams      < >    sort by another column
          /     filter by name         r      reverse the order
          space pause                  q      quit

    RATE: entries added to the stream per second. DELIVERED: entries delivered to the group per second.

    Sampling uses at most a fifth of the time, so samples are less frequent with thousands of streams.
    """
    pause = times.duration(interval, "--interval") / 1000
    if find_spec("textual") is None:
        fail("PACKAGE_MISSING", what="pystreams top", package="textual", extra="top")
    if run.out.structured or not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("NO_TERMINAL", what="pystreams top")
    from pystreams.dashboard.sampling.sampler import Sampler  # noqa: PLC0415 - needed by few verbs
    from pystreams.top.screen import Top  # noqa: PLC0415

    address = address_of(run.wanted, f"+echo {_NEEDS}")
    Top(Sampler(address, pause), address.shown, "streams" if streams else "groups", sort, search).run()


VERBS = (top,)
