"""The sampler: a thread that samples the server periodically for all browsers.

A sample has the streams, their groups, and INFO, with values kept from earlier samples. The server is searched for new
streams every few samples. Each sample requests the sizes in bytes of one page of streams, and details of groups with
unread or pending entries. So a sample sends a few commands per stream, in pipelines. The result is a `Snapshot`, which
never changes.

Sampling takes at most a fifth of the thread's time, with at most 250 commands per second on average. So the pause is
longer after a sample that was slow or sent many commands. An unreachable server is retried every second. Meanwhile the
last sample stays available, with the reason for the failure.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pystreams import measures
from pystreams.measures import GroupRow, StreamRow
from pystreams.streams import dead_letters, inventory, paged_calls
from pystreams.streams.group_states import SEVERITY, Group, Status
from pystreams.streams.inventory import Stream
from pystreams.streams.sampling import Name, Rates, Samples
from streamclient.config.address import Address
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError
from streamclient.reply_maps import info_lines
from streamclient.streams.lag import Budget

#: Selects the rows with any status except ok.
ATTENTION = "attention"
_WELL = (None, Status.OK)

#: Measures by which streams and groups can be sorted.
SORTS = {kind: {each.name: each for each in measures.IN_BROWSER[kind]} for kind in ("streams", "groups")}


@dataclass(frozen=True)
class Snapshot:
    """One sample. `at`: the server's time in milliseconds; `facts`: lines of INFO; `letters`: dead-letter streams.

    `took`: duration of the sample in seconds; `sent`: number of its commands; `commands`: commands per second of all
    clients; `unreadable`: number of streams that are left out, because the dashboard's user may not read them.
    """

    at: int
    streams: Mapping[bytes, StreamRow]
    groups: Mapping[Name, GroupRow]
    facts: Mapping[str, str]
    letters: Sequence[bytes] = ()
    took: float = 0.0
    commands: float | None = None
    sent: int = 0
    unreadable: int = 0

    @cached_property
    def totals(self) -> dict[str, Any]:
        """The totals over all streams, by name. `exact`: whether the lag of every group is exact."""
        streams, groups = self.streams.values(), self.groups.values()
        rates = [row.stream.rate for row in streams if row.stream.rate is not None]
        return {
            "streams": len(streams),
            "entries": sum(row.stream.length for row in streams),
            "groups": len(groups),
            "lag": sum(row.group.lag or 0 for row in groups),
            "pending": sum(row.group.pending for row in groups),
            "rate": sum(rates) if rates or not streams else None,
            "statuses": {status.value: sum(row.status == status for row in groups) for status in Status},
            "exact": all(row.group.exact for row in groups),
            "unreadable": self.unreadable,
        }

    def fact(self, line: str) -> int | None:
        """Return a number of INFO; None if it is missing."""
        text = self.facts.get(line, "")
        return int(text) if text.isdigit() else None

    def judged(self, group: Group) -> GroupRow:
        """Return a group that was read now, with the status and the rates of this sample if the group is in it."""
        sampled = self.groups.get((group.stream.name, group.name))
        if sampled is None:
            return GroupRow.judged(group)
        rates = replace(group, rate=sampled.group.rate, catch_up_ms=sampled.group.catch_up_ms)
        return GroupRow(rates, sampled.status)

    def ordered(self, kind: str, sort: str, *, falling: bool, search: str = "", status: str = "") -> list[Any]:
        """Return the streams or groups whose names contain `search`, in the order of one of `SORTS`.

        `status`: the selected status, or `ATTENTION`; empty for all.
        """
        rows: Mapping[Any, StreamRow | GroupRow] = self.streams if kind == "streams" else self.groups
        part = search.encode().lower()
        found = [
            row
            for row in rows.values()
            if (not status or row.status == status or (status == ATTENTION and row.status not in _WELL))
            and part in b" ".join(row.names).lower()
        ]
        return sorted(found, key=SORTS[kind][sort].sorted_by, reverse=falling)


EMPTY = Snapshot(0, {}, {}, {})


_NAMES_EVERY, _LETTERS_EVERY = 5, 30  # number of samples between two searches
_SAMPLE_EVERY_MS = 10_000  # minimum time between two stored samples of a group; its status is judged from these
_SAMPLES_FOR_GROWTH = 4  # minimum number of stored samples that show whether a lag grows
_SIZES_PER_SAMPLE = 200  # number of streams whose sizes one sample requests
_COUNTED = 10_000  # maximum number of entries counted per sample, for lags that the server does not report


_OF_STREAM = tuple(each for each in measures.STREAM if each.has_history)
_OF_GROUP = tuple(each for each in measures.GROUP if each.has_history)
#: Lines of INFO that are summed over the masters of a cluster.
_SUMS = ("used_memory", "maxmemory", "total_commands_processed")


def info(connection: Connection) -> dict[str, str]:
    """Return the lines of INFO; empty if the user may not call INFO.

    For a cluster, return one master's lines, but sums over all masters for the lines in `_SUMS`.
    """
    if not connection.topology.is_cluster:
        return info_lines(connection.pipeline([("INFO",)])[0])
    found: list[dict[str, str]] = []
    for endpoint in connection.topology.masters():
        with suppress(*BROKEN):  # use only the masters that reply
            found.append(info_lines(paged_calls.ask_server(connection, endpoint, [("INFO",)])[0]))
    facts = dict(found[0]) if found else {}
    for line in _SUMS:
        numbers = [each[line] for each in found if each.get(line, "").isdigit()]
        if numbers:
            facts[line] = str(sum(map(int, numbers)))
    return facts


class ServerSamples:
    """Successive samples of one server."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._letters: list[bytes] = []
        self._number = 0
        self._samples = Samples(_SAMPLE_EVERY_MS, _SAMPLES_FOR_GROWTH)
        self._commands: Rates[str] = Rates()
        self._sizes: dict[bytes, int] = {}
        self._next_size = 0

    def sample(self, connection: Connection) -> Snapshot:
        """Take a sample, and return it."""
        begin = time.monotonic()
        sent = connection.sent
        now = paged_calls.now_ms(connection)
        if self._number % _NAMES_EVERY == 0:
            self._names = sorted(inventory.scan(connection))
        self._ask_sizes(connection)
        forbidden: set[bytes] = set()
        streams: list[Stream] = []
        groups: dict[Name, GroupRow] = {}
        budget = Budget(_COUNTED)
        for page in self._samples.pages(connection, self._names, now, every=False, budget=budget, forbidden=forbidden):
            streams += [replace(each, bytes=self._sizes.get(each.name)) for each in page.streams]
            groups |= {(group.stream.name, group.name): GroupRow(group, status) for group, status in page.groups}
        if self._number % _LETTERS_EVERY == 0:
            self._letters = list(dead_letters.holders(connection, self._names))
        self._number += 1
        rows = _rows(now, streams, groups)
        took = time.monotonic() - begin
        facts = info(connection)
        letters = [name for name in self._letters if name in rows]
        commands = self._command_rate(now, facts)
        return Snapshot(now, rows, groups, facts, letters, took, commands, connection.sent - sent, len(forbidden))

    def forget_names(self) -> None:
        """Search for streams and dead letters again in the next sample."""
        self._number = 0

    def _command_rate(self, now: int, facts: Mapping[str, str]) -> float | None:
        total = facts.get("total_commands_processed", "")
        return self._commands.add("all", now, int(total)) if total.isdigit() else None

    def _ask_sizes(self, connection: Connection) -> None:
        """Request the sizes of the next page of streams."""
        if self._next_size >= len(self._names):
            self._next_size = 0
            self._sizes = {name: size for name, size in self._sizes.items() if name in set(self._names)}
        page = self._names[self._next_size : self._next_size + _SIZES_PER_SAMPLE]
        self._next_size += _SIZES_PER_SAMPLE
        commands: list[Command] = [("MEMORY", "USAGE", name, "SAMPLES", 5) for name in page]
        for name, reply in zip(page, connection.pipeline(commands) if commands else (), strict=True):
            if isinstance(reply, int):
                self._sizes[name] = reply


