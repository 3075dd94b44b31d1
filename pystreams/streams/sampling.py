"""Successive samples of streams and their groups, with what needs several samples: rates, time to catch up, status.

The dashboard, the exporter and `groups lag` take their samples here. A sample reads pages of streams:
the states of streams and groups, then details of groups (`group_states.detailed`), mostly their consumers.
About a dozen samples of each group are kept, from a little more than a minute. A group that no longer exists, or is no
longer sampled, is dropped.

`Queries` follows the reports that `StreamMonitor` writes to a stream about Spark queries (`spark_streams.reports`).
One call reads at most a few hundred reports. A query without reports for a day is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from pystreams.streams import group_states, paged_calls
from pystreams.streams.group_states import LIMIT_MS, Group, Sample, Status, judge
from pystreams.streams.inventory import Stream, read_streams
from spark_streams.reports import STREAM, QueryReport, from_fields
from streamclient.connection import Connection
from streamclient.errors import ResponseError
from streamclient.streams.lag import Budget
from streamwire.stream_id import ZERO, StreamId

_APART_MS = 5_000  # default minimum time between stored samples of a group
_GROWING = 2  # default number of stored samples, for `Samples`
_OVER_MS = 8_000  # minimum period over which rates are averaged, to smooth bursts
_RATE_APART_MS = 1_000  # minimum time between stored counts
_KEPT_MS = 10 * LIMIT_MS  # age of the last sample after which a group or a stream is dropped

#: Names of a stream and of a group.
Name = tuple[bytes, bytes]
Key = TypeVar("Key", bound=Hashable)


class ConsumerBudget:
    """Selects the groups whose consumers are requested, up to a total number of consumers.

    XINFO CONSUMERS has no pages, so groups with very many consumers are skipped.
    """

    MOST_OF_A_GROUP = 10_000  # maximum number of consumers of one group
    MOST = 100_000  # maximum number of consumers in total

    def __init__(self) -> None:
        self._left = self.MOST

    def __call__(self, group: Group) -> bool:
        if group.consumer_count > min(self._left, self.MOST_OF_A_GROUP):
            return False
        self._left -= group.consumer_count
        return True


class Rates(Generic[Key]):
    """Growth of counters per second, averaged over the last seconds. A counter that decreases has the rate 0."""

    def __init__(self) -> None:
        self._counted: dict[Key, list[tuple[int, int]]] = {}

    def add(self, key: Key, at: int, count: int) -> float | None:
        """Return the rate of a counter at a time in milliseconds; None for a new counter."""
        counted = self._counted.setdefault(key, [])
        if counted and at < counted[-1][0]:
            counted.clear()  # the server's clock went back, so these times cannot be compared
        while len(counted) > 1 and at - counted[1][0] >= _OVER_MS:
            del counted[0]
        rate = None
        if counted and at > counted[0][0]:
            rate = max(0, count - counted[0][1]) * 1000 / (at - counted[0][0])
        if not counted or at - counted[-1][0] >= _RATE_APART_MS:
            counted.append((at, count))
        return rate

    def keep(self, keys: Collection[Key], since: int) -> None:
        """Drop the counters that are not in `keys` and were last counted before `since`, in milliseconds."""
        self._counted = {key: each for key, each in self._counted.items() if key in keys or each[-1][0] >= since}


class Sampled(NamedTuple):
    """A page of a sample."""

    streams: list[Stream]
    groups: list[tuple[Group, Status]]


class Samples:
    """Successive samples of a server.

    `apart_ms`: minimum time between stored samples of a group; a sample that follows sooner is judged, but not stored.
    `growing`: minimum number of stored samples that show whether a lag grows.
    """

    def __init__(self, apart_ms: int = _APART_MS, growing: int = _GROWING) -> None:
        self._apart_ms, self._growing = apart_ms, growing
        self._added: Rates[bytes] = Rates()
        self._groups: dict[Name, list[Sample]] = {}

    def pages(
        self,
        connection: Connection,
        names: Iterable[bytes],
        now: int,
        *,
        only: bytes | None = None,
        every: bool = True,
        budget: Budget | None = None,
        forbidden: set[bytes] | None = None,
    ) -> Iterator[Sampled]:
        """Yield the streams with these names, and their groups, in pages. `now`: time of the server in milliseconds.

        `only`: name of the groups; None for all. `every`: whether to read the consumers of groups without undelivered
        and pending entries, too. `budget`: limit on counting lags that the server does not report. `forbidden`: see
        `read_streams`.
        """
        room, budget = ConsumerBudget(), budget or Budget()
        seen: tuple[set[bytes], set[Name]] = set(), set()

        def consumers(group: Group) -> bool:
            wanted = every or bool(group.pending) or group.lag != 0
            return wanted and group.consumer_count > 0 and room(group)

        for page in paged_calls.pages(names):
            read = read_streams(connection, page, memory=False, forbidden=forbidden)
            streams = [replace(each, rate=self._rate(each, now)) for each in read]
            states = group_states.groups_of(connection, streams, now, budget=budget)
            found = [each for each in states if only is None or each.name == only]
            found.sort(key=lambda group: group.consumer_count)  # only groups with very many consumers are skipped
            groups = list(map(self._judged, group_states.detailed(connection, found, consumers)))
            seen[0].update(each.name for each in streams)
            seen[1].update((each.stream.name, each.name) for each in found)
            yield Sampled(streams, groups)
        # A group that is created again has no history. An incomplete sample, which does not come here, drops nothing.
        self._keep(*seen, since=now)

    def drop(self, now: int) -> None:
        """Drop what was not sampled recently, which incomplete samples need."""
        self._keep((), (), since=now - _KEPT_MS)

    def groups(
        self,
        connection: Connection,
        names: Iterable[bytes],
        only: bytes | None = None,
        *,
        limit: int = 0,
        budget: Budget | None = None,
        forbidden: set[bytes] | None = None,
    ) -> tuple[list[tuple[Group, Status]], bool]:
        """Return the groups of these streams with their statuses, by stream and name, and whether there are more.

        `limit`: maximum number of groups; 0 for all. For the other arguments, see `pages`.
        """
        found: list[tuple[Group, Status]] = []
        now = paged_calls.now_ms(connection)
        for page in self.pages(connection, names, now, only=only, budget=budget, forbidden=forbidden):
            found += page.groups
            if 0 < limit < len(found):
                break
        found.sort(key=lambda each: (each[0].stream.name, each[0].name))
        return (found[:limit] if limit else found), 0 < limit < len(found)

    def _keep(self, streams: Collection[bytes], groups: Collection[Name], since: int) -> None:
        self._added.keep(streams, since)
        self._groups = {name: each for name, each in self._groups.items() if name in groups or each[-1].at >= since}

    def _rate(self, stream: Stream, now: int) -> float | None:
        added = stream.length if stream.entries_added is None else stream.entries_added
        return self._added.add(stream.name, now, added)

    def _judged(self, group: Group) -> tuple[Group, Status]:
        """Return the group with its rates, and its status. `group` is its newest sample."""
        now = group.sample
        samples = self._groups.setdefault((group.stream.name, group.name), [])
        if samples and now.at < samples[-1].at:
            samples.clear()  # the server's clock went back
        # With fewer samples, pass only the first one: a lag that has grown for a few seconds is not yet a warning.
        status = judge(group, samples if len(samples) >= self._growing else samples[:1])
        rate, catch_up = _progress(samples, now)
        if not samples or now.at - samples[-1].at >= self._apart_ms:
            samples.append(now)
        # Keep one sample that is older than the limit, to see whether the position has been unchanged since then.
        while len(samples) > 1 and now.at - samples[1].at >= LIMIT_MS:
            del samples[0]
        return replace(group, rate=rate, catch_up_ms=catch_up), status


def _progress(samples: list[Sample], now: Sample) -> tuple[float | None, int | None]:
    """Return the entries delivered per second over the last seconds, and the milliseconds until the lag is 0."""
    catch_up = 0 if now.lag == 0 else None
    before = next((each for each in reversed(samples) if now.at - each.at >= _OVER_MS), samples[0] if samples else now)
    passed = now.at - before.at
    if not passed:
        return None, catch_up
    rate = None
    if now.delivered is not None and before.delivered is not None:
        rate = max(0, now.delivered - before.delivered) * 1000 / passed
    if now.lag and before.lag is not None and before.lag > now.lag:
        catch_up = round(now.lag * passed / (before.lag - now.lag))
    return rate, catch_up


_COUNT = 200  # maximum number of reports read per call
_QUERIES = 1000  # maximum number of queries in `latest`
_FORGET_MS = 86_400_000  # age of a query's last report after which the query is dropped

#: Consequence for a query with consume=range of a group that is behind the query's committed position.
BEHIND_CHECKPOINT = "the group is behind the checkpoint: GROUP_BEHIND"


@dataclass(frozen=True)
class Reported:
    """A report and its time, in milliseconds since 1970."""

    at: int
    report: QueryReport


class Queries:
    """Follows the reports in a stream. `latest`: the last report of each query, by the query's ID."""

    def __init__(self, stream: bytes = STREAM.encode()) -> None:
        self._stream = stream
        self._after: StreamId | None = None
        self.latest: dict[str, Reported] = {}

    def read_new(self, connection: Connection, now: int) -> list[Reported]:
        """Return new reports, oldest first; the first call returns the last few hundred. `now`: milliseconds since
        1970.

        Returns an empty list if the key is not a stream, or if the user may not read it.
        """
        if self._after is None:
            (reply,) = connection.pipeline([("XREVRANGE", self._stream, "+", "-", "COUNT", _COUNT)])
            page = [] if isinstance(reply, ResponseError) else reply[::-1]
            self._after = ZERO
        else:
            (reply,) = connection.pipeline([("XRANGE", self._stream, f"({self._after}", "+", "COUNT", _COUNT)])
            page = [] if isinstance(reply, ResponseError) else reply
        found = self._reports_of(page)
        for each in found:
            self.latest.pop(each.report.id, None)
            self.latest[each.report.id] = each
        while len(self.latest) > _QUERIES:
            del self.latest[next(iter(self.latest))]
        for name in [name for name, each in self.latest.items() if now - each.at > _FORGET_MS]:
            del self.latest[name]
        return found

    def _reports_of(self, page: Sequence[Any]) -> list[Reported]:
        found: list[Reported] = []
        for entry_id, words in page:
            self._after = StreamId.parse(entry_id)
            report = from_fields(words or [])
            if report is not None:
                found.append(Reported(self._after.ms, report))
        return found
