"""Agreed changes: commands that are carried out only if the facts that were shown to the user still hold.

A plan is made when it is shown, and is carried out after a confirmation, perhaps minutes later. It never selects again:

* entries are named by their IDs, or by an ID that all later entries exceed
* facts about a stream, a group or its consumers are a `Fact`, which `carry_out` compares with the server's

If a fact has changed, nothing is changed and PLAN_OUTDATED is raised; the caller makes and shows a new plan. The
commands are one transaction that watches the stream, so a comparison of its entries is atomic. Servers do not count a
delivery or an acknowledgement as a change of a watched stream. So facts about groups are compared one round trip before
the commands, and read again in the transaction, whose replies have the numbers that were true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pystreams.errors import fail
from pystreams.streams.groups.group_states import Consumer, Group
from pystreams.streams.inventory import Stream, parsed
from pystreams.values.names import shown
from streamclient.compare_and_set import change
from streamclient.connection import Command, Connection
from streamclient.errors import PystreamsError
from streamclient.reply_maps import pairs
from streamwire.stream_id import StreamId

#: ACL rules for `carry_out`, in addition to the commands of the change.
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
        return now.length, now.first, now.generated, now.groups

    value = (stream.length, stream.first, stream.generated, stream.groups)
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


def carry_out(
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