def _rows(now: int, streams: Sequence[Stream], groups: Mapping[Name, GroupRow]) -> dict[bytes, StreamRow]:
    of_stream: dict[bytes, list[GroupRow]] = defaultdict(list)
    for row in groups.values():
        of_stream[row.group.stream.name].append(row)
    return {stream.name: _row(now, stream, of_stream.get(stream.name, [])) for stream in streams}


def _row(now: int, stream: Stream, rows: Sequence[GroupRow]) -> StreamRow:
    if not rows:
        return StreamRow(stream, now)
    return StreamRow(
        stream,
        now,
        lag=max((row.group.lag for row in rows if row.group.lag is not None), default=None),
        behind_ms=max((row.group.behind_ms for row in rows if row.group.behind_ms is not None), default=None),
        pending=sum(row.group.pending for row in rows),
        status=max((row.status for row in rows), key=SEVERITY.__getitem__),
        exact=all(row.group.exact for row in rows),
    )


def numbers_of(snapshot: Snapshot) -> dict[Hashable, float | None]:
    """Return the numbers of a snapshot for the history.

    A key is the name of a measure, followed by the names of the stream and the group that it describes, if any.
    """
    numbers: dict[Hashable, float | None] = {(name,): snapshot.totals[name] for name in ("rate", "lag", "pending")}
    for name, row in snapshot.streams.items():
        numbers |= {(each.name, name): each.json(row) for each in _OF_STREAM}
    for (name, group), group_row in snapshot.groups.items():
        numbers |= {(each.name, name, group): each.json(group_row) for each in _OF_GROUP}
    return numbers


@dataclass(frozen=True)
class Curve:
    """Values of one series over time. `at`: milliseconds since 1970, ascending; `values`: None for missing samples."""

    at: list[int]
    values: list[float | None]


