"""Lag of consumer groups to a stream, which other programs can read, or to the console.

    spark-submit jobs/lag.py --pattern 'orders:*' --to stream:lags --trigger 30s

Each entry has a group's number of undelivered entries (`lag`, exact or an estimate), the age of the first of these in
milliseconds (`behind_ms`), the time until the lag is 0 if it goes on to shrink as it does (`catch_up_ms`), the entries
delivered per second, the number of delivered and unacknowledged entries (`pending`), and a status: ok, warning, stall,
stop or rewind. Unknown values are omitted.
"""

from __future__ import annotations

import time

import click

from pystreams.jobs.job import Trigger, combined, job
from pystreams.jobs.run import Run, Target, TargetType
from pystreams.streams import inventory, paged_calls
from pystreams.streams.group_states import Group, Status
from pystreams.streams.sampling import Samples
from pystreams.values import names


@job(
    "lag",
    examples=(
        "lag",
        "lag --pattern 'orders:*' --to stream:lags --trigger 30s",
        "lag --conf lag.toml",
    ),
)
@combined(
    click.option("--pattern", default="*", show_default=True, metavar="GLOB", help="Glob of streams."),
    click.option("--group", metavar="NAME", help="Report only groups of this name."),
    click.option(
        "--to",
        "target",
        type=TargetType("stream", "console"),
        default="console",
        show_default=True,
        help="Destination of the figures.",
    ),
    click.option(
        "--maxlen",
        type=click.IntRange(1),
        default=100_000,
        show_default=True,
        metavar="N",
        help="Approximate maximum length of the stream.",
    ),
    click.option(
        "--trigger",
        type=Trigger(),
        default="available-now",
        show_default=True,
        help="Report once, or at an interval such as 30s.",
    ),
)
def lag(run: Run, pattern: str, group: str | None, target: Target, maxlen: int) -> None:
    """Report the lag of consumer groups."""
    samples = Samples()
    name = None if group is None else names.from_shell(group)
    while True:
        began = time.monotonic()
        with run.connection() as connection:
            streams = inventory.scan(connection, names.from_shell(pattern))
            found = [fields(*each) for each in samples.groups(connection, streams, name)[0]]
            if target.kind == "stream":
                for page in paged_calls.pages(found):
                    words = [[word for pair in each.items() for word in pair] for each in page]
                    head = ("XADD", target.name, "MAXLEN", "~", maxlen, "*")
                    paged_calls.ask_all(connection, [(*head, *each) for each in words])
        for each in found if target.kind == "console" else ():
            run.say(" ".join(f"{field}={value}" for field, value in each.items()))
        run.say(f"{len(found):,} groups, largest lag {max((int(each.get('lag', 0)) for each in found), default=0):,}")
        if run.period is None:
            return
        time.sleep(max(0.0, began + run.period - time.monotonic()))


def fields(group: Group, status: Status) -> dict[str, str]:
    """Return a group as the fields of an entry. Unknown values are omitted."""
    least, most = group.bounds
    found = {
        "at": group.at,
        "stream": names.shown(group.stream.name),
        "group": names.shown(group.name),
        "lag": group.lag,
        "exact": str(group.exact).lower(),
        "least": least,
        "most": most,
        "behind_ms": group.behind_ms,
        "catch_up_ms": group.catch_up_ms,
        "delivered_per_second": None if group.rate is None else round(group.rate, 3),
        "pending": group.pending,
        "consumers": group.consumer_count,
        "status": status.value,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


if __name__ == "__main__":
    lag()
