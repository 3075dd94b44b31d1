"""Conversion of replies to INFO and SLOWLOG, and of measures, to samples, without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pystreams import measures
from pystreams.measures import GroupRow, QueryRow, Row, StreamRow, View
from pystreams.metrics import table
from pystreams.metrics.table import METRICS, Metric, Sample

_DATABASE = re.compile(r"db[0-9]+")
_REPLICA = re.compile(r"slave[0-9]+")
_WORDS = {"ok": 1.0, "err": 0.0, "up": 1.0, "down": 0.0}
_COUNTS = {
    "calls": table.COMMANDS,
    "rejected_calls": table.COMMANDS_REJECTED,
    "failed_calls": table.COMMANDS_FAILED,
}


def of_info(info: Mapping[str, str], node: str = "") -> Iterator[Sample]:
    """Yield the samples of INFO ALL. Fields that are missing or not numeric are skipped."""
    for field, metric in table.OF_INFO.items():
        value = _number(info.get(field))
        if value is not None:
            yield Sample(metric, value, (), node)
    yield Sample(table.INSTANCE, 1, _instance(info), node)
    uptime, now = _number(info.get("uptime_in_seconds")), _number(info.get("server_time_usec"))
    if uptime is not None and now is not None:
        yield Sample(table.START_TIME, now // 1_000_000 - uptime, (), node)
    for name, value_text in info.items():
        if name.startswith("cmdstat_"):
            yield from _command(name.removeprefix("cmdstat_"), _parts(value_text), node)
        elif name.startswith("errorstat_"):
            yield from _of(table.ERRORS, _parts(value_text).get("count"), (name.removeprefix("errorstat_"),), node)
        elif _DATABASE.fullmatch(name):
            parts = _parts(value_text)
            yield from _of(table.DB_KEYS, parts.get("keys"), (name,), node)
            yield from _of(table.DB_KEYS_EXPIRING, parts.get("expires"), (name,), node)
            yield from _of(table.DB_TTL, parts.get("avg_ttl"), (name,), node, 1000)
        elif _REPLICA.fullmatch(name):
            parts = _parts(value_text)
            labels = (parts.get("ip", ""), parts.get("port", ""), parts.get("state", ""))
            yield from _of(table.REPLICA_OFFSET, parts.get("offset"), labels, node)
            yield from _of(table.REPLICA_LAG, parts.get("lag"), labels, node)
    if info.get("role") == "slave":
        yield from _replica(info, node)


def of_slow_log(length: Any, last: Any, node: str = "") -> Iterator[Sample]:
    """Yield the samples of SLOWLOG LEN and SLOWLOG GET 1. If either command is refused, there are no samples."""
    if not isinstance(length, int) or not isinstance(last, Sequence):
        return
    yield Sample(table.SLOWLOG_LENGTH, length, (), node)
    if last:
        yield Sample(table.SLOWLOG_LAST, int(last[0][0]), (), node)
        yield Sample(table.SLOWEST_LAST, int(last[0][2]) / 1_000_000, (), node)


def _instance(info: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(info.get(label, "") for label in table.INSTANCE.labels)


def _command(name: str, parts: Mapping[str, str], node: str) -> Iterator[Sample]:
    for field, metric in _COUNTS.items():
        yield from _of(metric, parts.get(field), (name,), node)
    yield from _of(table.COMMAND_SECONDS, parts.get("usec"), (name,), node, 1_000_000)


def _replica(info: Mapping[str, str], node: str) -> Iterator[Sample]:
    master = (info.get("master_host", ""), info.get("master_port", ""))
    yield Sample(table.REPLICA_INFO, 1, (*master, info.get("slave_read_only", "")), node)
    for field, metric in (
        ("master_link_status", table.MASTER_UP),
        ("master_last_io_seconds_ago", table.MASTER_IO),
        ("master_sync_in_progress", table.MASTER_SYNC),
        ("slave_repl_offset", table.OWN_OFFSET),
    ):
        yield from _of(metric, info.get(field), master, node)


def _of(metric: Metric, text: str | None, labels: tuple[str, ...], node: str, divisor: int = 1) -> Iterator[Sample]:
    value = _number(text)
    if value is not None:
        yield Sample(metric, value / divisor, labels, node)


def _parts(text: str) -> dict[str, str]:
    """Return a value of INFO such as `keys=1,expires=0` as a map."""
    return {name: value for name, _, value in (part.partition("=") for part in text.split(","))}


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(text)
    except ValueError:
        return None


#: Maximum number of a group's consumers that have their own samples: those with the most pending entries.
CONSUMERS = 1000


def text(name: bytes) -> str:
    r"""Return a name as a label's value: unchanged, or with escapes if it is not UTF-8.

    Different names stay different, so backslashes are doubled in a name that contains the text of an escape, such as a
    backslash followed by `xff`.
    """
    try:
        found = name.decode()
        if "\\x" not in found:
            return found
    except UnicodeDecodeError:
        pass
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def of_stream(row: StreamRow, database: str) -> Iterator[Sample]:
    """Return the samples of a stream. `database`: value of the label, such as `db0`."""
    return _samples(measures.STREAM, row, (database, text(row.stream.name)))


def of_group(row: GroupRow, database: str, *, consumers: bool) -> Iterator[Sample]:
    """Yield the samples of a group, and of its consumers if requested. Unknown values are skipped."""
    group = row.group
    labels = (database, text(group.stream.name), text(group.name))
    yield from _samples(measures.GROUP, row, labels)
    if not consumers:
        return
    shown = group.consumers or ()
    if len(shown) > CONSUMERS:
        shown = tuple(sorted(shown, key=lambda each: -each.pending)[:CONSUMERS])
    for each in shown:
        yield from _samples(measures.CONSUMER, each, (*labels, text(each.name)))


def of_query(row: QueryRow) -> Iterator[Sample]:
    """Return the samples of a Spark query's last batch, from the report of `StreamMonitor`."""
    return _samples(measures.QUERY, row, (row.report.query, row.report.id))


def _samples(view: View[Row], row: Row, labels: tuple[str, ...]) -> Iterator[Sample]:
    return (Sample(METRICS[name], value, labels) for each in view for name, value in each.samples(row))
