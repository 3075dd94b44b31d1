"""Replay for any test: the effects of a core give an empty core the same data.

``state`` returns all data of a core as plain data that can be compared and printed: every database and key with type,
value and deadline. Seen and active times of consumers are compared only on request, because deliveries are logged as
claims, which have the delivery's time but not the consumer's.
"""

from __future__ import annotations

from typing import Any

from engine.core.dispatch import Core
from engine.core.keyspace.database import type_name
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.streams.group import Group
from engine.core.streams.stream import Stream
from engine.settings.config import Config
from engine.wire.parser import RequestParser

NOW_US = 1_700_000_000_000_000


def new_core(**settings: str) -> Core:
    """Return a core that records its effects; ``settings`` are directives, with _ instead of -."""
    config = Config()
    for name, value in settings.items():
        assert config.change([(name.replace("_", "-").encode(), value.encode())]) is None
    core = Core(config)
    core.changes.recording = True
    core.changes.set_time(NOW_US)
    return core


def commands(effects: list[tuple[int, Any]]) -> list[tuple[int, list[bytes]]]:
    """Return the effects as commands; effects that a vectorised path recorded as bytes are parsed."""
    found = []
    for index, effect in effects:
        argvs = RequestParser().parse(effect) if isinstance(effect, bytes) else [effect]
        found += [(index, argv) for argv in argvs]
    return found


def replayed(effects: list[tuple[int, Any]], now_us: int = NOW_US) -> Core:
    """Apply the effects to an empty core and return it; no effect may fail."""
    core = new_core()
    core.changes.replaying = True
    session = core.open_session(now_us)
    # As in the log, SELECT precedes a command of another database, also inside a transaction.
    steps: list[list[bytes]] = []
    current = 0
    for index, argv in commands(effects):
        if index != current:
            steps.append([b"SELECT", b"%d" % index])
            current = index
        steps.append(argv)
    for argv in steps:
        reply = core.execute(session, argv, now_us)
        for part in reply if isinstance(reply, list) else [reply]:
            assert not isinstance(part, CommandError), f"{argv}: {part}"
    assert session.multi is None, "a MULTI without its EXEC"
    core.changes.replaying = False
    core.changes.set_time(now_us)
    return core


def owner_name(group: Group, number: int) -> bytes:
    """Return the name of the consumer with this number; empty for records without a consumer."""
    return group.by_number[number].name if number in group.by_number else b""


def _group(group: Group, *, times: bool) -> dict[str, Any]:
    return {
        "last_id": ids.text(group.last_id),
        "entries_read": group.entries_read,
        "consumers": {
            consumer.name: (consumer.seen_time, consumer.active_time) if times else None
            for consumer in group.sorted_consumers()
        },
        "pending": [
            (ids.text(block.id_at(at)), owner_name(group, block.owners[at]), block.times[at], block.counts[at])
            for block, at in group.pending.records(ids.MIN_ID, ids.MAX_ID)
        ],
        "nacked": [ids.text(entry_id) for entry_id in group.nacked],
    }


def _stream(stream: Stream, *, times: bool) -> dict[str, Any]:
    return {
        "frames": b"".join(bytes(part) for part in stream.range(ids.MIN_ID, ids.MAX_ID, 0).parts),
        "length": stream.length,
        "last_id": ids.text(stream.last_id),
        "max_deleted_id": ids.text(stream.max_deleted_id),
        "entries_added": stream.entries_added,
        "groups": {name: _group(group, times=times) for name, group in stream.groups.items()},
    }


def state(core: Core, *, times: bool = False) -> dict[int, dict[bytes, Any]]:
    """Return all data of the core by database and key, without empty databases."""
    found: dict[int, dict[bytes, Any]] = {}
    for db in core.databases:
        for key, value, deadline in db.items():
            plain: Any = value
            if isinstance(value, Stream):
                plain = _stream(value, times=times)
            elif isinstance(value, dict):
                plain = list(value.items())
            found.setdefault(db.index, {})[key] = (type_name(value), plain, deadline)
    return found


def check_replay(core: Core, now_us: int) -> None:
    """Check that replaying the effects recorded so far gives the core's data."""
    core.changes.set_time(now_us)
    assert state(replayed(core.changes.effects, now_us)) == state(core)
