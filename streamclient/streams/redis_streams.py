"""What `StreamServer` asks about streams, with the commands of Redis 5 and later. Counting entries means reading them.

Owns how a stream's state is read, and how it is counted and split if no single command does it. Nothing here decides
which rows a partition yields. Groups are `streamclient.streams.redis`'s.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import redis

from streamclient.capabilities import Capabilities
from streamclient.connection import Command, Connection, Link
from streamclient.errors import fail
from streamclient.refusals import RefusedForNowError, refused
from streamclient.retry import is_transient
from streamclient.streams import sampling, scripts
from streamclient.streams.entries import xrange
from streamclient.streams.info import group_state, stream_state
from streamclient.streams.model import Counted, Cut, Range, StreamState, last_id_of
from streamclient.streams.scripts import Ids
from streamwire.slots import slot_of
from streamwire.stream_id import LAST, StreamId

_SHORT = 1000  # ranges with no more entries than this are read many at a time
_SAMPLE = 100  # entries read to measure their average size
_COUNTED = 100_000  # up to this number, entries are counted rather than estimated
_MARKS_PER_PART = 100  # how fine a range is cut: to a hundredth of a part. Each mark's ID has to be parsed.
_SCAN_PAGE = 10_000
_ALL = 2**62  # more entries than a stream has

_Asked = tuple[str, StreamId, StreamId, int, int]
"""Entries to be counted: (stream, after, upto, grid, most)."""

_Marks = tuple[list[StreamId], int]
"""The ID of every grid-th of them, and their number."""


class RedisStreams:
    """The questions of `StreamServer` about streams, for any server with Redis's protocol and streams."""

    counts_cheaply = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._counted: dict[tuple[str, StreamId], Counted] = {}
        """Counts by stream and the ID before the counted range."""

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        # The group is asked after the stream: entries that arrive in between make its lag larger, never too small.
        known = self._known
        scripted = {stream for stream in streams if known.prefers_script(stream)}
        commands: list[Command] = []
        for stream in streams:
            commands.append(scripts.state_of(stream) if stream in scripted else ("XINFO", "STREAM", stream))
            if group is not None:
                commands.append(("XINFO", "GROUPS", stream))
        replies = iter(self._connection.pipeline(commands))
        found: dict[str, StreamState | None] = {}
        refused: list[str] = []
        for stream in streams:
            reply = next(replies)
            groups = self._checked(stream, next(replies), "XINFO GROUPS") if group is not None else None
            if stream in scripted and isinstance(reply, redis.ResponseError) and "no such key" not in str(reply):
                refused.append(stream)
                continue
            state = self._checked(stream, reply, "XINFO STREAM")
            found[stream] = None if state is None else stream_state(state, group_state(groups, group))
            if state is not None and stream not in scripted:
                known.learn_sizes(stream, state)
        if refused:
            known.runs_scripts = False
            found.update(self.states(refused, group))
        return found

    def changed(self, streams: Mapping[str, StreamState | None], group: str | None, wait: int) -> set[str] | None:
        known = self._known
        if not known.tells_news:
            return None
        if not streams:
            return set()
        names = list(streams)
        commands: list[Command] = [("XLEN", stream) for stream in names]
        if group is not None:
            commands += [("XINFO", "GROUPS", stream) for stream in names]
        looks = len(commands)
        after = {stream: str(last_id_of(state)) for stream, state in streams.items()}
        if self._connection.topology.is_cluster and len({slot_of(stream.encode()) for stream in names}) > 1:
            commands += [("XREAD", "COUNT", 1, "STREAMS", stream, last) for stream, last in after.items()]
        else:
            blocks: Command = ("BLOCK", wait) if wait else ()
            commands.append(("XREAD", "COUNT", 1, *blocks, "STREAMS", *after, *after.values()))
        replies = self._connection.pipeline(commands)
        refusals = [str(reply) for reply in replies if isinstance(reply, redis.ResponseError)]
        missing = [refusal for refusal in refusals if "no such key" in refusal]
        if len(missing) < len(refusals):
            known.tells_news = not any(refusal.startswith(("NOPERM", "ERR unknown")) for refusal in refusals)
            return None
        found = {stream.decode() for news in replies[looks:] for stream, _ in news or ()}
        groups = replies[len(names) : looks] or [None] * len(names)
        for (stream, state), length, reply in zip(streams.items(), replies, groups, strict=False):
            position = None if isinstance(reply, redis.ResponseError) else group_state(reply, group)
            if (length, position) != ((0, None) if state is None else (state.length, state.group if group else None)):
                found.add(stream)
        return found

    @property
    def _known(self) -> Capabilities:
        return self._connection.capabilities

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(self._known.prefers_script, streams))

    def looks(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        del group  # XINFO GROUPS tells all of them
        commands: list[Command] = [("MULTI",)]
        for stream in streams:
            by_script = stream in scripted and self._known.runs_scripts
            commands.append(scripts.state_of(stream) if by_script else ("XINFO", "STREAM", stream))
            commands.append(("XINFO", "GROUPS", stream))
        return [*commands, ("EXEC",)]

    def seen(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        executed = replies[-1]
        if executed is None:
            raise RefusedForNowError("a key that was watched before was changed")
        if isinstance(executed, redis.ResponseError):
            self._refuse_look(next(reply for reply in replies if isinstance(reply, redis.ResponseError)))
        found: dict[str, StreamState | None] = {}
        for stream, reply, listed in zip(streams, executed[::2], executed[1::2], strict=True):
            if isinstance(reply, redis.ResponseError) and "script" in str(reply) and "no such key" not in str(reply):
                self._refuse_look(reply)
            state = self._checked(stream, reply, "XINFO STREAM")
            groups = self._checked(stream, listed, "XINFO GROUPS")
            found[stream] = None if state is None else stream_state(state, group_state(groups, group))
        return found

    def _refuse_look(self, refusal: redis.ResponseError) -> NoReturn:
        text = str(refusal)
        if is_transient(refusal):
            raise RefusedForNowError(text)
        if self._known.runs_scripts and ("eval" in text or "script" in text):
            self._known.runs_scripts = False
            raise RefusedForNowError(text)
        raise refused(self._connection.address, "XINFO", text)

    def states_at_once(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        connection = self._connection
        link: Link | None = None
        refusal = ""
        found: dict[str, StreamState | None] = {}

        def attempt() -> bool | None:
            nonlocal link, refusal
            link = None
            on_links: dict[Link, list[str]] = {}
            for stream in streams:
                if stream not in found:
                    on_links.setdefault(connection.link(stream.encode()), []).append(stream)
            for link, ours in on_links.items():
                looks = [self.looks([stream], group, self.scripted([stream])) for stream in ours]
                replies = iter(link.pipeline([*itertools.chain.from_iterable(looks)]))
                for stream, commands in zip(ours, looks, strict=True):
                    try:
                        found.update(self.seen([stream], group, [*itertools.islice(replies, len(commands))]))
                    except RefusedForNowError as cause:
                        refusal = str(cause)
                        connection.learn_from(refusal, link)
                        return None
            return True

        if connection.retry(attempt, lambda: connection.drop(link)) is None:
            raise refused(connection.address, "XINFO", refusal)
        return {stream: found[stream] for stream in streams}

    def _checked(self, stream: str, reply: Any, command: str) -> Any:
        """The reply; None if the key does not exist, or has no such group (any more). Other refusals are raised."""
        if isinstance(reply, redis.ResponseError):
            text = str(reply)
            if "no such key" in text or "requires the key to exist" in text or text.startswith("NOGROUP"):
                return None
            if "WRONGTYPE" in text or "wrong kind of value" in text:
                fail("NOT_A_STREAM", stream=stream, address=self._connection.address)
            raise refused(self._connection.address, command, text, stream)
        return reply

    def find_streams(self, pattern: str) -> list[str]:
        found = set[bytes]().union(*self._connection.on_each_master(lambda link: self._scanned(link, pattern)))
        for name in found:
            try:
                name.decode()
            except UnicodeDecodeError:
                fail("STREAM_NAME_NOT_TEXT", pattern=pattern, stream=repr(name)[2:-1])
        return sorted(name.decode() for name in found)

    def _scanned(self, link: Link, pattern: str) -> set[bytes]:
        found: set[bytes] = set()
        cursor: bytes | int = 0
        while True:
            scan: Command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_PAGE, "TYPE", "stream")
            (reply,) = link.pipeline([scan])
            cursor, names = self._checked(pattern, reply, "SCAN")
            found.update(names)
            if int(cursor) == 0:
                return found

    def missing(self, entries: Mapping[str, StreamId]) -> set[str]:
        replies = self._connection.pipeline([("XRANGE", stream, str(at), str(at)) for stream, at in entries.items()])
        found = zip(entries, replies, strict=True)
        return {stream for stream, reply in found if not self._checked(stream, reply, "XRANGE")}

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        return self.nths([(stream, after, count, upto)])[0]

    def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        answers = [self._known_nth(*one) for one in asked]
        left = [at for at, answer in enumerate(answers) if answer is None]
        grids = [sampling.grid_of(asked[at][2]) for at in left]
        several = zip((asked[at] for at in left), grids, strict=True)
        found = self._marks([(stream, after, upto, grid, count) for (stream, after, count, upto), grid in several])
        for at, grid, (marks, total) in zip(left, grids, found, strict=True):
            stream, after, count, upto = asked[at]
            answers[at] = (marks[-1], count) if total == count else (upto, total)
            if total == count:
                self._counted[stream, after] = Counted(marks, grid)  # they are cut into parts next, most likely
        return [answer for answer in answers if answer is not None]

    def _known_nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int] | None:
        known = self._counted.get((stream, after))
        return (known.marks[-1], count) if known and known.total == count and known.marks[-1] <= upto else None

    def look_ahead(self, stream: str, after: StreamId, count: int, upto: StreamId) -> Counted | None:
        _, found = self.nth(stream, after, count, upto)
        return self._counted.get((stream, after)) if found == count else None

    def know(self, stream: str, after: StreamId, counted: Counted) -> None:
        self._counted[stream, after] = counted

    def counts(self, asked: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        return [self.count(*one) for one in asked]

    def _marks(self, asked: Sequence[_Asked]) -> list[_Marks]:
        """Of each: the ID of every `grid`-th of at most `most` entries in (after, upto], and their number."""
        found = self._short_marks(asked)
        begun: dict[int, tuple[list[StreamId], xrange.Counting]] = {}
        for at, (stream, after, upto, grid, most) in enumerate(asked):
            if found[at] is None:
                marks, total, left_from = self._scripted_marks(stream, after, upto, grid, most)
                if left_from is None:
                    found[at] = marks, total
                else:
                    begun[at] = marks, (stream, left_from, upto, grid, total, most)
        rest = xrange.marks(self._connection, [counting for _, counting in begun.values()])
        for (at, (marks, _)), (more, total) in zip(begun.items(), rest, strict=True):
            found[at] = [*marks, *more], total
        return [one for one in found if one is not None]

    def _short_marks(self, asked: Sequence[_Asked]) -> list[_Marks | None]:
        """What `_marks` says, where few entries are to be counted; many streams are asked at a time."""
        known = self._known
        found: list[_Marks | None] = [None] * len(asked)
        scriptable = (at for at, one in enumerate(asked) if known.prefers_script(one[0]))
        large = [at for at in scriptable if asked[at][4] <= known.script_page(asked[at][0])]
        scripted = [
            scripts.ids_of(stream, after, upto, most, grid, grid)
            for stream, after, upto, grid, most in (asked[at] for at in large)
        ]
        for at, reply in zip(large, self._connection.pipeline(scripted), strict=True):
            if isinstance(reply, redis.ResponseError):
                known.runs_scripts = False
            else:
                ids = scripts.parsed_ids(reply)
                found[at] = [*ids.marks], ids.count
        small = [at for at, one in enumerate(asked) if one[4] <= _SHORT and one[0] not in known.large]
        heads = [at for at in small if asked[at][4] == 1]
        commands = [xrange.command(*asked[at][:3], 1) for at in heads]
        for at, reply in zip(heads, self._connection.pipeline(commands), strict=True):
            rows = self._checked(asked[at][0], reply, "XRANGE")
            found[at] = [StreamId.parse(rows[0][0])] if rows else [], len(rows)
        small = [at for at in small if found[at] is None]
        ranges = [(stream, after, most, upto) for stream, after, upto, _, most in (asked[at] for at in small)]
        for at, entry_ids in zip(small, xrange.short_ids(self._connection, ranges), strict=True):
            grid = asked[at][3]
            found[at] = [*map(StreamId.parse, entry_ids[grid - 1 :: grid])], len(entry_ids)
        return found

    def _scripted_marks(
        self, stream: str, after: StreamId, upto: StreamId, grid: int, most: int
    ) -> tuple[list[StreamId], int, StreamId | None]:
        """What `_marks` says, as far as it is asked for by script, and where there may be more; None: nowhere."""
        known = self._known
        found: list[StreamId] = []
        total = 0
        while total < most and known.prefers_script(stream):
            asked = min(known.script_page(stream), most - total)
            page = self._ids(stream, after, upto, asked, grid - total % grid, grid)
            if page is None:
                break
            found += page.marks
            total += page.count
            if page.last is None or page.count < asked:
                return found, total, None
            after = page.last
        return found, total, after if total < most else None

    def _ids(self, stream: str, after: StreamId, upto: StreamId, count: int, first: int, step: int) -> Ids | None:
        """The script's reply; None if it may not run."""
        (reply,) = self._connection.pipeline([scripts.ids_of(stream, after, upto, count, first, step)])
        if isinstance(reply, redis.ResponseError):
            self._known.runs_scripts = False
            return None
        return scripts.parsed_ids(reply)

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        return self.nth(stream, after, _ALL, upto)[1]

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None, *, exact: bool) -> list[list[Cut]]:
        found: dict[Range, list[Cut]] = {}
        for whole, parts in wholes:
            known = self._counted.get((whole.stream, whole.after))
            if known is None or known.marks[-1] != whole.upto:
                continue
            if len(known.cuts) == parts and all(most is None or (count or 0) <= most for _, count in known.cuts):
                found[whole] = [*known.cuts]
            elif most is None and len(known.marks) >= parts * _MARKS_PER_PART:
                found[whole] = sampling.cut(known.marks, known.grid, known.total, whole.upto, parts, None)
        left = [(whole, parts) for whole, parts in wholes if whole not in found]
        found.update(zip((whole for whole, _ in left), self._splits(left, most, exact=exact), strict=True))
        return [found[whole] for whole, _ in wholes]

    def _splits(self, wholes: Sequence[tuple[Range, int]], most: int | None, *, exact: bool) -> list[list[Cut]]:
        """What `splits` says of ranges whose entries were not counted before."""
        states = self.states([whole.stream for whole, _ in wholes], None)
        counted: dict[Range, _Asked] = {}
        for whole, parts in wholes:
            state = states[whole.stream]
            if state is None:
                continue
            backlog, _ = state.backlog(whole.after)
            is_short = state.length < _SHORT  # it is read whole, together with others
            if exact or most is not None or is_short or backlog <= _COUNTED:
                about = backlog if whole.count is None else whole.count
                grid = max(1, about // (parts * _MARKS_PER_PART))
                entries = max(1, state.length) if is_short else _ALL
                counted[whole] = whole.stream, whole.after, whole.upto, min(grid, most or grid), entries
        marks = dict(zip(counted, self._marks([*counted.values()]), strict=True))
        found: list[list[Cut]] = []
        for whole, parts in wholes:
            state = states[whole.stream]
            if whole in marks:
                found.append(sampling.cut(marks[whole][0], counted[whole][3], marks[whole][1], whole.upto, parts, most))
            elif state is None:
                found.append([(whole.upto, None)])
            else:
                found.append(self._sampled(whole, parts, state))
        return found

    def _sampled(self, whole: Range, parts: int, state: StreamState) -> list[Cut]:
        """Cut a range where samples of it say that the parts have about the same size."""
        probes = sampling.probes(max(whole.after, (state.first_id or whole.after).before()), whole.upto, parts)
        windows = self._windows(whole, probes)
        return [(upto, None) for upto in sampling.estimated(probes, windows, whole.upto, parts)]

    def _windows(self, whole: Range, probes: Sequence[StreamId]) -> list[Sequence[StreamId]]:
        """The IDs of the first few entries of the range at or behind each probe."""
        windows: list[Sequence[StreamId]] = []
        if self._known.prefers_script(whole.stream):
            for at in probes:
                page = self._ids(whole.stream, at.before(), whole.upto, sampling.WINDOW, 1, 1)
                if page is None:
                    break
                windows.append(page.marks)
        commands: list[Command] = [
            ("XRANGE", whole.stream, str(at), str(whole.upto), "COUNT", sampling.WINDOW)
            for at in probes[len(windows) :]
        ]
        for reply in self._connection.pipeline(commands):
            rows = self._checked(whole.stream, reply, "XRANGE")
            windows.append([StreamId.parse(row[0]) for row in rows])
        return windows

    def average_entry_bytes(self, stream: str, after: StreamId) -> float:
        known = self._known
        sample = min(_SAMPLE, known.script_page(stream))
        page = self._ids(stream, after, LAST, sample, sample + 1, 1) if known.prefers_script(stream) else None
        if page is not None:
            return page.size / page.count if page.count else 0.0
        return xrange.average_entry_bytes(self._connection, stream, after, sample)
