"""A server of streams, divided into parts: states, entries, groups, deliveries, keys and leases.

`open_server` returns the parts. On the engine, states, entries and deliveries use its own commands (PS.*), which work
on ranges without sending entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamclient.commands import EXTENSIONS
from streamclient.connection import Command, Connection, Link
from streamclient.errors import ResponseError, fail
from streamclient.refusals import RefusedForNowError, is_transient
from streamclient.streams.counting import Entries, Nth
from streamclient.streams.delivery import Batch, Delivery
from streamclient.streams.groups import Groups, pending_of
from streamclient.streams.page_size import ALL
from streamclient.streams.states import Cut, GroupState, Range, States, StreamState, checked, group_state, last_id_of
from streamwire.slots import same_slot_tag, slot_of
from streamwire.stream_id import StreamId


class Leases:
    """The leases of queries: keys in the slots of streams, which expire unless the query renews them.

    A lease has a name, and the holder's token as its value.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def acquire(
        self, streams: Sequence[str], name: str, holder: str, milliseconds: int, forced: Sequence[str]
    ) -> dict[str, str | None]:
        """Acquire or renew the holder's lease of that name next to each stream, and return each lease's current holder.

        In the streams `forced`, take the lease even if another holder has it. Raises SERVER_REFUSED.
        """
        keys = [_lease_key(stream, name) for stream in streams]
        commands: list[Command] = []
        for stream, key in zip(streams, keys, strict=True):
            condition = () if stream in forced else ("NX",)
            commands += [("SET", key, holder, *condition, "PX", milliseconds), ("GET", key)]
        replies = self._connection.pipeline(commands, final="OOM")  # a query does not wait for its lease
        for at, stream in enumerate(streams):
            # A server that is out of memory refuses SET, but still reports the holder of the lease and extends it.
            owner = replies[2 * at + 1]
            if isinstance(owner, bytes) and (stream not in forced or owner == holder.encode()):
                replies[2 * at] = replies[2 * at] == b"OK"
        self._connection.check(commands, replies)
        owner_names = [None if owner is None else owner.decode() for owner in replies[1::2]]
        owners = dict(zip(streams, owner_names, strict=True))
        # PEXPIRE, not SET: if the lease has expired in between, another holder may have acquired it, and must keep it.
        old = zip(keys, owner_names, replies[::2], strict=True)
        ours = [key for key, owner, is_new in old if owner == holder and not is_new]
        if ours:
            self._connection.commands([("PEXPIRE", key, milliseconds) for key in ours])
        return owners

    def held(self, streams: Sequence[str], name: str) -> set[str]:
        """Return the streams that have a lease of that name, of any holder."""
        owners = self._connection.commands([("GET", _lease_key(stream, name)) for stream in streams])
        return {stream for stream, owner in zip(streams, owners, strict=True) if owner is not None}

    def release(self, streams: Sequence[str], name: str, holder: str) -> None:
        """Delete the holder's leases of that name."""
        keys = [_lease_key(stream, name) for stream in streams]
        owners = self._connection.commands([("GET", key) for key in keys])
        ours = [key for key, owner in zip(keys, owners, strict=True) if owner == holder.encode()]
        if ours:
            self._connection.commands([("DEL", key) for key in ours])


def _lease_key(stream: str, name: str) -> bytes:
    """Return the key of the lease of that name, in the stream's slot."""
    tag = same_slot_tag(stream.encode())
    return b"pystreams:{" + tag + b"}:lease:" + f"{len(stream)}:{stream}:{name}".encode()


_SCAN_PAGE = 10_000  # COUNT of a SCAN


