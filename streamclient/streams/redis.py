"""`StreamServer` with the commands of Redis 5 and later: groups and leases, on top of what it says about streams.

Owns how deliveries are acknowledged where no single command does it; how ranges are delivered to a group is
`streamclient.streams.delivery`'s. Each method is a question of `streamclient.streams.api`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence

import redis

from streamclient.connection import Command
from streamclient.errors import ServerError
from streamclient.refusals import refused
from streamclient.retry import Refusal, refusal_of
from streamclient.streams import delivery_ahead
from streamclient.streams.delivery import Delivery
from streamclient.streams.info import pairs
from streamclient.streams.model import Counted, Range
from streamclient.streams.redis_streams import RedisStreams
from streamwire.slots import same_slot_tag
from streamwire.stream_id import LAST, ZERO, StreamId

_ACK_PAGE = 10_000  # pending entries listed at a time
_ACK_IDS = 1000  # IDs in one XACK
_MANY_PENDING = 20_000  # if more entries are pending, consumers are deleted rather than acknowledged entry by entry


class RedisServer(RedisStreams):
    """Any server that speaks Redis's protocol and has streams. `StreamServer` describes the methods."""

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
        replies = self._connection.pipeline(
            [
                ("XGROUP", "SETID", stream, group, str(position), *_entries_read(read))
                for stream, (position, read) in wanted.items()
            ]
        )
        for stream, reply in zip(wanted, replies, strict=True):
            self._checked(stream, reply, "XGROUP SETID")

    def create_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> set[str]:
        replies = self._connection.pipeline(
            [("XGROUP", "CREATECONSUMER", stream, group, name) for stream, name in consumers]
        )
        answered = zip(consumers, replies, strict=True)
        return {stream for (stream, _), reply in answered if not isinstance(reply, redis.ResponseError)}

    def hold(
        self, streams: Sequence[str], name: str, holder: str, milliseconds: int, forced: Sequence[str]
    ) -> dict[str, str | None]:
        keys = [_lease_key(stream, name) for stream in streams]
        commands: list[Command] = []
        for stream, key in zip(streams, keys, strict=True):
            condition = () if stream in forced else ("NX",)
            commands += [("SET", key, holder, *condition, "PX", milliseconds), ("GET", key)]
        replies = self._connection.pipeline(commands)
        for at, stream in enumerate(streams):
            # A server without memory refuses SET, but reports who has the lease, and extends it.
            owner = replies[2 * at + 1]
            if isinstance(owner, bytes) and (stream not in forced or owner == holder.encode()):
                replies[2 * at] = replies[2 * at] == b"OK"
        self._connection.check(commands, replies)
        owner_names = [None if owner is None else owner.decode() for owner in replies[1::2]]
        owners = dict(zip(streams, owner_names, strict=True))
        # Renewed apart from the look at it: should it expire in between, another one may have it, and keeps it.
        old = zip(keys, owner_names, replies[::2], strict=True)
        ours = [key for key, owner, is_new in old if owner == holder and not is_new]
        if ours:
            self._connection.commands([("PEXPIRE", key, milliseconds) for key in ours])
        return owners

    def held(self, streams: Sequence[str], name: str) -> set[str]:
        owners = self._connection.commands([("GET", _lease_key(stream, name)) for stream in streams])
        return {stream for stream, owner in zip(streams, owners, strict=True) if owner is not None}

    def let_go(self, streams: Sequence[str], name: str, holder: str) -> None:
        keys = [_lease_key(stream, name) for stream in streams]
        owners = self._connection.commands([("GET", key) for key in keys])
        ours = [key for key, owner in zip(keys, owners, strict=True) if owner == holder.encode()]
        if ours:
            self._connection.commands([("DEL", key) for key in ours])

    def consumers_in(self, streams: Sequence[str], group: str) -> dict[str, list[tuple[bytes, int]]]:
        replies = self._connection.pipeline([("XINFO", "CONSUMERS", stream, group) for stream in streams])
        for stream, reply in zip(streams, replies, strict=True):
            if isinstance(reply, redis.ResponseError) and refusal_of(reply) is not Refusal.ROW:
                raise refused(self._connection.address, "XINFO CONSUMERS", reply, stream)
        return {
            stream: []
            if isinstance(reply, redis.ResponseError)
            else [(info[b"name"], int(info[b"pending"])) for info in map(pairs, reply)]
            for stream, reply in zip(streams, replies, strict=True)
        }

    def delete_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> None:
        replies = self._connection.pipeline(
            [("XGROUP", "DELCONSUMER", stream, group, name) for stream, name in consumers]
        )
        for (stream, _), reply in zip(consumers, replies, strict=True):
            self._checked(stream, reply, "XGROUP DELCONSUMER")

    def first_pending_ids(self, streams: Sequence[str], group: str, prefix: str) -> dict[str, StreamId]:
        pending = self._pending(streams, group, prefix)
        asked = [(stream, name) for stream, (_, counts, _) in pending.items() for name in counts]
        replies = self._connection.pipeline([("XPENDING", stream, group, "-", "+", 1, name) for stream, name in asked])
        found: dict[str, StreamId] = {}
        for (stream, _), reply in zip(asked, replies, strict=True):
            if rows := self._checked(stream, reply, "XPENDING"):
                first = StreamId.parse(rows[0][0])
                found[stream] = min(first, found.get(stream, first))
        return found

    def deliver(
        self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str, alone: Collection[str]
    ) -> frozenset[str]:
        batches = list(batches)
        if batches:
            self.check_may_deliver(batches[0][0][0], group, prefix)
        left: set[str] = set()
        ours: list[tuple[Sequence[Range], StreamId]] = []
        for parts, position in batches:
            stream = parts[0].stream
            if len(parts) == 1 and (stream in alone or parts[0].count is None):
                left.add(stream)
            else:
                ours.append((parts, position))
        for _ in self.deliver_pages(ours, group, prefix):
            pass
        return frozenset(left)

    def deliver_pages(
        self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str
    ) -> Iterator[None]:
        return Delivery(self, self._connection, group, prefix).pages(list(batches))

    def deliver_ahead(
        self, stream: str, after: StreamId, shares: Sequence[tuple[str, int]], group: str
    ) -> Generator[None, None, Counted | None]:
        return (yield from delivery_ahead.deliver(self, self._connection, stream, after, shares, group))

    def check_may_deliver(self, part: Range, group: str, prefix: str) -> None:
        # Deliveries skip replies, and with them errors. A consumer's history is read instead, from the last ID but one
        # on (the last one means '>'): that changes nothing.
        if self._known.delivers:
            return
        stream, behind_all = part.stream, str(LAST.before())
        look: Command = ("XREADGROUP", "GROUP", group, f"{prefix}-{part.index}", "STREAMS", stream, behind_all)
        (reply,) = self._connection.pipeline([look])
        if isinstance(reply, redis.ResponseError) and str(reply).startswith("NOPERM"):
            raise refused(self._connection.address, "XREADGROUP", reply, stream)
        self._known.delivers = True

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        few: list[tuple[str, bytes]] = []
        entries = 0
        found = self._pending(list(uptos), group, prefix)
        if sum(sum(counts.values()) for _, counts, _ in found.values()) > _MANY_PENDING:
            # Deleting a consumer drops all it has pending at a fifth of the cost of naming each entry.
            for stream, name in self._deleted(self._finished_consumers(found, uptos, group), group):
                del found[stream][1][name]
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

    def _deleted(self, consumers: Sequence[tuple[str, bytes]], group: str) -> Sequence[tuple[str, bytes]]:
        """Delete them, and say which were; none if the user may not, who acknowledges entry by entry then."""
        try:
            if self._known.deletes_consumers:
                self.delete_consumers(consumers, group)
                return consumers
        except ServerError as refusal:
            if refusal.condition != "NOT_PERMITTED":
                raise
            self._known.deletes_consumers = False
        return ()

    def _finished_consumers(
        self, pending: Mapping[str, tuple[StreamId, dict[bytes, int], int]], uptos: Mapping[str, StreamId], group: str
    ) -> list[tuple[str, bytes]]:
        """The query's consumers that have nothing pending behind the stream's ID."""
        done = [
            (stream, name) for stream, (last, names, _) in pending.items() if last <= uptos[stream] for name in names
        ]
        asked = [
            (stream, name) for stream, (last, names, _) in pending.items() if last > uptos[stream] for name in names
        ]
        looks: list[Command] = [
            ("XPENDING", stream, group, str(uptos[stream].next()), "+", 1, name) for stream, name in asked
        ]
        for consumer, reply in zip(asked, self._connection.pipeline(looks), strict=True):
            if not self._checked(consumer[0], reply, "XPENDING"):
                done.append(consumer)
        return done

    def _acknowledge_few(
        self, consumers: Sequence[tuple[str, bytes]], group: str, uptos: Mapping[str, StreamId]
    ) -> None:
        """Acknowledge the pending entries of these consumers. Each has at most one page."""
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
            if self._checked(stream, summary, "XPENDING") is None:
                continue  # no such stream or group: nothing is pending there
            counts = {name: int(count) for name, count in summary[3] or () if ours.fullmatch(name)}
            others = int(summary[0]) - sum(counts.values())
            found[stream] = StreamId.parse(summary[2]) if summary[0] else ZERO, counts, others
        return found

    def _acknowledge_many(self, stream: str, group: str, consumer: bytes, upto: StreamId) -> None:
        while True:
            (rows,) = self._connection.pipeline([("XPENDING", stream, group, "-", str(upto), _ACK_PAGE, consumer)])
            ids = [row[0] for row in self._checked(stream, rows, "XPENDING") or ()]
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
            for group in map(pairs, self._checked(stream, reply, "XINFO GROUPS") or ()):
                position = StreamId.parse(group[b"last-delivered-id"]).next()
                smallest[stream] = min(position, smallest[stream] or position)
                asked.append((stream, group[b"name"]))
        replies = self._connection.pipeline([("XPENDING", stream, group) for stream, group in asked])
        for (stream, _), reply in zip(asked, replies, strict=True):
            summary = self._checked(stream, reply, "XPENDING")  # None: it was destroyed since it was listed
            if summary is not None and summary[0]:
                found = StreamId.parse(summary[1])
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
