"""Changes of groups: moving, creating and removing them, and removing consumers.

A plan is made when it is shown, and is carried out after a confirmation, perhaps minutes later. It never selects again:

* entries are named by their IDs, or by an ID that all later entries exceed
* facts about a stream, a group or its consumers are a `Fact`, which `apply` compares with the server's

If a fact has changed, nothing is changed and PLAN_OUTDATED is raised; the caller makes and shows a new plan. The
commands are one transaction that watches the stream, so a comparison of its entries is atomic. Servers do not count a
delivery or an acknowledgement as a change of a watched stream. So facts about groups are compared one round trip before
the commands, and read again in the transaction, whose replies have the numbers that were true.

XGROUP SETID moves only the position: pending entries stay pending, and `>` does not deliver them again. If the command
includes the number of entries before the position (ENTRIESREAD, Redis 7), the server can still compute the group's lag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pystreams.errors import fail
from pystreams.streams import entries, inventory
from pystreams.streams.group_states import Consumer, Group
from pystreams.streams.inventory import Stream, parsed
from pystreams.streams.paged_calls import ask
from pystreams.values.names import shown
from pystreams.values.times import Position
from streamclient.connection import Command, Connection, change
from streamclient.errors import PystreamsError
from streamclient.reply_maps import pairs
from streamwire.stream_id import StreamId

#: ACL rules for `apply`, in addition to the commands of the change.
NEEDS = "+watch +unwatch +multi +exec"


@dataclass(frozen=True)
class Fact:
    """A fact about `what` that was shown: the reply to `read` must contain `value`, which `of` finds in it."""

    what: str
    read: Command
    value: Any
    of: Callable[[Any], Any] = field(compare=False)


def of_stream(stream: Stream) -> Fact:
    """The stream has these entries and this number of groups."""

    def found(reply: Any) -> Any:
        now = parsed(stream.name, reply)
        return now.length, now.first_id, now.last_id, now.groups

    value = (stream.length, stream.first_id, stream.last_id, stream.groups)
    return Fact(f"the stream '{shown(stream.name)}'", ("XINFO", "STREAM", stream.name), value, found)


def of_group(group: Group) -> Fact:
    """The group has this position and these numbers of pending entries and consumers."""
    return Fact(
        _name_of(group.stream.name, group.name),
        ("XINFO", "GROUPS", group.stream.name),
        (group.position, group.pending, group.consumer_count),
        lambda reply: _group(reply, group.name),
    )


def of_position(group: Group) -> Fact:
    """The group has this position."""
    return Fact(
        _name_of(group.stream.name, group.name),
        ("XINFO", "GROUPS", group.stream.name),
        group.position,
        lambda reply: None if (found := _group(reply, group.name)) is None else found[0],
    )


def of_consumers(stream: bytes, group: bytes, consumers: Sequence[Consumer]) -> Fact:
    """The group has these consumers, with these numbers of pending entries."""
    names = {each.name for each in consumers}

    def found(reply: Any) -> dict[bytes, int]:
        rows = map(pairs, reply)
        return {row[b"name"]: int(row[b"pending"]) for row in rows if row[b"name"] in names}

    value = {each.name: each.pending for each in consumers}
    return Fact(_name_of(stream, group), ("XINFO", "CONSUMERS", stream, group), value, found)


def _name_of(stream: bytes, group: bytes) -> str:
    return f"the group '{shown(group)}' of the stream '{shown(stream)}'"


def _group(reply: Any, name: bytes) -> tuple[StreamId, int, int] | None:
    for row in map(pairs, reply):
        if row[b"name"] == name:
            return StreamId.parse(row[b"last-delivered-id"]), int(row[b"pending"]), int(row[b"consumers"])
    return None


def apply(
    connection: Connection, stream: bytes, facts: Sequence[Fact], commands: Sequence[Command]
) -> tuple[list[Any], list[Any]]:
    """Execute commands on a stream if the facts hold. Return the facts' values at that moment, and the replies.

    Raises PLAN_OUTDATED.
    """
    reads = [fact.read for fact in facts]

    def decide(replies: list[Any]) -> list[Command]:
        for fact, reply in zip(facts, replies, strict=True):
            if fact.of(reply) != fact.value:
                fail("PLAN_OUTDATED", what=fact.what)
        return [*reads, *commands]

    try:
        found = change(connection, [stream], reads, decide)
    except PystreamsError as failure:
        gone = failure.condition == "SERVER_REFUSED" and "no such key" in failure.parameters["reason"]
        if gone or "NOGROUP" in failure.parameters.get("reason", ""):
            fail("PLAN_OUTDATED", what=facts[0].what)
        raise
    now = [fact.of(reply) for fact, reply in zip(facts, found, strict=False)]
    return now, found[len(reads) :]


_QUERY = re.compile(rb"(.+)-query")  # consumer that marks the group of a query
_SHARED = re.compile(rb"(.+)-[0-9]+-[0-9]+")  # consumer of a query that shares the group (consume=shared)


@dataclass(frozen=True)
class Move:
    """A group and its target position. `read`: number of entries ever added up to that position; None if unknown.

    `is_stopped`: whether the requested position is beyond the stream's end, so that the move stops at the end.
    """

    group: Group
    position: StreamId
    read: int | None
    is_stopped: bool = False

    @property
    def warning(self) -> str:
        """Warning about a requested position beyond the stream's end; otherwise empty."""
        if not self.is_stopped:
            return ""
        return f"The position is beyond the stream's end. The group stops at {self.position}."


