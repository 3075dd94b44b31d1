"""`StreamServer` with the commands of Redis 5 and later. Counting entries means reading them.

Owns how a stream is counted, split, delivered and acknowledged where no single command does it. Nothing here decides
which rows a partition yields. It is one long file because it is one protocol: each method is a question of
`spark_streams.server.api`, and they share nothing but the connection.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import redis

from spark_streams.client.connection import Command, Connection, Link
from spark_streams.client.refusals import RefusedForNowError, refused
from spark_streams.client.retry import is_transient
from spark_streams.client.slots import same_slot_tag, slot_of
from spark_streams.errors import fail
from spark_streams.server import sampling, scripts, xrange
from spark_streams.server.model import Cut, GroupState, Range, StreamState, last_id_of
from spark_streams.server.scripts import Ids, Knowledge
from spark_streams.stream_id import LAST, ZERO, StreamId

_ACK_PAGE = 10_000  # pending entries listed at a time
_ACK_IDS = 1000  # IDs in one XACK
_MANY_PENDING = 20_000  # if more entries are pending, consumers are deleted rather than acknowledged entry by entry
_DELIVER_PAGE = 10_000  # entries in one XREADGROUP
_NTHS_AHEAD = 50  # short ranges that are read at a time to find their ends
_NTH_ENTRIES = 1000  # of which each has no more entries than this
_DELIVER_AHEAD = 100  # requests to deliver that are under way at a time
_SAMPLE = 100  # entries read to learn their average size
_COUNTED = 100_000  # up to this number, entries are counted rather than estimated
_SCAN_PAGE = 10_000
_ALL = 2**62  # more entries than a stream has


class RedisServer:
    """Any server that speaks Redis's protocol and has streams. `StreamServer` describes the methods."""

    counts_cheaply = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        # The group is asked after the stream: entries that arrive in between make its lag larger, never too small.
        known = self._known
        scripted = {stream for stream in streams if known.pays(stream)}
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
            found[stream] = None if state is None else _stream_state(state, _group_state(groups, group))
            if state is not None and stream not in scripted:
                known.learn(stream, state)
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
            position = None if isinstance(reply, redis.ResponseError) else _group_state(reply, group)
            if (length, position) != ((0, None) if state is None else (state.length, state.group if group else None)):
                found.add(stream)
        return found

    @property
    def _known(self) -> Knowledge:
        return scripts.knowledge(self._connection)

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(self._known.pays, streams))

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
            found[stream] = None if state is None else _stream_state(state, _group_state(groups, group))
        return found

    def _refuse_look(self, refusal: redis.ResponseError) -> NoReturn:
        text = str(refusal)
        if is_transient(refusal):
            raise RefusedForNowError(text)
        if self._known.runs_scripts and ("eval" in text or "script" in text):
            self._known.runs_scripts = False
            raise RefusedForNowError(text)
        raise refused(self._connection.address, "XINFO", text)

    def state_at_once(self, stream: str, group: str) -> StreamState | None:
        connection = self._connection
        link: Link | None = None
        refusal = ""

        def attempt() -> dict[str, StreamState | None] | None:
            nonlocal link, refusal
            link = None
            link = connection.link(stream.encode())
            try:
                return self.seen([stream], group, link.pipeline(self.looks([stream], group, self.scripted([stream]))))
            except RefusedForNowError as cause:
                refusal = str(cause)
                connection.learn_from(refusal, link)
                return None

        found = connection.retry(attempt, lambda: connection.drop(link))
        if found is None:
            raise refused(connection.address, "XINFO", refusal)
        return found[stream]

    def _checked(self, stream: str, reply: Any, command: str) -> Any:
        """The reply; None if the key does not exist. Any other refusal is raised."""
        if isinstance(reply, redis.ResponseError):
            text = str(reply)
            if "no such key" in text:
                return None
            if "WRONGTYPE" in text or "wrong kind of value" in text:
                fail("NOT_A_STREAM", stream=stream, address=self._connection.address)
            raise refused(self._connection.address, command, text)
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
        marks, total = self._marks(stream, after, upto, count, count)
        return (marks[0], count) if marks else (upto, total)

    def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        found: list[tuple[StreamId, int]] = []
        for at in range(0, len(asked), _NTHS_AHEAD):
            some = asked[at : at + _NTHS_AHEAD]
            small = {one for one in some if one[2] <= _NTH_ENTRIES and one[0] not in self._known.sizes}
            answers = iter(xrange.short_ends(self._connection, [one for one in some if one in small]))
            found += [next(answers) if one in small else self.nth(*one) for one in some]
        return found

    def _marks(self, stream: str, after: StreamId, upto: StreamId, grid: int, most: int) -> tuple[list[StreamId], int]:
        """The ID of every `grid`-th of at most `most` entries in (after, upto], and their number."""
        known = self._known
        found: list[StreamId] = []
        total = 0
        while total < most and known.pays(stream):
            asked = min(known.page(stream), most - total)
            page = self._ids(stream, after, upto, asked, grid - total % grid, grid)
            if page is None:
                break
            found += page.marks
            total += page.count
            if page.last is None or page.count < asked:
                return found, total
            after = page.last
        if total >= most:
            return found, total
        marks, count = xrange.marks(self._connection, stream, after, upto, grid, total, most)
        return [*found, *marks], count

    def _ids(self, stream: str, after: StreamId, upto: StreamId, count: int, first: int, step: int) -> Ids | None:
        """What the script says; None if it may not run."""
        (reply,) = self._connection.pipeline([scripts.ids_of(stream, after, upto, count, first, step)])
        if isinstance(reply, redis.ResponseError):
            self._known.runs_scripts = False
            return None
        return scripts.parsed_ids(reply)

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        return self.nth(stream, after, _ALL, upto)[1]

    def split(self, whole: Range, parts: int, most: int | None, *, exact: bool) -> list[Cut]:
        state = self.states([whole.stream], None)[whole.stream]
        if state is None:
            return [(whole.upto, None)]
        about, _ = state.backlog(whole.after)
        if exact or most is not None or about <= _COUNTED:
            grid = max(1, about // (2 * _COUNTED))
            if most is not None:
                grid = min(grid, most)
            marks, total = self._marks(whole.stream, whole.after, whole.upto, grid, _ALL)
            return sampling.cut(marks, grid, total, whole.upto, parts, most)
        probes = sampling.probes(max(whole.after, (state.first_id or whole.after).before()), whole.upto, parts)
        windows = self._windows(whole, probes)
        return [(upto, None) for upto in sampling.estimated(probes, windows, whole.upto, parts)]

    def _windows(self, whole: Range, probes: Sequence[StreamId]) -> list[Sequence[StreamId]]:
        """The IDs of the first few entries of the range at or behind each probe."""
        windows: list[Sequence[StreamId]] = []
        if self._known.pays(whole.stream):
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
        sample = min(_SAMPLE, known.page(stream))
        page = self._ids(stream, after, LAST, sample, sample + 1, 1) if known.pays(stream) else None
        if page is not None:
            return page.size / page.count if page.count else 0.0
        return xrange.average_entry_bytes(self._connection, stream, after, sample)

    def create_group(self, stream: str, group: str, position: StreamId, read: int | None = None) -> bool:
        return bool(self.create_groups({stream: (position, read)}, group))

    def create_groups(self, wanted: Mapping[str, tuple[StreamId, int | None]], group: str) -> set[str]:
        replies = self._connection.pipeline(
            [
                ("XGROUP", "CREATE", stream, group, str(position), "MKSTREAM", *_entries_read(read))
                for stream, (position, read) in wanted.items()
            ]
        )
        created: set[str] = set()
        for stream, reply in zip(wanted, replies, strict=True):
            if isinstance(reply, redis.ResponseError) and ("BUSYGROUP" in str(reply) or "already exists" in str(reply)):
                continue
            self._checked(stream, reply, "XGROUP CREATE")
            created.add(stream)
        return created

    def set_group_positions(self, wanted: Mapping[str, tuple[StreamId, int | None]], group: str) -> None:
        self._connection.commands(
            [
                ("XGROUP", "SETID", stream, group, str(position), *_entries_read(read))
                for stream, (position, read) in wanted.items()
            ]
        )

    def create_consumer(self, streams: Iterable[str], group: str, consumer: str) -> None:
        self._connection.pipeline([("XGROUP", "CREATECONSUMER", stream, group, consumer) for stream in streams])

    def hold(
        self, streams: Sequence[str], name: str, holder: str, milliseconds: int, forced: Sequence[str]
    ) -> dict[str, str | None]:
        keys = [_lease_key(stream, name) for stream in streams]
        commands: list[Command] = []
        for stream, key in zip(streams, keys, strict=True):
            condition = () if stream in forced else ("NX",)
            commands += [("SET", key, holder, *condition, "PX", milliseconds), ("GET", key)]
        replies = self._connection.commands(commands)
        owner_names = [None if owner is None else owner.decode() for owner in replies[1::2]]
        owners = dict(zip(streams, owner_names, strict=True))
        # Renewed apart from the look at it: should it expire in between, another one may have it, and keeps it.
        old = zip(keys, owner_names, replies[::2], strict=True)
        ours = [key for key, owner, is_new in old if owner == holder and not is_new]
        if ours:
            self._connection.commands([("PEXPIRE", key, milliseconds) for key in ours])
        return owners

    def is_held(self, stream: str, name: str) -> bool:
        return self._connection.command("GET", _lease_key(stream, name)) is not None

    def let_go(self, streams: Sequence[str], name: str, holder: str) -> None:
        keys = [_lease_key(stream, name) for stream in streams]
        owners = self._connection.commands([("GET", key) for key in keys])
        ours = [key for key, owner in zip(keys, owners, strict=True) if owner == holder.encode()]
        if ours:
            self._connection.commands([("DEL", key) for key in ours])

    def consumers(self, stream: str, group: str) -> list[tuple[bytes, int]]:
        return self.consumers_in([stream], group)[stream]

    def consumers_in(self, streams: Sequence[str], group: str) -> dict[str, list[tuple[bytes, int]]]:
        replies = self._connection.pipeline([("XINFO", "CONSUMERS", stream, group) for stream in streams])
        return {
            stream: []
            if isinstance(reply, redis.ResponseError)
            else [(info[b"name"], int(info[b"pending"])) for info in map(_pairs, reply)]
            for stream, reply in zip(streams, replies, strict=True)
        }

    def delete_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> None:
        self._connection.commands([("XGROUP", "DELCONSUMER", stream, group, name) for stream, name in consumers])

    def first_pending_id(self, stream: str, group: str, prefix: str) -> StreamId | None:
        _, counts, _ = self._pending([stream], group, prefix).get(stream, (ZERO, {}, 0))
        asked: list[Command] = [("XPENDING", stream, group, "-", "+", 1, name) for name in counts]
        replies = [self._checked(stream, reply, "XPENDING") for reply in self._connection.pipeline(asked)]
        return min((StreamId.parse(reply[0][0]) for reply in replies if reply), default=None)

    def deliver(
        self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str, alone: Collection[str]
    ) -> frozenset[str]:
        left: set[str] = set()
        under_way: list[bytes] = []
        for parts, position in batches:
            stream = parts[0].stream
            if len(parts) == 1 and (stream in alone or parts[0].count is None):
                left.add(stream)
                continue
            commands = self._deliveries(parts, group, prefix, position)
            if commands:
                under_way.append(self._connection.request(commands, partial(self._remaining, parts, group, prefix)))
            # Where replies cannot be skipped they are received as bytes, at once: nobody needs them parsed.
            while under_way and (len(under_way) > _DELIVER_AHEAD or not self._connection.can_skip_replies()):
                self._connection.receive(under_way.pop(0))
        for token in under_way:
            self._connection.receive(token)
        return frozenset(left)

    def _remaining(self, parts: Sequence[Range], group: str, prefix: str) -> list[Command]:
        """The commands that deliver what the group has not got of the ranges of one stream."""
        stream = parts[0].stream
        state = self.states([stream], group)[stream]
        if state is None or state.group is None:
            return []
        return self._deliveries(parts, group, prefix, state.group.last_delivered_id)

    def _deliveries(self, parts: Sequence[Range], group: str, prefix: str, position: StreamId) -> list[Command]:
        commands: list[Command] = []
        skips = self._connection.can_skip_replies()
        for part in parts:
            if part.upto <= position:
                continue
            if part.count is None or part.after < position:
                left = self.count(part.stream, max(part.after, position), part.upto)
            else:
                left = part.count
            name = f"{prefix}-{part.index}"
            while left > 0:
                step = min(left, _DELIVER_PAGE)
                if skips:
                    commands.append(("CLIENT", "REPLY", "SKIP"))
                commands.append(("XREADGROUP", "GROUP", group, name, "COUNT", step, "STREAMS", part.stream, ">"))
                left -= step
        if commands and skips:
            commands.append(xrange.empty_read(parts[0].stream))
        return commands

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        few: list[tuple[str, bytes]] = []
        entries = 0
        found = self._pending(list(uptos), group, prefix)
        whole = [stream for stream, (last, _, _) in found.items() if last <= uptos[stream]]
        if sum(sum(found[stream][1].values()) for stream in whole) > _MANY_PENDING:
            # Deleting the consumers drops all they have pending at a fifth of the cost of naming each entry.
            self.delete_consumers([(stream, name) for stream in whole for name in found.pop(stream)[1]], group)
        for stream, (_, counts, _) in found.items():
            for name, count in counts.items():
                if count > _ACK_PAGE:
                    self._acknowledge_many(stream, group, name, uptos[stream])
                else:
                    few.append((stream, name))
                    entries += count
                if entries > _ACK_PAGE:
                    self._acknowledge_few(few, group, uptos)
                    few, entries = [], 0
        self._acknowledge_few(few, group, uptos)

    def _acknowledge_few(
        self, consumers: Sequence[tuple[str, bytes]], group: str, uptos: Mapping[str, StreamId]
    ) -> None:
        """Acknowledge what is pending for these consumers of streams, none of which has more than a page."""
        asked: list[Command] = [
            ("XPENDING", stream, group, "-", str(uptos[stream]), _ACK_PAGE, name) for stream, name in consumers
        ]
        acks: list[Command] = []
        for (stream, _), reply in zip(consumers, self._connection.pipeline(asked), strict=True):
            ids = [row[0] for row in self._checked(stream, reply, "XPENDING") or ()]
            acks += [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
        self._connection.commands(acks)

    def _pending(
        self, streams: Sequence[str], group: str, prefix: str
    ) -> dict[str, tuple[StreamId, dict[bytes, int], int]]:
        """The group's largest pending ID, the query's consumers with their pending entries, and the others' entries."""
        ours = re.compile(re.escape(prefix.encode()) + rb"(?:-[0-9]+){1,2}")  # of a partition, or of a batch and one
        found: dict[str, tuple[StreamId, dict[bytes, int], int]] = {}
        replies = self._connection.pipeline([("XPENDING", stream, group) for stream in streams])
        for stream, summary in zip(streams, replies, strict=True):
            if isinstance(summary, redis.ResponseError) and "NOGROUP" in str(summary):
                continue  # no such stream or group: nothing is pending there
            self._checked(stream, summary, "XPENDING")
            counts = {name: int(count) for name, count in summary[3] or () if ours.fullmatch(name)}
            others = int(summary[0]) - sum(counts.values())
            found[stream] = StreamId.parse(summary[2]) if summary[0] else ZERO, counts, others
        return found

    def _acknowledge_many(self, stream: str, group: str, consumer: bytes, upto: StreamId) -> None:
        while True:
            rows = self._connection.command("XPENDING", stream, group, "-", str(upto), _ACK_PAGE, consumer)
            ids = [row[0] for row in rows]
            acks = [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
            for reply in self._connection.pipeline(acks):
                self._checked(stream, reply, "XACK")
            if len(ids) < _ACK_PAGE:
                return

    def first_unfinished_ids(self, streams: Sequence[str]) -> dict[str, StreamId | None]:
        smallest: dict[str, StreamId | None] = dict.fromkeys(streams)
        asked: list[tuple[str, bytes]] = []
        listed = self._connection.pipeline([("XINFO", "GROUPS", stream) for stream in streams])
        for stream, reply in zip(streams, listed, strict=True):
            for group in map(_pairs, self._checked(stream, reply, "XINFO GROUPS") or ()):
                position = StreamId.parse(group[b"last-delivered-id"]).next()
                smallest[stream] = min(position, smallest[stream] or position)
                asked.append((stream, group[b"name"]))
        replies = self._connection.pipeline([("XPENDING", stream, group) for stream, group in asked])
        for (stream, _), reply in zip(asked, replies, strict=True):
            if isinstance(reply, redis.ResponseError) and "NOGROUP" in str(reply):
                continue  # it was destroyed since it was listed
            count, first, *_ = self._checked(stream, reply, "XPENDING")
            if count:
                found = StreamId.parse(first)
                smallest[stream] = min(found, smallest[stream] or found)
        return smallest

    def trim_before(self, befores: Mapping[str, StreamId]) -> None:
        self._connection.commands([("XTRIM", stream, "MINID", "=", str(at)) for stream, at in befores.items()])


def _lease_key(stream: str, name: str) -> bytes:
    """The key of the lease of that name, in the stream's slot."""
    tag = same_slot_tag(stream.encode())
    return b"pystreams:{" + tag + b"}:lease:" + f"{len(stream)}:{stream}:{name}".encode()


def _entries_read(read: int | None) -> Command:
    """The words of XGROUP that say how far a group has read. Known only where the server counts, and has the words."""
    return () if read is None else ("ENTRIESREAD", read)


def _pairs(reply: Any) -> dict[bytes, Any]:
    return dict(zip(reply[0::2], reply[1::2], strict=True))


def _stream_state(reply: Any, group: GroupState | None) -> StreamState:
    info = _pairs(reply)
    first = info.get(b"first-entry")
    return StreamState(
        last_id=StreamId.parse(info[b"last-generated-id"]),
        length=int(info[b"length"]),
        first_id=StreamId.parse(first[0] if isinstance(first, list) else first) if first else None,
        group=group,
        entries_added=_number(info.get(b"entries-added")),
        max_deleted_id=StreamId.parse(info.get(b"max-deleted-entry-id", b"0-0")),
    )


def _group_state(replies: Any, group: str | None) -> GroupState | None:
    for info in map(_pairs, replies or ()):
        if group is not None and info[b"name"] == group.encode():
            return GroupState(
                last_delivered_id=StreamId.parse(info[b"last-delivered-id"]),
                lag=_number(info.get(b"lag")),
                pending=int(info[b"pending"]),
                entries_read=_number(info.get(b"entries-read")),
            )
    return None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
