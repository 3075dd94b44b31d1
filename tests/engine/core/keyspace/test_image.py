"""Images that are built in steps while the data changes."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
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

KEYS = 30


class Side:
    """A core with values of every type in two databases."""

    def __init__(self) -> None:
        self.core: Core = new_core()
        self.session = self.core.open_session(NOW_US)
        for db in (0, 1):
            self.run(f"SELECT {db}")
            for number in range(KEYS):
                self.run(
                    f"SET string-{number} {db}",
                    f"SET raw-{number} r",
                    f"APPEND raw-{number} {db}",
                    f"HSET hash-{number} a {db} b 2",
                )
                self.run(f"XADD stream-{number} 1-1 field {db}", f"HSET other-{number} 1 1 2 2")
                self.run(f"XGROUP CREATE stream-{number} g 0", f"XREADGROUP GROUP g c STREAMS stream-{number} >")
        self.run("SELECT 0", "EXPIRE hash-3 100")

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


#: Every way to look up and change a value.
CHANGES = [
    f"{command} {rest}"
    for number in (0, 7, KEYS - 1)
    for command, rest in (
        ("APPEND", f"raw-{number} x"),
        ("GETSET", f"raw-{number} yy"),
        ("HSET", f"hash-{number} a changed c 3"),
        ("HDEL", f"hash-{number} b"),
        ("HINCRBY", f"other-{number} 1 5"),
        ("HSETNX", f"other-{number} new 1"),
        ("XADD", f"stream-{number} * another entry"),
        ("XACK", f"stream-{number} g 1-1"),
        ("XDEL", f"stream-{number} 1-1"),
        ("XGROUP", f"CREATE stream-{number} h $"),
        ("RENAME", f"stream-{number} moved-{number}"),
        ("XTRIM", f"moved-{number} MAXLEN 0"),
        ("MOVE", f"hash-{number} 2"),
        ("DEL", f"string-{number} other-{number}"),
        ("SET", f"string-{number + 1} changed"),
        ("SET", f"string-{number} new-{number}"),
        ("EXPIRE", f"string-{number + 2} 1000"),
        ("SET", f"other-{number} string"),
        ("RENAME", f"raw-{number + 1} raw-{number}"),
        ("APPEND", f"raw-{number} z"),
        ("COPY", f"stream-{number + 1} stream-{number}"),
        ("PERSIST", "hash-3"),
    )
] + [
    "SWAPDB 0 1",
    "APPEND raw-9 x",
    "SELECT 1",
    "HSET hash-5 a swapped",
    "FLUSHALL",
    "SET new key",
    "XADD stream-1 * a b",
]


def test_an_image_contains_keys_that_are_due():
    """A key that is due but not deleted is in an image: on a replica, only the master deletes it."""
    side = Side()
    side.core.changes.hold_expiry("master", NEVER)
    side.core.changes.set_time(NOW_US + 200_000_000)
    assert side.core.databases[0].is_due(b"hash-3")
    taken = image.capture(side.core.databases, side.core.changes.now)
    assert taken.keys == sum(map(len, side.core.databases))


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_an_image_shows_the_data_at_its_start(monkeypatch, steps):
    """An image shows the data at its start, even if keys are changed, moved, deleted or swapped before its end."""
    monkeypatch.setattr(pace, "IMAGE_US", 20)
    side = Side()
    expected = content(image.capture(side.core.databases, NOW_US // 1000))
    for at in range(0, len(CHANGES), 13):
        side, count = Side(), 0
        builder = side.image_builder()
        for _ in range(steps):
            assert not builder.step()
        side.run(*CHANGES[:at])
        while not builder.step():
            side.run(*CHANGES[at + count : at + count + 1])
            count += 1
        side.run(*CHANGES[at + count :])
        assert content(builder.image) == expected
        assert {type(db) for db in side.core.databases} == {Database}


_KEY = st.sampled_from("abcdefgh")
_STRINGS = st.lists(
    st.one_of(
        _KEY.map("SET {} new".format),
        _KEY.map("APPEND {} more".format),
        st.tuples(_KEY, _KEY).map(lambda keys: "DEL {} {}".format(*keys)),
        _KEY.map("PEXPIRE {} 5000".format),
        st.tuples(_KEY, _KEY).map(lambda keys: "RENAME {} {}".format(*keys)),
        st.tuples(_KEY, _KEY).map(lambda keys: "COPY {} {} REPLACE".format(*keys)),
        st.sampled_from(["SWAPDB 0 1", "SELECT 1", "SELECT 0", "MOVE a 1", "MOVE e 0", "FLUSHDB", "step", "step"]),
    ),
    max_size=25,
)


@given(st.lists(_KEY, unique=True), st.integers(1, 4), _STRINGS)
def test_keys_that_come_and_go_are_in_the_image_if_they_existed(keys, names, commands):
    """An image misses none of a few keys that are added, removed, renamed and given a deadline repeatedly."""
    core = new_core()
    session = core.open_session(NOW_US)

    def run(command: str) -> None:
        core.execute(session, command.encode().split(), NOW_US)

    for at, key in enumerate(keys):
        run(f"SET {key} {at}" + " PX 9000" * (at % 3 == 0))
        run(f"COPY {key} {key}{key} DB 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "IMAGE_US", 0.1)
        patch.setattr(pace, "IMAGE_NAMES", names)
        expected = content(image.capture(core.databases, NOW_US // 1000))
        builder = ImageBuilder(core.databases, NOW_US // 1000)
        complete = builder.step()
        assert complete == (not keys)
        for command in commands:
            if command == "step":
                complete = complete or builder.step()
            else:
                run(command)
        while not complete:
            complete = builder.step()
        assert content(builder.image) == expected
        assert (builder.image.keys, {type(db) for db in core.databases}) == (2 * len(keys), {Database})


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