def lags_after(connection: Connection, moves: Sequence[Move]) -> list[tuple[int | None, bool]]:
    """Return the lag of each group after these moves, and whether it is exact.

    Unknown lags are counted within a budget, and otherwise estimated.
    """
    found: list[tuple[int | None, bool]] = [
        (None, False)
        if move.read is None or move.group.stream.entries_added is None
        else (max(0, move.group.stream.entries_added - move.read), True)
        for move in moves
    ]
    requested = [at for at, (_, exact) in enumerate(found) if not exact]
    counted = inventory.behind(connection, [(moves[at].group.stream, moves[at].position) for at in requested])
    for at, backlog in zip(requested, counted, strict=True):
        found[at] = (backlog.entries, backlog.is_exact)
    return found


def to_position(connection: Connection, group: Group, position: Position, now: int) -> Move:
    """Return the move to a position. A number of entries is counted from the group's position."""
    if position.kind != "entries":
        return to_id(group, entries.after_of(connection, group.stream, position, now))
    if position.entries >= 0:
        target, passed = entries.forward(connection, group.stream.name, group.position, position.entries)
    else:
        start = min(group.position, group.stream.last_id)
        target, count = entries.back(connection, group.stream.name, start, -position.entries)
        passed = -count
    move = to_id(group, target)
    if move.read is None and group.read is not None and not group.stream.has_gaps:
        return Move(group, target, group.read + passed)
    return move


def to_id(group: Group, target: StreamId) -> Move:
    """Return the move to an ID, or to the stream's end if the ID is beyond it.

    Its `read` is None if the ID is between the first entry and the stream's end.
    """
    stream = group.stream
    is_stopped = target > stream.last_id
    target = min(target, stream.last_id)
    read: int | None = None
    if stream.entries_added is not None:
        if target >= stream.last_id:
            read = stream.entries_added
        elif stream.first_id is None or target < stream.first_id:
            read = stream.entries_added - stream.length
    return Move(group, target, read, is_stopped)


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
            apply(connection, stream, [of_position(move.group)], [command])
        except PystreamsError as failure:
            problems.append(failure)
    return problems


def remove(connection: Connection, group: Group) -> int:
    """Remove a group that has not changed. Return the number of its pending entries. Raises PLAN_OUTDATED."""
    command: Command = ("XGROUP", "DESTROY", group.stream.name, group.name)
    (now,), _ = apply(connection, group.stream.name, [of_group(group)], [command])
    return 0 if now is None else int(now[1])


def remove_consumers(connection: Connection, stream: bytes, group: bytes, consumers: Sequence[Consumer]) -> int:
    """Remove consumers that have not changed. Return the number of their pending entries. Raises PLAN_OUTDATED."""
    commands: list[Command] = [("XGROUP", "DELCONSUMER", stream, group, each.name) for each in consumers]
    _, dropped = apply(connection, stream, [of_consumers(stream, group, consumers)], commands)
    return sum(map(int, dropped))


def skipped(group: Group, after: int | None) -> int:
    """Return the number of undelivered entries that a move to the lag `after` skips."""
    return 0 if group.lag is None or after is None else max(0, group.lag - after)


def create(connection: Connection, stream: bytes, group: bytes, after: StreamId | None) -> None:
    """Create a group positioned after the ID `after`, or after the last entry if `after` is None.

    Raises NO_SUCH_STREAM, GROUP_EXISTS and NOT_A_STREAM.
    """
    ask(connection, "XGROUP", "CREATE", stream, group, "$" if after is None else str(after))


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
