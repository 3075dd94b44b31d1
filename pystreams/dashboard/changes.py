"""Changes in two steps: the first request returns a plan with a number; a second request with this number makes the
change.

A change has two functions. `plan` queries the server and describes the change in a sentence; `act` makes the change
that the plan carries, and raises PLAN_OUTDATED if it no longer fits (`pystreams.streams.seeks`).
Changes of many entries are made in parts: if `more` in the reply is true, the second request must be repeated.
Each change is recorded in the audit log, whose pages have the newest first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pystreams.dashboard import pending as of_pending
from pystreams.dashboard.audit_log import RecordedChange, UnwritableError
from pystreams.dashboard.login import Planned
from pystreams.dashboard.requests import Asked
from pystreams.errors import fail
from pystreams.streams import dead_letters, entries, inventory, paged_calls, pending, seeks, trimming
from pystreams.streams import group_states as of_groups
from pystreams.streams.dead_letters import Letter
from pystreams.streams.pending import Pending
from pystreams.values import names, numbers, times
from streamclient.connection import Connection
from streamwire.stream_id import LAST, ZERO, StreamId

_SECONDS = 3.0  # time limit of one request, after which a long change stops and reports `more`
_MOST, _PAGE = 20_000, 1000  # maximum number of entries that a plan carries, and of a page of them

Row = TypeVar("Row")


@dataclass(frozen=True)
class Plan:
    """A planned change. `sentence`: the change as an imperative; `notes`: its consequences."""

    sentence: str
    notes: tuple[str, ...] = ()
    #: Values that the change affects: label, value before, value after.
    facts: tuple[tuple[str, str, str], ...] = ()
    #: Entries of the plan by ID, and facts that must still hold. The confirmed change uses only these.
    fixed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """The result of a change. `more`: whether another request must continue the change."""

    sentence: str
    count: int = 0
    more: bool = False


@dataclass(frozen=True)
class Change:
    """A kind of change: its two functions, and the names of the request parameters that belong to it."""

    plan: Callable[[Connection, Asked], Plan]
    act: Callable[[Connection, Asked], Done]
    parameters: tuple[str, ...] = field(default=())


# --- groups --------------------------------------------------------------------------------------------------------


def _move(connection: Connection, asked: Asked) -> seeks.Move:
    now = paged_calls.now_ms(connection)
    group = of_groups.need(connection, asked.key("stream"), asked.key("group"), now)
    return seeks.to_position(connection, group, times.position(asked.text("to"), "to", signs="+10, -10"), now)


def _plan_seek(connection: Connection, asked: Asked) -> Plan:
    move = _move(connection, asked)
    group = move.group
    lag, exact = move.lag(connection)
    notes = []
    if group.pending:
        notes.append(f"Pending entries stay pending: {group.pending:,}.")
    if skipped := seeks.skipped(group, lag):
        notes.append(f"This skips {numbers.things(skipped, 'undelivered entry')}.")
    notes += [text for text in (move.warning, seeks.consequence(move)) if text]
    return Plan(
        f"Move the group {names.shown(group.name)} of {names.shown(group.stream.name)} to {move.position}.",
        tuple(notes),
        (
            ("Position", str(group.position), str(move.position)),
            ("Lag", numbers.count(group.lag, exact=group.exact), numbers.count(lag, exact=exact)),
        ),
        {"move": move},
    )


def _seek(connection: Connection, asked: Asked) -> Done:
    move: seeks.Move = asked.given["move"]
    for problem in seeks.carry_out(connection, [move]):
        raise problem
    return Done(f"Moved the group {names.shown(move.group.name)} to {move.position}.", 1)


def _at(connection: Connection, asked: Asked) -> StreamId | None:
    position = times.position(asked.text("at", "end"), "at")
    found = inventory.need(connection, asked.key("stream"))
    if position.kind == "end":
        return None
    after = entries.after_of(connection, found, position, paged_calls.now_ms(connection))
    return min(after, found.last_id)


def _plan_create(connection: Connection, asked: Asked) -> Plan:
    after = _at(connection, asked)
    where = "its end" if after is None else "its start" if after == ZERO else str(after)
    return Plan(
        f"Create the group {names.shown(asked.key('group'))} of {names.shown(asked.key('stream'))} at {where}.",
        facts=(("Group", "none", f"at {where}"),),
        fixed={"after": after},
    )


def _create(connection: Connection, asked: Asked) -> Done:
    seeks.create(connection, asked.key("stream"), asked.key("group"), asked.given["after"], make=False)
    return Done(f"Created the group {names.shown(asked.key('group'))}.", 1)


def _plan_remove_group(connection: Connection, asked: Asked) -> Plan:
    group = of_groups.need(connection, asked.key("stream"), asked.key("group"), paged_calls.now_ms(connection))
    note = "A Spark query uses this group. The query would recreate the group, or fail with GROUP_LOST."
    return Plan(
        f"Remove the group {names.shown(group.name)} of {names.shown(group.stream.name)} with "
        f"{numbers.things(group.pending, 'pending entry')} and {numbers.things(group.consumer_count, 'consumer')}.",
        ("No entry is removed.", *([note] if seeks.owner(group) is not None else [])),
        (("Group", f"at {group.position}, {group.pending:,} pending", "removed"),),
        {"shown": group},
    )


def _remove_group(connection: Connection, asked: Asked) -> Done:
    dropped = seeks.remove(connection, asked.given["shown"])
    with_them = f" with {numbers.things(dropped, 'pending entry')}" if dropped else ""
    return Done(f"Removed the group {names.shown(asked.key('group'))}{with_them}.", 1)


def _plan_remove_consumer(connection: Connection, asked: Asked) -> Plan:
    stream, group, consumer = asked.key("stream"), asked.key("group"), asked.key("consumer")
    found = of_groups.need(connection, stream, group, paged_calls.now_ms(connection)).consumers or ()
    match = next((each for each in found if each.name == consumer), None)
    if match is None:
        fail("NO_SUCH_CONSUMER", stream=names.shown(stream), group=names.shown(group), consumer=names.shown(consumer))
    lost = "Its pending entries are then neither acknowledged nor delivered again: claim them first."
    return Plan(
        f"Remove the consumer {names.shown(consumer)} with {numbers.things(match.pending, 'pending entry')} from "
        f"{names.shown(group)}.",
        (lost,) if match.pending else (),
        (("Consumer", f"{match.pending:,} pending", "removed"),),
        {"shown": match},
    )


def _remove_consumer(connection: Connection, asked: Asked) -> Done:
    dropped = seeks.remove_consumers(connection, asked.key("stream"), asked.key("group"), [asked.given["shown"]])
    with_them = f" with {numbers.things(dropped, 'pending entry')}" if dropped else ""
    return Done(f"Removed the consumer {names.shown(asked.key('consumer'))}{with_them}.", 1)


# --- trimming ---------------------------------------------------------------------------------------------------------


def _limit(connection: Connection, asked: Asked) -> tuple[inventory.Stream, tuple[str, str | int], int, bool]:
    """Return the stream, the limit for XTRIM, the number of entries to be removed, and whether this number is exact."""
    found = inventory.need(connection, asked.key("stream"))
    by = asked.choice("by", ("acked", "maxlen", "older"), "acked")
    if by == "maxlen":
        most = asked.number("maxlen", found.length, 0, 2**53)
        return found, ("MAXLEN", most), max(0, found.length - most), True
    if by == "older":
        older = times.duration(asked.text("older"), "older")
        at: StreamId | None = StreamId(max(0, paged_calls.now_ms(connection) - older), 0)
    else:
        at = trimming.first_needed(connection, found.name)
    if at is None:
        fail("NO_GROUPS", stream=names.shown(found.name))
    return found, ("MINID", str(at)), *trimming.about_before(connection, found, at)


def _plan_trim(connection: Connection, asked: Asked) -> Plan:
    found, limit, count, exact = _limit(connection, asked)
    needed = trimming.first_needed(connection, found.name)
    notes = []
    if needed is not None and trimming.may_remove_needed(connection, found, limit, count, needed):
        notes.append(f"Groups still need entries from {needed} on: some of them would be removed.")
    return Plan(
        f"Remove {numbers.count(count, exact=exact)} of {numbers.things(found.length, 'entry')} from "
        f"{names.shown(found.name)} ({limit[0]} {limit[1]}).",
        tuple(notes),
        (("Length", f"{found.length:,}", numbers.count(found.length - count, exact=exact)),),
        {"trim": trimming.Trim(found, None if limit[0] == "MAXLEN" else StreamId.parse(str(limit[1])), count)},
    )


def _trim(connection: Connection, asked: Asked) -> Done:
    planned_trim: trimming.Trim = asked.given["trim"]
    if planned_trim.before is not None and asked.choice("by", ("acked", "maxlen", "older"), "acked") == "acked":
        planned_trim.before = trimming.still_unneeded(connection, planned_trim.stream.name, planned_trim.before)
    return _in_parts(trimming.trim(connection, planned_trim), lambda count: count, "Removed", "entry")


# --- pending entries --------------------------------------------------------------------------------------------------


def _in_parts(parts: Iterable[Any], act: Callable[[Any], int], past: str, noun: str) -> Done:
    """Process the parts until the time limit has passed. In the result, `more` is set if parts may be left."""
    end = time.monotonic() + _SECONDS
    done = 0
    for part in parts:
        done += act(part)
        if time.monotonic() > end:
            return Done(f"{past} {numbers.things(done, noun)} so far.", done, more=True)
    return Done(f"{past} {numbers.things(done, noun)}.", done)


def _first_of(pages: Iterable[Sequence[Row]]) -> tuple[list[Row], bool]:
    """Return the first items that a plan carries, and whether there are more."""
    found: list[Row] = []
    for page in pages:
        found += page
        if len(found) > _MOST:
            return found[:_MOST], True
    return found, False


def _each(shown: list[Row], act: Callable[[list[Row]], int], past: str, noun: str) -> Done:
    """Process the items that a plan carries, and remove them from it, until the time limit has passed."""
    end = time.monotonic() + _SECONDS
    done = 0
    while shown:
        page = shown[:_PAGE]
        done += act(page)
        del shown[: len(page)]
        if shown and time.monotonic() > end:
            return Done(f"{past} {numbers.things(done, noun)} so far.", done, more=True)
    return Done(f"{past} {numbers.things(done, noun)}.", done)


def _pending_pages(connection: Connection, asked: Asked) -> Iterable[list[Pending]]:
    which = of_pending.which(asked)
    if which.is_all and not asked.flag("all"):
        fail("INVALID_VALUE", name="entries", value="", expected="it must have IDs, a filter, or all")
    return pending.find(connection, asked.key("stream"), asked.key("group"), which)


def _plan_pending(word: str, note: str) -> Callable[[Connection, Asked], Plan]:
    def plan(connection: Connection, asked: Asked) -> Plan:
        stream, group = asked.key("stream"), asked.key("group")
        total = pending.total(connection, stream, group)
        shown, more = _first_of(_pending_pages(connection, asked))
        number = len(shown)
        every = of_pending.which(asked).is_all and number == total
        count = f"the first {number:,}" if more else f"all {number:,}" if every else f"{number:,}"
        to = f" for {names.shown(asked.key('to'))}" if word == "Claim" else ""
        of = f"the group {names.shown(group)} of {names.shown(stream)}"
        left = f"{total - number:,}" if word == "Acknowledge" else f"{total:,}"
        facts = (("Pending entries", f"{total:,}", left),)
        notes = (note, *(["The others need another change."] if more else []))
        sentence = f"{word} {count} of {numbers.things(total, 'pending entry')} of {of}{to}."
        return Plan(sentence, notes, facts, {"shown": shown})

    return plan


def _on_pending(
    past: str, act: Callable[[Connection, Asked, list[Pending]], int]
) -> Callable[[Connection, Asked], Done]:
    def done(connection: Connection, asked: Asked) -> Done:
        def unchanged(shown: list[Pending]) -> int:
            page = pending.unchanged(connection, asked.key("stream"), asked.key("group"), shown)
            return act(connection, asked, page) if page else 0

        return _each(asked.given["shown"], unchanged, past, "pending entry")

    return done


def _ack(connection: Connection, asked: Asked, page: list[Pending]) -> int:
    return pending.acknowledge(connection, asked.key("stream"), asked.key("group"), page)


def _claim(connection: Connection, asked: Asked, page: list[Pending]) -> int:
    to = asked.key("to")
    others = [entry for entry in page if entry.consumer != to]
    idle = of_pending.which(asked).idle_ms
    return pending.claim(connection, asked.key("stream"), asked.key("group"), others, to, idle) if others else 0


def _nack(connection: Connection, asked: Asked, page: list[Pending]) -> int:
    held = [entry for entry in page if entry.consumer]
    return pending.give_back(connection, asked.key("stream"), asked.key("group"), held, "fail") if held else 0


# --- dead letters -----------------------------------------------------------------------------------------------------


def _letters(connection: Connection, asked: Asked) -> Iterable[list[Letter]]:
    which = of_pending.which_letters(asked, paged_calls.now_ms(connection))
    if which.is_all and not asked.flag("all"):
        fail("INVALID_VALUE", name="letters", value="", expected="it must have IDs, a filter, or all")
    found = inventory.need(connection, asked.key("stream"))
    return dead_letters.find(connection, found.name, which, found.last_id)


def _plan_letters(word: str, note: str) -> Callable[[Connection, Asked], Plan]:
    def plan(connection: Connection, asked: Asked) -> Plan:
        ids, more = _first_of([letter.id for letter in page] for page in _letters(connection, asked))
        count = f"{'the first ' if more else ''}{numbers.things(len(ids), 'dead letter')}"
        to = asked.key_or_none("to")
        where = "" if word == "Remove" else " to the original streams" if to is None else f" to {names.shown(to)}"
        stream = asked.key("stream")
        length = inventory.need(connection, stream).length
        facts = (("Length", f"{length:,}", f"{length - len(ids):,}"),)
        notes = (note, *(["The others need another change."] if more else []))
        return Plan(f"{word} {count} of {names.shown(stream)}{where}.", notes, facts, {"shown": ids})

    return plan


def _existing(connection: Connection, asked: Asked, ids: list[bytes]) -> list[Letter]:
    """Return those of the letters of a plan that still exist."""
    which = dead_letters.Which(ids=tuple(ids))
    return [letter for page in dead_letters.find(connection, asked.key("stream"), which, LAST) for letter in page]


def _replay(connection: Connection, asked: Asked) -> Done:
    empty = 0

    def act(ids: list[bytes]) -> int:
        nonlocal empty
        page = _existing(connection, asked, ids)
        empty += dead_letters.without_fields(page)
        return len(dead_letters.put_back(connection, asked.key("stream"), page, asked.key_or_none("to"), keep=False))

    done = _each(asked.given["shown"], act, "Replayed", "dead letter")
    if not empty:
        return done
    return replace(done, sentence=f"{done.sentence} {dead_letters.left_alone(empty)}")


def _purge(connection: Connection, asked: Asked) -> Done:
    def act(ids: list[bytes]) -> int:
        page = _existing(connection, asked, ids)
        return dead_letters.remove(connection, asked.key("stream"), page) if page else 0

    return _each(asked.given["shown"], act, "Removed", "dead letter")


_STREAM, _GROUP = ("stream",), ("stream", "group")
_WHICH = (*_GROUP, "ids", "consumer", "idle", "deliveries", "all")
_LETTERS = (*_STREAM, "ids", "reason", "origin", "older", "all")

CHANGES: dict[str, Change] = {
    "seek": Change(_plan_seek, _seek, (*_GROUP, "to")),
    "create-group": Change(_plan_create, _create, (*_GROUP, "at")),
    "remove-group": Change(_plan_remove_group, _remove_group, _GROUP),
    "remove-consumer": Change(_plan_remove_consumer, _remove_consumer, (*_GROUP, "consumer")),
    "trim": Change(_plan_trim, _trim, (*_STREAM, "by", "maxlen", "older")),
    "ack": Change(
        _plan_pending("Acknowledge", "No consumer receives them again."),
        _on_pending("Acknowledged", _ack),
        _WHICH,
    ),
    "claim": Change(
        _plan_pending("Claim", "The consumer then reads them as its own pending entries."),
        _on_pending("Claimed", _claim),
        (*_WHICH, "to"),
    ),
    "nack": Change(
        _plan_pending("Give back", "The next claim by any consumer includes them."),
        _on_pending("Gave back", _nack),
        _WHICH,
    ),
    "replay": Change(
        _plan_letters("Replay", "The original entries are added again with new IDs, and the letters are removed."),
        _replay,
        (*_LETTERS, "to"),
    ),
    "purge": Change(_plan_letters("Remove", "They are removed permanently."), _purge, _LETTERS),
}


def change(action: str, asked: Asked) -> dict[str, Any]:
    """Return the plan of a change and its confirmation number, or carry out the plan if the request has this number."""
    kind = CHANGES.get(action)
    if kind is None:
        fail("INVALID_VALUE", name="action", value=action[:50], expected=f"it must be one of {', '.join(CHANGES)}")
    given = {name: value for name, value in asked.given.items() if name in kind.parameters}
    session, number, now = asked.access.session, asked.text("confirm"), time.monotonic()
    if not number:
        with asked.access.lend() as connection:
            plan = kind.plan(connection, replace(asked, given=given))
        facts = {
            "plan": plan.sentence,
            "before": {name: before for name, before, _ in plan.facts},
            "after": {name: after for name, _, after in plan.facts},
        }
        confirm = session.propose(action, given, plan.fixed, now, facts)
        return {
            "plan": plan.sentence,
            "notes": list(plan.notes),
            "facts": [list(fact) for fact in plan.facts],
            "confirm": confirm,
        }
    planned = session.confirmed(number, action, given, now)
    if planned is None:
        fail(
            "INVALID_VALUE",
            name="confirm",
            value="...",
            expected="it must be the number of a plan of this change that is at most ten minutes old",
        )
    record = _record_start(asked, action, planned)
    try:
        with asked.access.lend() as connection:
            done = kind.act(connection, replace(asked, given=planned.parameters))
    except BaseException as failure:
        _record_result(asked, planned, {**record, "event": "failed", "result": str(failure)})
        raise
    _record_result(
        asked, planned, {**record, "event": "done", "result": done.sentence, "count": done.count, "more": done.more}
    )
    if not done.more:
        session.carried_out(number)
    asked.sampler.hurry()
    return {"done": done.sentence, "count": done.count, "more": done.more}


def _record_start(asked: Asked, action: str, planned: Planned) -> dict[str, Any]:
    """Record the start of a change unless it is already recorded, and return the attributes of its records.

    Raises AUDIT_UNWRITABLE if the record cannot be written: then the change is not made.
    """
    named = {name: names.shown(key) for name in ("stream", "group", "consumer") if (key := asked.key_or_none(name))}
    record = {
        "server": asked.server,
        "user": asked.access.session.user,
        "from": asked.origin,
        "action": action,
        **named,
        "key": asked.text("stream"),
        **planned.facts,
    }
    if asked.audit is not None and not planned.record:
        try:
            planned.record = asked.audit.record_start(record)
        except UnwritableError as cause:
            fail("AUDIT_UNWRITABLE", file=asked.audit.path, reason=cause)
    return record


def _record_result(asked: Asked, planned: Planned, record: Mapping[str, Any]) -> None:
    if asked.audit is not None:
        asked.audit.record_result(planned.record, record)


_LONGEST_OFFSET = 2**53
_SHOWN = ("time", "id", "event", "user", "from", "action", "stream", "key", "group", "consumer", "plan", "result")
_MOST_CHARACTERS = 2_000


def audit_page(asked: Asked) -> dict[str, Any]:
    """Return a page of the changes of this server. `next` is the offset of the next page.

    A session that may see only some streams gets only changes of these streams. `rows` is None if there is no log.
    """
    if asked.audit is None:
        return {"rows": None, "next": None, "file": None}
    before = asked.number("at", 0, 0, _LONGEST_OFFSET) or None
    search = asked.text("search")[:200].lower()

    def wanted(changes: list[RecordedChange]) -> list[RecordedChange]:
        found = [each for each in changes if each.records[0].get("server") == asked.server and _has(each, search)]
        seen = asked.access.visible([_stream(each) for each in found])
        return [each for each in found if _stream(each) in seen]

    found, following = asked.audit.page(before, asked.number("size", 50, 1, 200), wanted)
    return {
        "rows": [_row(change) for change in found],
        "next": following,
        "file": str(asked.audit.path) if asked.access.session.whole else None,
    }


def _has(change: RecordedChange, search: str) -> bool:
    return any(search in " ".join(map(str, record.values())).lower() for record in change.records)


def _stream(change: RecordedChange) -> bytes:
    return unquote_to_bytes(str(change.records[0].get("key", "")))


def _row(change: RecordedChange) -> dict[str, Any]:
    """Return the row of a change: its last state, the time of its start, and the results of its requests by line."""
    results = "\n".join(str(each["result"]) for each in change.records if each.get("result"))
    record = {**change.records[-1], **change.records[0], "time": change.records[-1].get("time"), "result": results}
    texts = {name: str(record.get(name) or "")[:_MOST_CHARACTERS] for name in _SHOWN}
    before, after = (_pairs(record.get(name)) for name in ("before", "after"))
    changes = [[name, before.get(name, ""), after.get(name, "")] for name in dict.fromkeys((*before, *after))]
    return {**texts, "changes": changes, "more": record.get("more") is True}


def _pairs(value: Any) -> dict[str, str]:
    return {str(name)[:200]: str(text)[:200] for name, text in value.items()} if isinstance(value, dict) else {}
