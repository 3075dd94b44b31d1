"""Changes in two steps: the first request returns a plan with a number; a second request with this number makes the
change.

A kind of change is a function that queries the server and returns a `Plan`: a sentence, consequences, and `act`, which
changes exactly the entries, groups and consumers that the plan was made of, or raises PLAN_OUTDATED if they no longer
fit (`pystreams.streams.seeks`). Changes of many entries are made in parts: if `more` in the reply is true, the second
request must be repeated. Each change is recorded in the audit log, whose pages have the newest first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pystreams.dashboard import streams as of_pending
from pystreams.dashboard.audit_log import UnwritableError
from pystreams.dashboard.login import Proposed
from pystreams.dashboard.requests import Asked, visible_page
from pystreams.errors import fail
from pystreams.streams import dead_letters, inventory, paged_calls, pending, seeks
from pystreams.streams import group_states as of_groups
from pystreams.streams.pending import Pending
from pystreams.values import names, numbers, times
from streamclient.connection import Connection
from streamwire.stream_id import LAST

_SECONDS = 3.0  # time limit of one request, after which a long change stops and reports `more`
_MOST, _PAGE = 20_000, 1000  # maximum number of entries that a plan carries, and of a page of them

Row = TypeVar("Row")


@dataclass(frozen=True)
class Done:
    """The result of a request. `more`: whether another request must continue the change."""

    sentence: str
    count: int = 0
    more: bool = False


Act = Callable[[Connection], Done]


@dataclass(frozen=True)
class Plan:
    """A planned change. `sentence`: the change as an imperative; `act`: makes it; `notes`: its consequences."""

    sentence: str
    act: Act
    notes: Sequence[str] = ()
    #: Values that the change affects: label, value before, value after.
    facts: tuple[tuple[str, str, str], ...] = ()


Planner = Callable[[Connection, Asked], Plan]


# --- groups --------------------------------------------------------------------------------------------------------


def _seek(connection: Connection, asked: Asked) -> Plan:
    now = paged_calls.now_ms(connection)
    group = of_groups.need(connection, asked.key("stream"), asked.key("group"), now)
    position = times.position(asked.text("to"), "to", signs="+10, -10")
    move = seeks.to_position(connection, group, position, now)
    ((lag, exact),) = seeks.lags_after(connection, [move])
    notes = []
    if group.pending:
        notes.append(f"Pending entries stay pending: {group.pending:,}.")
    if skipped := seeks.skipped(group, lag):
        notes.append(f"This skips {numbers.things(skipped, 'undelivered entry')}.")
    notes += [text for text in (move.warning, seeks.consequence(move)) if text]

    def act(connection: Connection) -> Done:
        for problem in seeks.carry_out(connection, [move]):
            raise problem
        return Done(f"Moved the group {names.shown(group.name)} to {move.position}.", 1)

    return Plan(
        f"Move the group {names.shown(group.name)} of {names.shown(group.stream.name)} to {move.position}.",
        act,
        notes,
        (
            ("Position", str(group.position), str(move.position)),
            ("Lag", numbers.count(group.lag, exact=group.exact), numbers.count(lag, exact=exact)),
        ),
    )


def _with_pending(dropped: int) -> str:
    return f" with {numbers.things(dropped, 'pending entry')}" if dropped else ""


def _remove_group(connection: Connection, asked: Asked) -> Plan:
    group = of_groups.need(connection, asked.key("stream"), asked.key("group"), paged_calls.now_ms(connection))
    notes = ["No entry is removed."]
    if seeks.owner(group) is not None:
        notes.append("A Spark query uses this group. The query would recreate the group, or fail with GROUP_LOST.")

    def act(connection: Connection) -> Done:
        dropped = seeks.remove(connection, group)
        return Done(f"Removed the group {names.shown(group.name)}{_with_pending(dropped)}.", 1)

    return Plan(
        f"Remove the group {names.shown(group.name)} of {names.shown(group.stream.name)} with "
        f"{numbers.things(group.pending, 'pending entry')} and {numbers.things(group.consumer_count, 'consumer')}.",
        act,
        notes,
        (("Group", f"at {group.position}, {group.pending:,} pending", "removed"),),
    )


def _remove_consumer(connection: Connection, asked: Asked) -> Plan:
    stream, group, consumer = asked.key("stream"), asked.key("group"), asked.key("consumer")
    found = of_groups.need(connection, stream, group, paged_calls.now_ms(connection)).consumers or ()
    match = next((each for each in found if each.name == consumer), None)
    if match is None:
        fail("NO_SUCH_CONSUMER", stream=names.shown(stream), group=names.shown(group), consumer=names.shown(consumer))
    lost = "Its pending entries are then neither acknowledged nor delivered again: claim them first."

    def act(connection: Connection) -> Done:
        dropped = seeks.remove_consumers(connection, stream, group, [match])
        return Done(f"Removed the consumer {names.shown(consumer)}{_with_pending(dropped)}.", 1)

    return Plan(
        f"Remove the consumer {names.shown(consumer)} with {numbers.things(match.pending, 'pending entry')} from "
        f"{names.shown(group)}.",
        act,
        [lost] if match.pending else [],
        (("Consumer", f"{match.pending:,} pending", "removed"),),
    )


# --- pending entries and dead letters ---------------------------------------------------------------------------------


def _each(rows: list[Row], change: Callable[[Connection, list[Row]], int], past: str, noun: str) -> Act:
    """Return the act of a change of rows, page by page. Rows that are done are removed from the list.

    The act stops after the time limit, and goes on with the next request. `past`: the verb's past participle.
    """
    total = 0

    def act(connection: Connection) -> Done:
        nonlocal total
        end, before = time.monotonic() + _SECONDS, total
        while rows:
            page = rows[:_PAGE]
            total += change(connection, page)
            del rows[: len(page)]
            if rows and time.monotonic() > end:
                return Done(f"{past} {numbers.things(total, noun)} so far.", total - before, more=True)
        return Done(f"{past} {numbers.things(total, noun)}.", total - before)

    return act


def _first_of(pages: Iterable[Sequence[Row]]) -> tuple[list[Row], bool]:
    """Return the first rows that a plan carries, and whether there are more."""
    found: list[Row] = []
    for page in pages:
        found += page
        if len(found) > _MOST:
            return found[:_MOST], True
    return found, False


_MORE = "The others need another change."


#: Changes pending entries of a stream and group, and returns their number.
OnPending = Callable[[Connection, bytes, bytes, list[Pending]], int]


def _pending(
    connection: Connection, asked: Asked, words: tuple[str, str], note: str, change: OnPending, to: bytes | None = None
) -> Plan:
    """Return the plan of a change of the selected entries that are still pending when the change is made.

    `words`: the verb and its past participle. `to`: the consumer that claims the entries, if it is a claim.
    """
    stream, group, which = asked.key("stream"), asked.key("group"), of_pending.which(asked)
    if which.is_all and not asked.flag("all"):
        fail("INVALID_VALUE", name="entries", value="", expected="it must have IDs, a filter, or all")
    total = pending.total(connection, stream, group)
    rows, more = _first_of(pending.find(connection, stream, group, which))
    number = len(rows)
    notes = [note]
    if to is not None:
        gone = sum(pending.removed(connection, stream, group, page) for page in paged_calls.pages(rows, _PAGE))
        if gone:
            notes.append(f"No longer in the stream, and dropped by the claim: {gone:,}.")
    if more:
        notes.append(_MORE)

    def act(connection: Connection, page: list[Pending]) -> int:
        same = pending.unchanged(connection, stream, group, page)
        return change(connection, stream, group, same) if same else 0

    every = which.is_all and number == total
    count = f"the first {number:,}" if more else f"all {number:,}" if every else f"{number:,}"
    receiver = "" if to is None else f" for {names.shown(to)}"
    left = total - number if change is pending.acknowledge else total
    return Plan(
        f"{words[0]} {count} of {numbers.things(total, 'pending entry')} of the group {names.shown(group)} of "
        f"{names.shown(stream)}{receiver}.",
        _each(rows, act, words[1], "pending entry"),
        notes,
        (("Pending entries", f"{total:,}", f"{left:,}"),),
    )


def _ack(connection: Connection, asked: Asked) -> Plan:
    note = "No consumer receives them again."
    return _pending(connection, asked, ("Acknowledge", "Acknowledged"), note, pending.acknowledge)


def _claim(connection: Connection, asked: Asked) -> Plan:
    to, idle_ms = asked.key("to"), of_pending.which(asked).idle_ms

    def change(connection: Connection, stream: bytes, group: bytes, page: list[Pending]) -> int:
        others = [entry for entry in page if entry.consumer != to]
        return pending.claim(connection, stream, group, others, to, idle_ms) if others else 0

    note = "The consumer then reads them as its own pending entries."
    return _pending(connection, asked, ("Claim", "Claimed"), note, change, to)


def _nack(connection: Connection, asked: Asked) -> Plan:
    def change(connection: Connection, stream: bytes, group: bytes, page: list[Pending]) -> int:
        held = [entry for entry in page if entry.consumer]
        return pending.give_back(connection, stream, group, held) if held else 0

    note = "The next claim by any consumer includes them."
    return _pending(connection, asked, ("Give back", "Gave back"), note, change)


def _letters(
    connection: Connection,
    asked: Asked,
    words: tuple[str, str],
    where: str,
    note: str,
    change: Callable[[Connection, list[dead_letters.Letter]], int],
) -> Plan:
    """Return the plan of a change of the selected letters that still exist when the change is made."""
    which = of_pending.which_letters(asked, paged_calls.now_ms(connection))
    if which.is_all and not asked.flag("all"):
        fail("INVALID_VALUE", name="letters", value="", expected="it must have IDs, a filter, or all")
    found = inventory.need(connection, asked.key("stream"))
    pages = dead_letters.find(connection, found.name, which, found.last_id)
    ids, more = _first_of([letter.id for letter in page] for page in pages)

    def act(connection: Connection, ids: list[bytes]) -> int:
        shown = dead_letters.Which(ids=tuple(ids))
        page = [letter for page in dead_letters.find(connection, found.name, shown, LAST) for letter in page]
        return change(connection, page) if page else 0

    return Plan(
        f"{words[0]} {'the first ' if more else ''}{numbers.things(len(ids), 'dead letter')} of "
        f"{names.shown(found.name)}{where}.",
        _each(ids, act, words[1], "dead letter"),
        [note, *([_MORE] if more else [])],
        (("Length", f"{found.length:,}", f"{found.length - len(ids):,}"),),
    )


def _replay(connection: Connection, asked: Asked) -> Plan:
    stream, to = asked.key("stream"), asked.key_or_none("to")
    empty = 0

    def change(connection: Connection, page: list[dead_letters.Letter]) -> int:
        nonlocal empty
        empty += dead_letters.without_fields(page)
        return dead_letters.put_back(connection, stream, page, to)

    note = "The original entries are added again with new IDs, and the letters are removed."
    where = " to the original streams" if to is None else f" to {names.shown(to)}"
    plan = _letters(connection, asked, ("Replay", "Replayed"), where, note, change)

    def act(connection: Connection) -> Done:
        done = plan.act(connection)
        return replace(done, sentence=f"{done.sentence} {dead_letters.left_alone(empty)}") if empty else done

    return replace(plan, act=act)


def _purge(connection: Connection, asked: Asked) -> Plan:
    stream = asked.key("stream")

    def change(connection: Connection, page: list[dead_letters.Letter]) -> int:
        return dead_letters.remove(connection, stream, page)

    return _letters(connection, asked, ("Remove", "Removed"), "", "They are removed permanently.", change)


_STREAM, _GROUP = ("stream",), ("stream", "group")
_WHICH = (*_GROUP, "ids", "consumer", "idle", "deliveries", "all")
_LETTERS = (*_STREAM, "ids", "reason", "origin", "older", "all")

#: The kinds of changes: the function that plans each, and the names of the request parameters that belong to it.
CHANGES: dict[str, tuple[Planner, tuple[str, ...]]] = {
    "seek": (_seek, (*_GROUP, "to")),
    "remove-group": (_remove_group, _GROUP),
    "remove-consumer": (_remove_consumer, (*_GROUP, "consumer")),
    "ack": (_ack, _WHICH),
    "claim": (_claim, (*_WHICH, "to")),
    "nack": (_nack, _WHICH),
    "replay": (_replay, (*_LETTERS, "to")),
    "purge": (_purge, _LETTERS),
}


def change(action: str, asked: Asked) -> dict[str, Any]:
    """Return the plan of a change and its confirmation number, or carry out the plan if the request has this number."""
    if action not in CHANGES:
        fail("INVALID_VALUE", name="action", value=action[:50], expected=f"it must be one of {', '.join(CHANGES)}")
    planner, parameters = CHANGES[action]
    given = {name: value for name, value in asked.given.items() if name in parameters}
    session, number, now = asked.session, asked.text("confirm"), time.monotonic()
    if not number:
        with asked.access.lend() as connection:
            plan = planner(connection, replace(asked, given=given))
        return {
            "plan": plan.sentence,
            "notes": list(plan.notes),
            "facts": [list(fact) for fact in plan.facts],
            "confirm": session.propose(Proposed(action, given, plan, now)),
        }
    proposed = session.confirmed(number, action, given, now)
    if proposed is None:
        fail(
            "INVALID_VALUE",
            name="confirm",
            value="...",
            expected="it must be the number of a plan of this change that is at most ten minutes old",
        )
    record = _record_start(asked, proposed)
    try:
        with asked.access.lend() as connection:
            done: Done = proposed.plan.act(connection)
    except BaseException as failure:
        _record_result(asked, proposed, {**record, "event": "failed", "result": str(failure)})
        raise
    result = {"count": done.count, "more": done.more}
    _record_result(asked, proposed, {**record, "event": "done", "result": done.sentence, **result})
    if not done.more:
        session.plans.pop(number, None)
    asked.sampler.hurry()
    return {"done": done.sentence, **result}


def _record_start(asked: Asked, proposed: Proposed) -> dict[str, Any]:
    """Record the start of a change unless it is already recorded, and return the attributes of its records.

    Raises AUDIT_UNWRITABLE if the record cannot be written: then the change is not made.
    """
    named = {name: names.shown(key) for name in ("stream", "group", "consumer") if (key := asked.key_or_none(name))}
    plan: Plan = proposed.plan
    record = {
        "server": asked.rules.address.shown,
        "user": asked.session.user,
        "from": asked.origin,
        "action": proposed.action,
        **named,
        "key": asked.text("stream"),
        "plan": plan.sentence,
        "before": {name: before for name, before, _ in plan.facts},
        "after": {name: after for name, _, after in plan.facts},
    }
    if asked.rules.audit is not None and not proposed.record:
        try:
            proposed.record = asked.rules.audit.record_start(record)
        except UnwritableError as cause:
            fail("AUDIT_UNWRITABLE", file=asked.rules.audit.path, reason=cause)
    return record


def _record_result(asked: Asked, proposed: Proposed, record: Mapping[str, Any]) -> None:
    if asked.rules.audit is not None:
        asked.rules.audit.record_result(proposed.record, record)


_SHOWN = ("time", "id", "event", "user", "from", "action", "stream", "key", "group", "consumer", "plan", "result")
_MOST_CHARACTERS = 2_000


def audit_page(asked: Asked) -> dict[str, Any]:
    """Return a page of the last changes of this server, newest first, and their number.

    A session that may see only some streams gets only changes of these streams. `rows` is None if there is no log.
    """
    if asked.rules.audit is None:
        return {"rows": None, "total": 0, "file": None}
    search = asked.text("search")[:200].lower()
    found = [
        records
        for records in asked.rules.audit.recent()
        if records[0].get("server") == asked.rules.address.shown
        and any(search in " ".join(map(str, record.values())).lower() for record in records)
    ]
    page, total = visible_page(asked, found, lambda records: unquote_to_bytes(str(records[0].get("key", ""))))
    return {
        "rows": [_row(records) for records in page],
        "total": total,
        "file": str(asked.rules.audit.path) if asked.session.whole else None,
    }


def _row(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a change: its last state, the time of its start, and the results of its requests by line."""
    results = "\n".join(str(each["result"]) for each in records if each.get("result"))
    record = {**records[0], **records[-1], "time": records[0].get("time"), "result": results}
    texts = {name: str(record.get(name) or "")[:_MOST_CHARACTERS] for name in _SHOWN}
    before, after = (_pairs(record.get(name)) for name in ("before", "after"))
    changes = [[name, before.get(name, ""), after.get(name, "")] for name in dict.fromkeys((*before, *after))]
    return {**texts, "changes": changes, "more": record.get("more") is True}


def _pairs(value: Any) -> dict[str, str]:
    return {str(name)[:200]: str(text)[:200] for name, text in value.items()} if isinstance(value, dict) else {}
