"""Moving and removing groups, and removing consumers.

A move has the new position, the number of entries before it, and the Spark query that is affected.

XGROUP SETID moves only the position: pending entries stay pending, and `>` does not deliver them again. If the command
includes the number of entries before the position (ENTRIESREAD, Redis 7), the server can still compute the group's lag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pystreams.streams import entries, inventory
from pystreams.streams.groups import agreed
from pystreams.streams.groups.group_states import Consumer, Group
from pystreams.streams.paged_calls import failure
from pystreams.values.times import Position
from streamclient.connection import Command, Connection
from streamclient.errors import PystreamsError, ResponseError
from streamwire.stream_id import ZERO, StreamId

_QUERY = re.compile(rb"(.+)-(?:query|until-[0-9]+-[0-9]+)")  # consumer of a query that owns the group or delivers to it
_SHARED = re.compile(rb"(.+)-[0-9]+-[0-9]+")  # consumer of a query that shares the group (consume=shared)


@dataclass(frozen=True)
class Move:
    """A group and its target position. `read`: number of entries ever added up to that position; None if unknown.

    `stopped_before`: the requested position if it is beyond the stream's end, so that the move stops at the end.
    """

    group: Group
    position: StreamId
    read: int | None
    stopped_before: StreamId | None = None

    def lag(self, connection: Connection) -> tuple[int | None, bool]:
        """Return the group's lag after the move, and whether it is exact."""
        return lags_after(connection, [self])[0]

    @property
    def warning(self) -> str:
        """Warning about an actual or requested position beyond the stream's end; otherwise empty."""
        end = self.group.stream.generated
        if self.stopped_before is not None:
            return f"{self.stopped_before} is beyond the stream's end. The group stops at {end}."
        if self.position > end:
            return f"{self.position} is beyond the stream's end. Entries with smaller IDs are never delivered."
        return ""


def lags_after(connection: Connection, moves: Sequence[Move]) -> list[tuple[int | None, bool]]:
    """Return the lag of each group after these moves, and whether it is exact.

    Unknown lags are counted within a budget, and otherwise estimated.
    """
    found: list[tuple[int | None, bool]] = [
        (None, False)
        if move.read is None or move.group.stream.added is None
        else (max(0, move.group.stream.added - move.read), True)
        for move in moves
    ]
    requested = [at for at, (_, exact) in enumerate(found) if not exact]
    counted = inventory.behind(connection, [(moves[at].group.stream, moves[at].position) for at in requested])
    for at, backlog in zip(requested, counted, strict=True):
        found[at] = (backlog.entries, backlog.is_exact)
    return found


def to_position(connection: Connection, group: Group, position: Position, now: int, *, beyond: bool = False) -> Move:
    """Return the move to a position. A number of entries is counted from the group's position.

    `beyond`: whether the position may be beyond the stream's end; otherwise the move stops at the end.
    """
    if position.kind != "entries":
        return to_id(group, entries.after_of(connection, group.stream, position, now), beyond=beyond)
    if position.entries >= 0:
        target, passed = entries.forward(connection, group.stream.name, group.position, position.entries)
    else:
        start = min(group.position, group.stream.generated)
        target, count = entries.back(connection, group.stream.name, start, -position.entries)
        passed = -count
    move = to_id(group, target)
    if move.read is None and group.read is not None and not group.stream.has_gaps:
        return Move(group, target, group.read + passed)
    return move


def to_id(group: Group, target: StreamId, *, beyond: bool = False) -> Move:
    """Return the move to an ID. Its `read` is None if the ID is between the first entry and the stream's end."""
    stream = group.stream
    stopped_before = target if target > stream.generated and not beyond else None
    if stopped_before is not None:
        target = stream.generated
    read: int | None = None
    if stream.added is not None:
        if target >= stream.generated:
            read = stream.added
        elif stream.first is None or target < stream.first:
            read = stream.added - stream.length
    return Move(group, target, read, stopped_before)


