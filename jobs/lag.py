"""Lag of consumer groups: to a stream, the console, or a file of metrics for Prometheus.

    spark-submit jobs/lag.py --pattern 'orders:*' --to stream:lags --trigger 30s

Reports for each group the number of undelivered entries (`lag`), the age of the first of these, the number of delivered
and unacknowledged entries (`pending`), and a status: ok, warning, stall, stop or rewind. `metrics:FILE`
atomically replaces FILE, for node_exporter (--collector.textfile), with the group metrics of `pystreams metrics`. With
--above N, a single report exits with status 3 if a group's lag is, or may be, above N.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pystreams.errors import Status as Exit
from pystreams.errors import fail
from pystreams.jobs.flags import Trigger, combined
from pystreams.jobs.job import job
from pystreams.jobs.run import Run
from pystreams.measures import GroupRow
from pystreams.metrics.stream_samples import of_group
from pystreams.metrics.table import Metric
from pystreams.streams import inventory, paged_calls
from pystreams.streams.groups import group_states as groups
from pystreams.streams.groups import status
from pystreams.values import names, numbers
from streamclient.connection import Connection
from streamclient.streams.lag import Budget

_KINDS = ("console", "stream", "metrics")
_SAMPLES = 5  # number of last samples of a group that determine its status


@dataclass(frozen=True)
class Lag:
    """State of a group at one time. Times are in milliseconds. Unknown values are None.

    `at`: time of the sample, since 1970. `lag`: exact, or an estimate between `least` and `most`. `behind_ms`: age of
    the first undelivered entry.
    """

    at: int
    stream: str
    group: str
    lag: int | None
    exact: bool
    least: int | None
    most: int | None
    behind_ms: int | None
    pending: int
    consumers: int
    status: str


@job(
    "lag",
    examples=(
        "lag",
        "lag --pattern 'orders:*' --to stream:lags --trigger 30s",
        "lag --stream orders --to metrics:/var/lib/node_exporter/pystreams.prom --trigger 15s",
        "lag --group billing --above 10000 || echo 'billing is behind'",
        "lag --conf lag.toml",
    ),
)
@combined(
    click.option(
        "--stream", "streams", multiple=True, metavar="NAME", help="Stream whose groups to report. Repeatable."
    ),
    click.option(
        "--pattern",
        default="*",
        show_default=True,
        metavar="GLOB",
        help="Glob of streams, instead of --stream.",
    ),
    click.option("--group", metavar="NAME", help="Report only groups of this name."),
    click.option(
        "--to",
        "target",
        default="console",
        show_default=True,
        metavar="console|stream:NAME|metrics:FILE",
        help="Destination of the figures.",
    ),
    click.option(
        "--maxlen",
        type=click.IntRange(1),
        default=100_000,
        show_default=True,
        metavar="N",
        help="Approximate maximum length of the stream, with stream:NAME.",
    ),
    click.option(
        "--above", type=click.IntRange(0), metavar="N", help="Lag above which a single report ends with status 3."
    ),
    click.option(
        "--trigger",
        type=Trigger(),
        default="available-now",
        show_default=True,
        help="Report once, or at an interval such as 30s.",
    ),
)
def lag(
    run: Run, streams: tuple[str, ...], pattern: str, group: str | None, target: str, maxlen: int, above: int | None
) -> None:
    """Report the lag of consumer groups."""
    kind, _, destination = target.partition(":")
    if kind not in _KINDS or (kind == "console") == bool(destination):
        fail("INVALID_VALUE", name="--to", value=target, expected="it must be console, stream:NAME or metrics:FILE")
    if not run.once and not run.period:
        fail("INVALID_VALUE", name="--trigger", value="0s", expected="it must be longer than 0, such as 30s")
    history: dict[tuple[bytes, bytes], list[status.Sample]] = {}
    wanted = None if group is None else names.from_shell(group)
    while True:
        began = time.monotonic()
        with run.connection() as connection:
            for name in streams if run.once else ():
                inventory.need(connection, names.from_shell(name))  # raises NO_SUCH_STREAM
            found = _sample(connection, streams, pattern, wanted, history, Budget.deciding(above))
            if wanted is not None and not found and run.once:
                where = ", ".join(streams) or pattern
                fail("NO_SUCH_GROUP", stream=where, group=names.shown(wanted), address=connection.address.shown)
            lags = list(map(_lag_of, found))
            if kind == "stream":
                _write(connection, destination, maxlen, lags)
        if kind == "metrics":
            _replace(Path(destination), _exposition(found, f"db{connection.address.login.database}"))
        if kind == "console":
            _show(run, lags)
        else:
            run.say(_largest(lags))
        far = [] if above is None else [row.group for row in found if row.group.may_exceed(above)]
        for each in far:
            if not each.exact:
                run.say(f"{names.shown(each.name)} may be above {above:,}: its lag is {groups.lag_range(each)}")
        if far and run.once:
            click.get_current_context().exit(Exit.FOUND)
        if run.once or run.stop.requested.wait(max(0.0, began + run.period - time.monotonic())):
            return


def _sample(
    connection: Connection,
    streams: Sequence[str],
    pattern: str,
    wanted: bytes | None,
    history: dict[tuple[bytes, bytes], list[status.Sample]],
    budget: Budget,
) -> list[GroupRow]:
    """Sample the groups, and return them with their status.

    `history`: the last samples of each group, from which the status is computed. The new samples are added to it.
    """
    chosen = map(names.from_shell, streams) if streams else inventory.scan(connection, names.from_shell(pattern))
    now = paged_calls.now_ms(connection)
    found = [
        each for each in groups.groups(connection, chosen, now, budget=budget) if wanted is None or each.name == wanted
    ]
    for removed in history.keys() - {(each.stream.name, each.name) for each in found}:
        del history[removed]  # if the group is created again, its history starts again
    for each in found:
        samples = history.setdefault((each.stream.name, each.name), [])
        samples.append(each.sample)
        del samples[:-_SAMPLES]
    return [
        GroupRow(each, status.judge(history[each.stream.name, each.name]))
        for each in sorted(found, key=lambda each: (each.stream.name, each.name))
    ]


def _lag_of(row: GroupRow) -> Lag:
    found = row.group
    return Lag(
        found.at,
        names.shown(found.stream.name),
        names.shown(found.name),
        found.lag,
        found.exact,
        *found.bounds,
        found.behind_ms,
        found.pending,
        found.consumer_count,
        row.status.value,
    )


def _fields(found: Lag) -> list[str]:
    """Return the names and values of the attributes that are not None, as the fields of an entry."""
    words: dict[str, Any] = {name: value for name, value in vars(found).items() if value is not None}
    return [
        text for name, value in words.items() for text in (name, str(value).lower() if name == "exact" else str(value))
    ]


def _write(connection: Connection, stream: str, maxlen: int, found: Sequence[Lag]) -> None:
    for page in paged_calls.pages(found):
        paged_calls.ask_all(connection, [("XADD", stream, "MAXLEN", "~", maxlen, "*", *_fields(each)) for each in page])


def _show(run: Run, found: Sequence[Lag]) -> None:
    for each in found:
        figure = "?" if each.lag is None else numbers.count(each.lag, exact=each.exact)
        age = "" if not each.behind_ms else f", {each.behind_ms / 1000:,.1f} s"
        run.say(f"{each.status:8} {each.stream}  {each.group}  lag {figure}{age}, pending {each.pending:,}")
    if not found:
        run.say("no groups")


def _largest(found: Sequence[Lag]) -> str:
    """Return the number of groups and the largest lag; `~` marks an estimate."""
    worst = max(found, key=lambda each: each.lag or 0, default=None)
    figure = "0" if worst is None else numbers.count(worst.lag or 0, exact=worst.exact or worst.lag is None)
    return f"{len(found):,} groups, largest lag {figure}"


def _exposition(found: Sequence[GroupRow], database: str) -> str:
    """Return the figures in Prometheus's text format, under the names of `pystreams metrics`."""
    samples: dict[Metric, list[str]] = {}
    for row in found:
        for metric, value, labels, _ in of_group(row, database, consumers=False):
            named = zip(metric.labels, map(_escaped, labels), strict=True)
            words = ",".join(f'{name}="{label}"' for name, label in named)
            samples.setdefault(metric, []).append(f"{metric.name}{{{words}}} {value}")
    heads = {metric: f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}" for metric in samples}
    return "".join("\n".join([heads[metric], *lines, ""]) for metric, lines in samples.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _replace(file: Path, text: str) -> None:
    try:
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        draft.write_text(text)
        draft.replace(file)
    except OSError as failure:
        fail("FILE_UNUSABLE", file=file, reason=failure.strerror)


if __name__ == "__main__":
    lag()
