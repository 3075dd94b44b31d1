"""Delivery and acknowledgement of ranges on any Redis, which has no single command for either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streamclient.connection import Command, Connection
from streamclient.errors import ServerError
from streamclient.streams.counting import Entries
from streamclient.streams.group_reads import GroupReads
from streamclient.streams.groups import Groups, Pending, pending_of
from streamclient.streams.model import Range, checked
from streamclient.streams.stream_states import States
from streamwire.stream_id import StreamId

_ACK_PAGE = 10_000  # pending entries listed at a time
_ACK_IDS = 1000  # IDs in one XACK
_MANY_PENDING = 20_000  # if more entries are pending, finished consumers are deleted, which drops their entries


class Delivery:
    """Delivery of ranges to consumers by XREADGROUP, and acknowledgement by XACK or by deletion of finished consumers.

    `prefix` is the prefix of a query's consumer names; a hyphen and the index of a range are appended to it.
    """

    def __init__(self, connection: Connection, groups: Groups, states: States, entries: Entries) -> None:
        self._connection = connection
        self._groups = groups
        self._states = states
        self._entries = entries

    def deliver(self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str) -> None:
        """Add ranges to the group's pending list, each for the consumer of its index.

        `batches` are the ranges of each stream, in order, and the group's last-delivered ID in that stream. Entries up
        to that ID are skipped.
        """
        GroupReads(self._connection, self._states, self._entries, group, prefix).deliver(list(batches))

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        """Acknowledge the entries pending for the query's consumers, in each stream up to the ID in `uptos`."""
        few: list[tuple[str, bytes]] = []
        entries = 0
        found = pending_of(self._connection, list(uptos), group, prefix)
        if sum(sum(counts.values()) for _, counts, _ in found.values()) > _MANY_PENDING:
            # Deleting a consumer drops all its pending entries, at a fifth of the cost of an XACK with all their IDs.
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
        """Delete consumers and return them.

        If that is not permitted, return an empty tuple: the caller acknowledges their entries by ID.
        """
        try:
            if self._connection.capabilities.deletes_consumers:
                self._groups.delete_consumers(consumers, group)
                return consumers
        except ServerError as refusal:
            if refusal.condition != "NOT_PERMITTED":
                raise
            self._connection.capabilities.deletes_consumers = False
        return ()

    def _finished_consumers(
        self, pending: Mapping[str, Pending], uptos: Mapping[str, StreamId], group: str
    ) -> list[tuple[str, bytes]]:
        """Return the query's consumers that have no pending entries after the stream's ID in `uptos`."""
        done = [
            (stream, name) for stream, (last, names, _) in pending.items() if last <= uptos[stream] for name in names
        ]
        requested = [
            (stream, name) for stream, (last, names, _) in pending.items() if last > uptos[stream] for name in names
        ]
        reads: list[Command] = [
            ("XPENDING", stream, group, str(uptos[stream].next()), "+", 1, name) for stream, name in requested
        ]
        for consumer, reply in zip(requested, self._connection.pipeline(reads), strict=True):
            if not checked(self._connection, consumer[0], reply, "XPENDING"):
                done.append(consumer)
        return done

    def _acknowledge_few(
        self, consumers: Sequence[tuple[str, bytes]], group: str, uptos: Mapping[str, StreamId]
    ) -> None:
        """Acknowledge these consumers' pending entries up to the IDs in `uptos`. Each consumer has at most one page."""
        requested: list[Command] = [
            ("XPENDING", stream, group, "-", str(uptos[stream]), _ACK_PAGE, name) for stream, name in consumers
        ]
        acks: list[Command] = []
        for (stream, _), reply in zip(consumers, self._connection.pipeline(requested), strict=True):
            ids = [row[0] for row in checked(self._connection, stream, reply, "XPENDING") or ()]
            acks += [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
        self._connection.commands(acks)

    def _acknowledge_many(self, stream: str, group: str, consumer: bytes, upto: StreamId) -> None:
        while True:
            (rows,) = self._connection.pipeline([("XPENDING", stream, group, "-", str(upto), _ACK_PAGE, consumer)])
            ids = [row[0] for row in checked(self._connection, stream, rows, "XPENDING") or ()]
            acks = [("XACK", stream, group, *ids[i : i + _ACK_IDS]) for i in range(0, len(ids), _ACK_IDS)]
            for reply in self._connection.pipeline(acks):
                checked(self._connection, stream, reply, "XACK")
            if len(ids) < _ACK_PAGE:
                return