class History:
    """Many series of numbers by key over the last hour, in memory of a bounded size.

    The series share a list of times, and each ends with the last one. `span_ms`: retention of values. `step_ms`:
    minimum time between two values of a series. `most`: maximum number of series; further ones are ignored.
    """

    def __init__(self, span_ms: int = 3_600_000, step_ms: int = 5_000, most: int = 14_000) -> None:
        self._span_ms, self._step_ms, self._most = span_ms, step_ms, most
        self._times: list[int] = []
        self._series: dict[Hashable, array[float]] = {}

    def __len__(self) -> int:
        return len(self._series)

    def add(self, at: int, values: Mapping[Hashable, float | None]) -> None:
        """Add values for a time in milliseconds. Within a step, the last value of a series replaces earlier ones."""
        if not self._times or at - self._times[-1] >= self._step_ms:  # not if the server's clock went back
            self._start_step(at)
        for key, value in values.items():
            series = self._series.get(key)
            if series is None:
                if value is None or len(self._series) >= self._most:
                    continue
                series = self._series[key] = array("f", [math.nan])
            series[-1] = math.nan if value is None else value

    def of(self, key: Hashable) -> Curve:
        """Return one series, or an empty curve if there is no series with this key."""
        values = [None if math.isnan(value) else value for value in self._series.get(key, ())]
        first = next((at for at, value in enumerate(values) if value is not None), len(values))
        return Curve(self._times[len(self._times) - len(values) + first :], values[first:])

    def _start_step(self, at: int) -> None:
        """Add a time without values, and drop values and series that are too old."""
        self._times = [time for time in self._times if time > at - self._span_ms] + [at]
        for key, series in list(self._series.items()):
            series.append(math.nan)
            del series[: -len(self._times)]
            if all(map(math.isnan, series)):
                del self._series[key]


INTERVAL = 2.0  # default time between two samples, in seconds
_PAUSE_UNREACHABLE = 1.0  # pause after a failure, in seconds
_RETRY_MS = 500  # time for which connecting is tried
_ANSWER_SECONDS = 2.0  # timeout of a reply, after which the server counts as unreachable
_PAUSE_SHARE = 4  # minimum ratio of a pause to the duration of a sample
_COMMANDS_PER_SECOND = 250  # maximum average over a sample and its pause
_JUDGED = 3  # number of last samples; the fastest determines the pause, since any sample may be slow by chance


@dataclass(frozen=True)
class State:
    """State of the sampling.

    `number` grows with every sample and every failure; `problem` is None after a successful sample. `answered`: start
    time of the last complete sample, or of the sampler before the first one, in seconds of the monotonic clock.
    """

    number: int
    snapshot: Snapshot
    problem: str | None
    answered: float

    @property
    def age_ms(self) -> int:
        """Milliseconds since the last complete sample began; before that, since the sampler was created."""
        return round((time.monotonic() - self.answered) * 1000)


class Sampler:
    """Samples the server until `stop`.

    `state`: the last state, which any thread may read.
    """

    def __init__(
        self,
        address: Address,
        interval: float = INTERVAL,
        history: History | None = None,
    ) -> None:
        self._address = replace(address, retry_ms=_RETRY_MS, answer_seconds=_ANSWER_SECONDS)
        self._interval = interval
        self.state = State(0, EMPTY, "The server has not been sampled yet.", time.monotonic())
        self._history = History() if history is None else history
        self._history_lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = self._changed = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def hurry(self) -> None:
        """Take a sample immediately, including a search for new streams. The dashboard calls this after a change."""
        self._changed = True
        self._wake.set()

    def curve(self, *key: Hashable) -> Curve:
        """Return the curve of one number over the last hour. `numbers_of` defines the keys."""
        with self._history_lock:
            return self._history.of(key)

    def _run(self) -> None:
        try:
            self._sample_until_end()
        finally:
            if not self._ended:  # a bug; Python logs the exception that ends the thread
                self._became(self.state.snapshot, "The sampler has failed. See the log, and restart the dashboard.")

    def _sample_until_end(self) -> None:
        connection: Connection | None = None
        samples, took = ServerSamples(), deque[float](maxlen=_JUDGED)
        while not self._ended:
            pause = self._interval
            self._wake.clear()
            try:
                if connection is None:
                    connection = Connection(self._address)
                if self._changed:
                    self._changed = False
                    samples.forget_names()
                began = time.monotonic()
                snapshot = samples.sample(connection)
                with self._history_lock:
                    self._history.add(snapshot.at, numbers_of(snapshot))
                self._became(snapshot, None, began)
                took.append(snapshot.took)
                pause = max(pause, pause_after(min(took), snapshot.sent))
            except (PystreamsError, *BROKEN) as failure:
                if connection is not None:
                    connection.close()
                    connection = None
                self._became(self.state.snapshot, str(failure))
                pause = _PAUSE_UNREACHABLE
                samples = ServerSamples()
            self._wake.wait(pause)
        if connection is not None:
            connection.close()

    def _became(self, snapshot: Snapshot, problem: str | None, answered: float | None = None) -> None:
        before = self.state
        self.state = State(before.number + 1, snapshot, problem, before.answered if answered is None else answered)


def pause_after(took: float, sent: int) -> float:
    """Return the minimum pause, in seconds, after a sample that took `took` seconds and sent `sent` commands."""
    return max(took * _PAUSE_SHARE, sent / _COMMANDS_PER_SECOND)