def carry_out(connection: Connection, moves: Sequence[Move]) -> list[PystreamsError]:
    """Move the groups that are still at their positions. Return an error for each of the others.

    ENTRIESREAD is omitted if `read` is unknown, which includes servers before Redis 7.
    """
    problems: list[PystreamsError] = []
    for move in moves:
        stream = move.group.stream.name
        command: Command = ("XGROUP", "SETID", stream, move.group.name, str(move.position))
        if move.read is not None:
            command = (*command, "ENTRIESREAD", move.read)
        try:
            agreed.carry_out(connection, stream, [agreed.of_position(move.group)], [command])
        except PystreamsError as failure:
            problems.append(failure)
    return problems


def remove(connection: Connection, group: Group) -> int:
    """Remove a group that has not changed. Return the number of its pending entries. Raises PLAN_OUTDATED."""
    command: Command = ("XGROUP", "DESTROY", group.stream.name, group.name)
    (now,), _ = agreed.carry_out(connection, group.stream.name, [agreed.of_group(group)], [command])
    return 0 if now is None else int(now[1])


def remove_consumers(connection: Connection, stream: bytes, group: bytes, consumers: Sequence[Consumer]) -> int:
    """Remove consumers that have not changed. Return the number of their pending entries. Raises PLAN_OUTDATED."""
    commands: list[Command] = [("XGROUP", "DELCONSUMER", stream, group, each.name) for each in consumers]
    _, dropped = agreed.carry_out(connection, stream, [agreed.of_consumers(stream, group, consumers)], commands)
    return sum(map(int, dropped))


def skipped(group: Group, after: int | None) -> int:
    """Return the number of undelivered entries that a move to the lag `after` skips."""
    return 0 if group.lag is None or after is None else max(0, group.lag - after)


def create(connection: Connection, stream: bytes, group: bytes, after: StreamId | None, *, make: bool) -> None:
    """Create a group positioned after the ID `after`, or after the last entry if `after` is None.

    `make`: whether to create a missing stream. Raises NO_SUCH_STREAM, GROUP_EXISTS and NOT_A_STREAM.
    """
    at = "$" if after is None else str(after)
    command: Command = ("XGROUP", "CREATE", stream, group, at, *(("MKSTREAM",) if make else ()))
    (reply,) = connection.pipeline([command])
    if isinstance(reply, ResponseError):
        raise failure(connection, command, reply)


def create_if_missing(connection: Connection, stream: bytes, group: bytes) -> None:
    """Create a group at the start of an existing stream, unless the group already exists."""
    try:
        create(connection, stream, group, ZERO, make=False)
    except PystreamsError as failure:
        if failure.condition != "GROUP_EXISTS":
            raise


def owner(group: Group) -> tuple[str, str] | None:
    """Return the consumer prefix and the mode ("range" or "shared") of the Spark query that uses the group, or None."""
    for consumer in group.consumers or ():
        for pattern, consume in ((_QUERY, "range"), (_SHARED, "shared")):
            found = pattern.fullmatch(consumer.name)
            if found is not None:
                return found[1].decode("utf-8", "backslashreplace"), consume
    return None


def consequence(move: Move) -> str:
    """Return the consequences of the move for the Spark query that uses the group; empty if there is no such query."""
    found = owner(move.group)
    if found is None:
        return ""
    prefix, consume = found
    if consume == "shared":
        return (
            f"A Spark query with consume=shared (consumers '{prefix}-...') shares this group. It continues from the "
            "new position with its next batch."
        )
    begin = f"A Spark query (consumer '{prefix}-query') owns this group, and its checkpoint decides what it reads. "
    restart = "To read from the new position, start it with a new checkpoint and startingOffsets=group."
    if move.position < move.group.position:
        return (
            f"{begin}Its next batch fails with GROUP_BEHIND, or with failOnDataLoss=false moves the group forward "
            f"again. {restart}"
        )
    return f"{begin}It still reads all entries, but skipped entries never become pending. {restart}"
