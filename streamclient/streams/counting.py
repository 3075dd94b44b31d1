"""Counting and splitting ranges of entries on any Redis. No command counts a range, so its entries are read.

The ranges of many streams are read together. If a long range's exact number of entries is not needed, the range is cut
by samples.

A range is cut into parts of equal size from marks or from windows. *Marks* are the IDs of every grid-th entry, which
counting finds. A *probe* is an ID, and its *window* is the first few entries at or after this ID. The distances of a
window's IDs give the density of the stream at the probe. The densities give the numbers of entries between probes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from streamclient.connection import Command, Connection
from streamclient.streams import pages
from streamclient.streams.page_size import ALL, TARGET_BYTES
from streamclient.streams.states import Cut, Range, States, StreamState, checked
from streamwire.stream_id import StreamId

#: Number of entries sampled at a probe; fewer if they are large.
WINDOW = 64

_PROBES_PER_PART = 16  # probes per requested part of the range


def cut(marks: Sequence[StreamId], grid: int, total: int, upto: StreamId, parts: int, most: int | None) -> list[Cut]:
    """Cut at marks into `parts` parts, as equal as the grid allows, or into more so that none exceeds `most` entries.

    `total` is the range's number of entries, `upto` its end.
    """
    if most is not None:
        parts = max(parts, -(-total // max(grid, most // grid * grid)))
    cuts: list[Cut] = []
    done = 0
    for part in range(1, parts):
        at = total * part // parts // grid  # number of marks up to this cut
        if most is not None:
            at = min(at, done // grid + most // grid)
        if at * grid > done and at * grid < total:
            cuts.append((marks[at - 1], at * grid - done))
            done = at * grid
    while most is not None and total - done > most:
        at = done // grid + most // grid
        cuts.append((marks[at - 1], at * grid - done))
        done = at * grid
    return [*cuts, (upto, total - done)]


def probes(after: StreamId, upto: StreamId, parts: int) -> list[StreamId]:
    """Return the IDs to sample at: equal distances in time, or in sequence numbers within a single millisecond."""
    count = parts * _PROBES_PER_PART
    if upto.ms > after.ms:
        step = (upto.ms - after.ms) / count
        found = [StreamId(after.ms + int(step * i), 0) for i in range(count)]
        found[0] = after.next()
    else:
        found = [StreamId(after.ms, after.seq + 1 + (upto.seq - after.seq) * i // count) for i in range(count)]
    return sorted(set(found))


def estimated(
    at: Sequence[StreamId], windows: Sequence[Sequence[StreamId]], upto: StreamId, parts: int, window: int = WINDOW
) -> list[StreamId]:
    """Return the ends of at most `parts` ranges with equal estimated numbers of entries.

    `windows[i]` has the IDs of the first `window` entries at or after `at[i]`.
    """
    points: list[StreamId] = []  # ends of sections of known density
    weights: list[float] = []
    for i, found in enumerate(windows):
        edge = at[i + 1] if i + 1 < len(at) else upto.next()
        inside = [entry_id for entry_id in found if entry_id < edge]
        if not inside:
            continue
        points.append(inside[-1])
        weights.append(len(inside))
        if len(inside) == window:
            # A full window: assume the same density up to the next probe.
            covered = _distance(inside[0], inside[-1]) or 1.0
            points.append(min(edge.before(), upto))
            weights.append(len(inside) * _distance(inside[-1], edge) / covered)
    ends: list[StreamId] = []
    sums = list(accumulate(weights))
    for part in range(1, parts):
        wanted = sums[-1] * part / parts if sums else 0.0
        index = bisect_left(sums, wanted)
        if index >= len(points):
            break
        before = sums[index - 1] if index else 0.0
        low = points[index - 1] if index else at[0].before()
        share = (wanted - before) / weights[index] if weights[index] else 1.0
        end = _between(low, points[index], share)
        if end < upto and (not ends or end > ends[-1]) and end >= at[0]:
            ends.append(end)
    return [*ends, upto]


def _distance(low: StreamId, high: StreamId) -> float:
    if high.ms == low.ms:
        return (high.seq - low.seq) / 2**20
    return float(high.ms - low.ms)


def _between(low: StreamId, high: StreamId, share: float) -> StreamId:
    if high.ms - low.ms > 1:
        return StreamId(low.ms + int((high.ms - low.ms) * share), high.seq if share >= 1 else 0)
    if high.ms == low.ms:
        return StreamId(low.ms, low.seq + int((high.seq - low.seq) * share))
    return high


_MARKS_PER_PART = 100  # cuts are exact to a hundredth of a part; more marks cost more, since each ID is parsed

#: A request for the ID of an entry: (stream, after, count, upto).
Nth = tuple[str, StreamId, int, StreamId]


class Entries:
    """Numbers and positions of entries in ranges (after, upto] of streams, with the commands of any Redis."""

    #: Whether the server counts entries without sending them.
    counts_cheaply = False
    #: Maximum number of entries of a range that is counted to be cut, rather than estimated.
    counted = 100_000

    def __init__(self, connection: Connection, states: States) -> None:
        self._connection = connection
        self._states = states

    def nths(self, requested: Sequence[Nth]) -> list[tuple[StreamId, int]]:
        """Return, for each (stream, after, count, upto), the ID of the `count`-th entry in (after, upto], and `count`.

        If the range has fewer entries, return `upto` and their number.
        """
        heads = [request for request in requested if request[2] == 1]
        commands = [pages.command(stream, after, upto, 1) for stream, after, _, upto in heads]
        found: dict[Nth, tuple[Sequence[StreamId], int]] = {}
        for request, reply in zip(heads, self._connection.pipeline(commands), strict=True):
            rows = checked(self._connection, request[0], reply, "XRANGE")
            found[request] = [StreamId.parse(row[0]) for row in rows], len(rows)
        others = [request for request in requested if request[2] != 1]
        counted = [(stream, after, upto, count, count) for stream, after, count, upto in others]
        found.update(zip(others, pages.marks(self._connection, counted), strict=True))
        return [
            (marks[-1], count) if total == count else (upto, total)
            for (_, _, count, upto), (marks, total) in ((request, found[request]) for request in requested)
        ]

    def ends(self, requested: Sequence[Nth]) -> list[tuple[StreamId, int]]:
        """Return the same as `nths`, for the ends of a batch that will be read."""
        return self.nths(requested)

    def counts(self, requested: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        """Return the number of entries in (after, upto] of each (stream, after, upto).

        If `counts_cheaply` is false, all these entries are read.
        """
        return [number for _, number in self.nths([(stream, after, ALL, upto) for stream, after, upto in requested])]

    def backlogs(
        self, positions: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
    ) -> dict[str, int | None]:
        """Return the exact number of entries after a position in each stream; None if the server would have to send
        them.
        """
        known = {stream: states[stream] for stream in positions}
        found = {stream: state.exact_backlog(positions[stream]) if state else 0 for stream, state in known.items()}
        if self.counts_cheaply:
            # Count only up to the state's last ID, because the state's other numbers do not include newer entries.
            asked = [
                (stream, positions[stream], state.last_id)
                for stream, state in known.items()
                if state is not None and found[stream] is None
            ]
            found.update(zip((stream for stream, *_ in asked), self.counts(asked), strict=True))
        return found

    def added(
        self, positions: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
    ) -> dict[str, int | None]:
        """Return the number of entries ever added to each stream up to a position; None if it is unknown."""
        found: dict[str, int | None] = {}
        for stream, backlog in self.backlogs(positions, states).items():
            state = states[stream]
            total = None if state is None else state.entries_added
            found[stream] = None if total is None or backlog is None else total - backlog
        return found

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None) -> list[list[Cut]]:
        """Return the cuts of ranges, each given with its number of parts, into parts of equal size.

        A range is cut into more parts if a part would exceed `most` entries. The last cut is the range's end.
        """
        states = self._states.of([whole.stream for whole, _ in wholes], None)
        counted: dict[Range, pages.Counting] = {}
        for whole, parts in wholes:
            state = states[whole.stream]
            if state is None:
                continue
            backlog, _ = state.backlog(whole.after)
            if most is not None or backlog <= self.counted:
                about = backlog if whole.count is None else whole.count
                grid = max(1, about // (parts * _MARKS_PER_PART))
                counted[whole] = whole.stream, whole.after, whole.upto, min(grid, most or grid), max(1, state.length)
        marks = dict(zip(counted, pages.marks(self._connection, [*counted.values()]), strict=True))
        found: list[list[Cut]] = []
        for whole, parts in wholes:
            state = states[whole.stream]
            if whole in marks:
                found.append(cut(marks[whole][0], counted[whole][3], marks[whole][1], whole.upto, parts, most))
            elif state is None:
                found.append([(whole.upto, None)])
            else:
                found.append(self._sampled(whole, parts, state))
        return found

    def _sampled(self, whole: Range, parts: int, state: StreamState) -> list[Cut]:
        """Cut a range into parts of about the same size, estimated from samples."""
        at = probes(max(whole.after, (state.first_id or whole.after).before()), whole.upto, parts)
        window = max(2, min(WINDOW, TARGET_BYTES // self._connection.capabilities.sizes.get(whole.stream, 1)))
        windows = self._windows(whole, at, window)
        return [(upto, None) for upto in estimated(at, windows, whole.upto, parts, window)]

    def _windows(self, whole: Range, probes: Sequence[StreamId], window: int) -> list[Sequence[StreamId]]:
        """Return the IDs of the first `window` entries of the range at or after each probe."""
        windows: list[Sequence[StreamId]] = []
        commands: list[Command] = [("XRANGE", whole.stream, str(at), str(whole.upto), "COUNT", window) for at in probes]
        for first in range(0, len(probes), _PROBES_PER_PART):
            for reply in self._connection.pipeline(commands[first : first + _PROBES_PER_PART]):
                rows = checked(self._connection, whole.stream, reply, "XRANGE")
                windows.append([StreamId.parse(row[0]) for row in rows])
        return windows
