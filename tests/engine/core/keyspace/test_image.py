"""Images that are built in steps while the data changes."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.core.dispatch import Core
from engine.core.formats.rdb import writer
from engine.core.keyspace import image
from engine.core.keyspace.changes import NEVER
from engine.core.keyspace.database import Database
from engine.core.keyspace.image import ImageBuilder
from engine.core.protocol import pace
from engine.shell.durability.background import Attempt, run_when_complete
from tests.faults.disk import Disk
from tests.harness.replay import NOW_US, new_core


class Side:
    """A core with a hash and a stream for each of some keys, in two databases."""

    def __init__(self, keys: Iterable[object] = range(30)) -> None:
        self.core: Core = new_core()
        self.session = self.core.open_session(NOW_US)
        for db in (1, 0):
            self.run(f"SELECT {db}")
            for key in keys:
                self.run(f"SET string-{key} {db}", f"HSET hash-{key} a {db} b 2", f"XADD stream-{key} 1-1 field {db}")
                self.run(f"XGROUP CREATE stream-{key} g 0", f"XREADGROUP GROUP g c STREAMS stream-{key} >")
        self.run("EXPIRE hash-3 100")

    def run(self, *lines: str) -> None:
        for line in lines:
            self.core.execute(self.session, line.encode().split(), NOW_US)

    def image_builder(self) -> ImageBuilder:
        return ImageBuilder(self.core.databases, NOW_US // 1000)


def content(taken: image.Image) -> list[Any]:
    """Return the content of an image, with values as in DUMP."""
    keys = [
        (db.index, key, b"".join(writer.dumped(value)[1]), end)
        for db in taken.databases
        for key, value, end in db.items()
    ]
    return [taken.now, sorted(keys)]


def test_events_of_replaced_values_are_reported_during_an_image(monkeypatch):
    """While an image is built, a replaced value and a changed type are reported, as at any other time."""
    monkeypatch.setattr(pace, "IMAGE_US", 20)
    side = Side()
    builder, events = side.image_builder(), []
    assert not builder.step()
    side.core.changes.on_event = lambda kind, event, key, db: events.append(event)
    side.run("SET string-0 x", "SET hash-0 x")
    builder.cancel()
    assert [event for event in events if event != b"set"] == [b"overwritten", b"overwritten", b"type_changed"]


def test_an_image_contains_keys_that_are_due():
    """A key that is due but not deleted is in an image: on a replica, only the master deletes it."""
    side = Side()
    side.core.changes.hold_expiry("master", NEVER)
    side.core.changes.set_time(NOW_US + 200_000_000)
    assert side.core.databases[0].is_due(b"hash-3")
    taken = image.capture(side.core.databases, side.core.changes.now)
    assert taken.keys == sum(map(len, side.core.databases))


_NUMBERS = st.integers(0, 2)
_TYPES = st.sampled_from(["string", "hash", "stream"])
_KEY = st.builds("{}-{}".format, _TYPES, _NUMBERS)
#: Every way to look up and change a value of each type.
_ONE_KEY = (
    ("string", "APPEND {} more", "SET {} new", "GETSET {} new"),
    ("hash", "HSET {} a changed c 3", "HDEL {} b", "HINCRBY {} b 5", "HSETNX {} new 1"),
    ("stream", "XADD {} * another entry", "XACK {} g 1-1", "XDEL {} 1-1", "XGROUP CREATE {} h $", "XTRIM {} MAXLEN 0"),
)
_ANY_KEY = st.sampled_from(["PEXPIRE {} 5000", "PERSIST {}", "MOVE {} 1", "SET {} string", "DEL {}"])
_TWO_KEYS = st.sampled_from(["DEL {} {}", "RENAME {} {}", "COPY {} {} REPLACE"])
_COMMANDS = st.one_of(
    *(st.builds(lambda line, key: line.format(key), st.sampled_from(lines), _NUMBERS.map(f"{kind}-{{}}".format))
      for kind, *lines in _ONE_KEY),
    st.just("step"),
    st.builds(str.format, _ANY_KEY, _KEY),
    st.builds(str.format, _TWO_KEYS, _KEY, _KEY),
    st.sampled_from(["SWAPDB 0 1", "SELECT 1", "SELECT 0", "FLUSHDB", "FLUSHALL"]),
)  # fmt: skip


@given(st.integers(0, 3), st.integers(1, 4), st.lists(_COMMANDS, min_size=10, max_size=40))
@example(1, 1, ["FLUSHALL", "SELECT 1", "SET hash-0 string", "DEL hash-0"])
def test_an_image_shows_the_data_at_its_start(keys, names, commands):
    """An image shows the data at its start, even if keys are changed, moved, deleted or swapped before its end."""
    side = Side(range(keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "IMAGE_US", 0.1)
        patch.setattr(pace, "IMAGE_NAMES", names)
        expected = content(image.capture(side.core.databases, NOW_US // 1000))
        builder = side.image_builder()
        complete = builder.step()
        assert complete == (not keys)
        for command in commands:
            if command == "step":
                complete = complete or builder.step()
            else:
                side.run(command)
        while not complete:
            complete = builder.step()
    assert content(builder.image) == expected
    assert (builder.image.keys, {type(db) for db in side.core.databases}) == (6 * keys, {Database})


def test_a_step_captures_fewer_keys_if_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step captures fewer keys if they have deadlines, because deadlines count towards its work."""
    monkeypatch.setattr(pace, "IMAGE_US", 200)
    core = new_core()
    session = core.open_session(NOW_US)
    captured = []
    for words in ([], [b"EX", b"100"]):
        for number in range(3000):
            core.execute(session, [b"SET", b"%d" % number, b"v", *words], NOW_US)
        builder = ImageBuilder(core.databases, NOW_US // 1000)
        builder.step()
        captured.append(builder.image.keys)
        builder.finish()
    assert captured == [1000, 500]


def test_a_second_image_completes_the_first_one(monkeypatch):
    """Images may overlap: SAVE builds one at once, and starting another image completes the previous one."""
    monkeypatch.setattr(pace, "IMAGE_US", 20)
    side = Side()
    expected = content(image.capture(side.core.databases, NOW_US // 1000))
    first = side.image_builder()
    assert not first.step()
    side.run("HSET hash-29 a changed")
    at_once = image.capture(side.core.databases, NOW_US // 1000)
    side.run("HSET hash-28 a changed")
    second = side.image_builder()
    assert not second.step()
    side.run("HSET hash-27 a changed")
    assert first.step()
    assert content(first.image) == expected
    while not second.step():
        pass
    earlier, later = ({key: value for key, value, _ in taken.databases[0].items()} for taken in (at_once, second.image))
    assert [dict(values[b"hash-28"].items())[b"a"] for values in (earlier, later)] == [b"0", b"changed"]
    assert dict(later[b"hash-27"].items())[b"a"] == b"0"
    cancelled = side.image_builder()
    assert not cancelled.step()
    cancelled.cancel()
    assert {type(db) for db in side.core.databases} == {Database}


def test_an_image_shares_groups_until_they_change():
    """An image copies no group of a stream; a command that changes a group replaces it by a copy."""
    side = Side()
    stream = side.core.databases[0].stream(b"stream-1")
    assert stream is not None
    side.run("XGROUP CREATE stream-1 other 0")
    copy = stream.copy()
    side.run("XACK stream-1 g 1-1")
    assert copy.groups[b"other"] is stream.groups[b"other"]
    assert (len(copy.groups[b"g"].pending), len(stream.groups[b"g"].pending)) == (1, 0)


def test_a_complete_image_does_not_keep_deleted_values():
    """A complete image neither keeps the databases' tables nor forms reference cycles: it is freed with its last
    reference.
    """
    core = new_core()
    session = core.open_session(1)
    core.execute(session, [b"XADD", b"s", b"1-1", b"f", b"v"], 1)
    stream = core.databases[0].get(b"s")
    builder = ImageBuilder(core.databases, 1)
    written: list[int] = []
    gc.disable()
    try:
        attempt = Attempt(Disk(), Path("/nowhere"), "temp-", "")
        run_when_complete(builder, attempt, lambda step: step(), lambda image=builder.image: written.append(image.keys))
        assert written == [1]
        core.execute(session, [b"FLUSHALL"], 1)
        while core.changes.discarded:
            core.changes.free()
        # The two references are the local name and the argument.
        assert sys.getrefcount(stream) == 2
        image_of = weakref.ref(builder)
        del builder
        assert image_of() is None
    finally:
        gc.enable()