class StreamKeys:
    """Streams as keys, with the commands of any Redis."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, pattern: str) -> list[str]:
        """Return the names of the streams matching a glob, sorted.

        Raises STREAM_NAME_NOT_TEXT if one of them is not UTF-8.
        """
        found = set[bytes]().union(*self._connection.on_each_master(lambda link: self._scanned(link, pattern)))
        for name in found:
            try:
                name.decode()
            except UnicodeDecodeError:
                fail("STREAM_NAME_NOT_TEXT", pattern=pattern, stream=repr(name)[2:-1])
        return sorted(name.decode() for name in found)

    def changed(self, streams: Mapping[str, StreamState | None], group: str | None, wait: int) -> set[str] | None:
        """Return the streams to which entries were added, or from which entries were removed, since they had these
        states. With a group, also return the streams in which the group's state has changed.

        Waits up to `wait` milliseconds for an entry, unless the streams are in different slots of a cluster. Returns
        None if the server rejects the commands. A stream that was recreated with as many entries and no larger ID is
        not noticed, so callers must also read the states from time to time.
        """
        known = self._connection.capabilities
        if not known.finds_changes:
            return None
        if not streams:
            return set()
        names = list(streams)
        commands: list[Command] = [("XLEN", stream) for stream in names]
        if group is not None:
            commands += [("XINFO", "GROUPS", stream) for stream in names]
        state_count = len(commands)
        after = {stream: str(last_id_of(state)) for stream, state in streams.items()}
        if self._connection.topology.is_cluster and len({slot_of(stream.encode()) for stream in names}) > 1:
            commands += [("XREAD", "COUNT", 1, "STREAMS", stream, last) for stream, last in after.items()]
        else:
            blocks: Command = ("BLOCK", wait) if wait else ()
            commands.append(("XREAD", "COUNT", 1, *blocks, "STREAMS", *after, *after.values()))
        replies = self._connection.pipeline(commands)
        refusals = [str(reply) for reply in replies if isinstance(reply, ResponseError)]
        missing = [refusal for refusal in refusals if "no such key" in refusal]
        if len(missing) < len(refusals):
            known.finds_changes = not any(refusal.startswith(("NOPERM", "ERR unknown")) for refusal in refusals)
            return None
        found = {stream.decode() for news in replies[state_count:] for stream, _ in news or ()}
        groups = replies[len(names) : state_count] or [None] * len(names)
        for (stream, state), length, reply in zip(streams.items(), replies, groups, strict=False):
            position = None if isinstance(reply, ResponseError) else group_state(reply, group)
            if (length, position) != ((0, None) if state is None else (state.length, state.group if group else None)):
                found.add(stream)
        return found

    def missing(self, entries: Mapping[str, StreamId]) -> set[str]:
        """Return the streams that do not have the entry with the ID given for them."""
        replies = self._connection.pipeline([("XRANGE", stream, str(at), str(at)) for stream, at in entries.items()])
        found = zip(entries, replies, strict=True)
        return {stream for stream, reply in found if not checked(self._connection, stream, reply, "XRANGE")}

    def trim_before(self, befores: Mapping[str, StreamId]) -> None:
        """Remove the entries with smaller IDs than these from the streams."""
        self._connection.commands([("XTRIM", stream, "MINID", "=", str(at)) for stream, at in befores.items()])

    def _scanned(self, link: Link, pattern: str) -> set[bytes]:
        found: set[bytes] = set()
        cursor: bytes | int = 0
        while True:
            scan: Command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_PAGE, "TYPE", "stream")
            (reply,) = link.pipeline([scan])
            cursor, names = checked(self._connection, pattern, reply, "SCAN")
            found.update(names)
            if int(cursor) == 0:
                return found


class EngineStates(States):
    """States by PS.STATE, which reads a stream and its group at the same moment."""

    def of(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        named: Command = () if group is None else (group,)
        replies = self._connection.pipeline([("PS.STATE", stream, *named) for stream in streams])
        replied = zip(streams, replies, strict=True)
        return {stream: _state(checked(self._connection, stream, reply, "PS.STATE")) for stream, reply in replied}

    def requests(self, streams: Sequence[str], group: str) -> list[Command]:
        return [("PS.STATE", stream, group) for stream in streams]

    def parsed(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        del group  # PS.STATE replied only with this group
        for reply in replies:
            if is_transient(reply):
                raise RefusedForNowError(str(reply))
        replied = zip(streams, replies, strict=True)
        return {stream: _state(checked(self._connection, stream, reply, "PS.STATE")) for stream, reply in replied}

    def consistent(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        return self.of(streams, group)  # PS.STATE reads the stream and its group at the same moment


class EngineEntries(Entries):
    """Numbers and positions by PS.NTH and PS.SPLIT."""

    counts_cheaply = True

    def nths(self, requested: Sequence[Nth]) -> list[tuple[StreamId, int]]:
        found: list[tuple[StreamId, int]] = []
        beyond: list[int] = []
        replies = self._connection.commands(
            [("PS.NTH", stream, str(after), count) for stream, after, count, _ in requested]
        )
        for (_, _, count, upto), (entry_id, number) in zip(requested, replies, strict=True):
            at = None if entry_id is None else StreamId.parse(entry_id)
            if at is not None and at > upto:
                beyond.append(len(found))
            found.append((at if at is not None and int(number) == count else upto, int(number)))
        counts = self.counts([(stream, after, upto) for stream, after, _, upto in (requested[at] for at in beyond)])
        for index, number in zip(beyond, counts, strict=True):
            found[index] = requested[index][3], number
        return found

    def counts(self, requested: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        ends = [(stream, at) for stream, *both in requested for at in both]
        replies = self._connection.pipeline([("PS.NTH", stream, str(at), ALL) for stream, at in ends])
        replied = zip(ends, replies, strict=True)
        numbers = [int(checked(self._connection, stream, reply, "PS.NTH")[1]) for (stream, _), reply in replied]
        return [behind - beyond for behind, beyond in zip(numbers[::2], numbers[1::2], strict=True)]

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None) -> list[list[Cut]]:
        if most is not None:
            counts = self.counts([(whole.stream, whole.after, whole.upto) for whole, _ in wholes])
            counted = zip(wholes, counts, strict=True)
            wholes = [(whole, max(parts, -(-count // most))) for (whole, parts), count in counted]
        replies = self._connection.commands(
            [("PS.SPLIT", whole.stream, str(whole.after), str(whole.upto), parts) for whole, parts in wholes]
        )
        return [
            [(StreamId.parse(upto), int(count)) for upto, count in reply] or [(whole.upto, 0)]
            for (whole, _), reply in zip(wholes, replies, strict=True)
        ]


class EngineDelivery(Delivery):
    """Delivery by PS.DELIVER, acknowledgement by PS.ACKRANGE."""

    def deliver(self, batches: Sequence[Batch], group: str, prefix: str) -> None:
        left = [part for part, position in batches if part.upto > position]
        commands: list[Command] = [
            ("PS.DELIVER", part.stream, group, f"{prefix}-0", str(part.after), str(part.upto)) for part in left
        ]
        for part, reply in zip(left, self._connection.pipeline(commands), strict=True):
            checked(self._connection, part.stream, reply, "PS.DELIVER")

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        ours: list[str] = []
        shared: dict[str, StreamId] = {}
        for stream, (_, counts, others) in pending_of(self._connection, list(uptos), group, prefix).items():
            if others:
                # PS.ACKRANGE acknowledges for every consumer, and some entries in the range are not this query's.
                shared[stream] = uptos[stream]
            elif counts:
                ours.append(stream)
        acks: list[Command] = [("PS.ACKRANGE", stream, group, "0-0", str(uptos[stream])) for stream in ours]
        for stream, reply in zip(ours, self._connection.pipeline(acks), strict=True):
            checked(self._connection, stream, reply, "PS.ACKRANGE")
        if shared:
            super().acknowledge(shared, group, prefix)


def _state(reply: Any) -> StreamState | None:
    if reply is None:
        return None
    last, length, first, added, deleted, group = reply
    position = None
    if group is not None:
        delivered, lag, pending, read = group
        position = GroupState(StreamId.parse(delivered), lag, pending, read)
    first_id = None if first is None else StreamId.parse(first)
    return StreamState(StreamId.parse(last), length, first_id, position, added, StreamId.parse(deleted))


@dataclass(frozen=True)
class StreamServer:
    """The parts of a server that planners and readers use."""

    streams: StreamKeys
    states: States
    entries: Entries
    groups: Groups
    delivery: Delivery
    leases: Leases


def open_server(connection: Connection) -> StreamServer:
    """Return the server at the other end of the connection.

    The engine's commands are used if the server has all of them. COMMAND INFO checks this once per connection.
    """
    return extended_server(connection) if connection.capabilities.has(*EXTENSIONS) else plain_server(connection)


def plain_server(connection: Connection) -> StreamServer:
    """Return a server on which only the commands of any Redis are used."""
    groups, states = Groups(connection), States(connection)
    entries = Entries(connection, states)
    delivery = Delivery(connection, groups, states, entries)
    return StreamServer(StreamKeys(connection), states, entries, groups, delivery, Leases(connection))


def extended_server(connection: Connection) -> StreamServer:
    """Return a server that has all of `EXTENSIONS`."""
    groups, states = Groups(connection), EngineStates(connection)
    entries = EngineEntries(connection, states)
    delivery = EngineDelivery(connection, groups, states, entries)
    return StreamServer(StreamKeys(connection), states, entries, groups, delivery, Leases(connection))
