"""Commands on large sets and sorted sets run in steps: a result shows one moment, and is logged."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.core.commands.data import dump, long_reads, set_algebra, sets
from engine.core.commands.data.sorted_sets import algebra, members, pops, ranges
from engine.core.keyspace import elements, sorted_set
from engine.core.keyspace.members import Members
from engine.core.protocol.replies import CommandError, Steps
from engine.wire.encode import encoded
from tests.engine.core.commands.stepwise import decoded, finished
from tests.engine.core.commands.test_long_replies import Side
from tests.harness.limits import Limits, lower
from tests.harness.replay import NOW_US, check_replay, new_core, replayed, state

# -- large sets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> Side:
    """Return a core with three tables of 50 members, 25 of them common to the first two; sets are large from 20 on."""
    limits = [
        (sets, {"MANY": 20, "_AT_ONCE": 10}),
        (set_algebra, {"MANY": 20}),
        (elements, {"_PART": 6, "_PARTS": 1}),
    ]
    lower(monkeypatch, limits)
    side = Side()
    for key, first in (("x", 0), ("y", 25), ("z", 100)):
        side.run(f"SADD {key} " + " ".join([f"member-{number}" for number in range(first, first + 50)]))
        side.run(f"SADD {key} {'x' * 100}; SREM {key} {'x' * 100}")
    side.core.changes.effects.clear()
    return side


@pytest.mark.parametrize(
    "command",
    [
        "SMEMBERS x",
        "SRANDMEMBER x 90",
        "SMISMEMBER x " + " ".join(f"member-{number}" for number in range(60)),
        "SINTER x y",
        "SUNION x y z",
        "SUNION x y z none x y",
        "SDIFF x y",
        "SINTERCARD 2 x y",
        "SINTERSTORE to x y",
        "SUNIONSTORE x x y none",
        "SUNIONSTORE to x y z none y x",
        "SDIFFSTORE z x none",
    ],
)
@pytest.mark.parametrize(
    "meanwhile",
    [
        "PING",
        "SADD x new",
        "SREM x member-30 member-1",
        "SADD other a",
        "SADD none new",
        "DEL x",
        "RENAME z x",
        "DEL x y z",
    ],
)
def test_a_large_result_shows_one_moment(small_sets, command, meanwhile):
    """A reply and a stored result show the sets at the start, and a concurrent change follows."""
    names = ("x", "y", "z", "to", "none", "other")
    before = {name: small_sets.core.databases[0].get(name.encode()) for name in names}
    start = {name: set(value) for name, value in before.items() if value is not None}
    small_sets.core.allow_steps()
    steps = small_sets.run(command)
    assert type(steps) is Steps
    reply, count = finished(small_sets, steps, {2: meanwhile})
    assert count >= 2

    def twin(*lines: str) -> tuple[Any, dict[bytes, set[bytes]]]:
        side, answer = Side(), None
        side.run("DEL x y z")
        for name, words in start.items():
            side.core.execute(side.session, [b"SADD", name.encode(), *sorted(words)], NOW_US)
        for line in lines:
            answer = side.run(line)
        return answer, {key: set(value) for key, value, _ in side.core.databases[0].items() if type(value) is Members}

    now = {key: set(value) for key, value, _ in small_sets.core.databases[0].items() if type(value) is Members}
    assert encoded_members(reply) == encoded_members(twin(command)[0])
    assert now == twin(command, meanwhile)[1]


def encoded_members(reply: Any) -> Any:
    """Return a reply as a client receives it: a number, or the sorted members."""
    if isinstance(reply, int):
        return reply
    return sorted(decoded(reply))


def test_many_members_are_popped_in_steps(small_sets):
    """SPOP of many members returns distinct ones; a client that replaces the key follows."""
    small_sets.core.allow_steps()
    steps = small_sets.run("SPOP x 45")
    assert type(steps) is Steps
    reply, count = finished(small_sets, steps, {2: "SADD y new"})
    popped = encoded_members(reply)
    assert (len(set(popped)), small_sets.run("SCARD x"), count) == (45, 5, 5)
    small_sets.core.allow_steps()
    steps = small_sets.run("SPOP y 40")
    reply, _ = finished(small_sets, steps, {2: "SET y string"})
    assert len(encoded_members(reply)) == 40
    assert small_sets.run("GET y") == b"string"


# -- large sorted sets ----------------------------------------------------------------------------------------------


class _Empty(Side):
    """A core without keys."""

    def __init__(self) -> None:
        self.core = new_core()
        self.session = self.core.open_session(NOW_US)


@pytest.fixture
def small_sorted_sets(monkeypatch: pytest.MonkeyPatch) -> Side:
    """Return a core with two sorted sets of 50 members, 25 of them common, and a set; they are large from 20 on."""
    limits: Limits = [
        (long_reads, {"MANY": 20}),
        (members, {"AT_ONCE": 10, "_PER_DRAW": 2}),
        (pops, {"AT_ONCE": 10}),
        (ranges, {"AT_ONCE": 10, "MANY": 20, "_PART": 6}),
        (algebra, {"MANY": 20, "_LOOKUPS_PER_STEP": 6}),
        (sorted_set, {"_SORTED_AT_ONCE": 8}),
        (elements, {"_PART": 6, "_PARTS": 1}),
        (dump, {"_MANY": 20, "_NODES": 1, "_CHECKED": 50}),
    ]
    lower(monkeypatch, limits)
    side = _Empty()
    for key, first in (("x", 0), ("y", 25)):
        pairs = [f"{number * 7 % 50 / 4} member-{number}" for number in range(first, first + 50)]
        side.run(f"ZADD {key} 1 {'x' * 100}; ZREM {key} {'x' * 100}")
        side.run(f"ZADD {key} {' '.join(pairs)}")
    side.run("SADD z " + " ".join(f"member-{number}" for number in range(40, 70)))
    side.core.allow_steps()
    return side


_MORE = " ".join(f"{number / 2} new-{number}" for number in range(35))
_SORTED_SET_READS = [
    "ZRANGE x 0 -1 WITHSCORES",
    "ZRANGE x 9 2 BYSCORE REV",
    "ZRANGEBYLEX x - +",
    "ZRANDMEMBER x 99 WITHSCORES",
    "ZMSCORE x " + " ".join(f"member-{number}" for number in range(60)),
    "DUMP x",
    "ZUNION 3 x y z WITHSCORES",
    "ZINTER 2 x y WEIGHTS 2 3",
    "ZDIFF 2 x z",
    "ZINTERCARD 2 x y",
]
_SORTED_SET_WRITES = [
    "ZUNIONSTORE to 3 x y z AGGREGATE MAX",
    "ZINTERSTORE x 2 x y",
    "ZDIFFSTORE none 2 x none",
    "ZRANGESTORE to x 2 9 BYSCORE",
    "ZRANGESTORE x x 5 40",
]
_IN_BETWEEN = [
    "PING",
    "ZADD x 3 new",
    "ZADD x 99 member-3",
    "ZREM x member-30 member-1",
    "ZPOPMIN y; ZPOPMAX x",
    "ZADD none 1 new",
    "SADD z new",
    "DEL x",
    "SET to string",
    "RENAME y x",
    "DEL x y z",
]


@pytest.mark.parametrize("command", [*_SORTED_SET_READS, *_SORTED_SET_WRITES])
@pytest.mark.parametrize("meanwhile", _IN_BETWEEN)
def test_a_command_on_large_sorted_sets_sees_one_moment(small_sorted_sets, command, meanwhile):
    """A reply or stored result shows the sets at the start, and is logged; a concurrent change follows."""
    side = small_sorted_sets
    twin = replayed(side.core.changes.effects)
    session = twin.open_session(NOW_US)
    expected = encoded(twin.execute(session, command.encode().split(), NOW_US))
    for line in meanwhile.split(";"):
        twin.execute(session, line.encode().split(), NOW_US)
    steps = side.run(command)
    assert type(steps) is Steps
    reply, count = finished(side, steps, {2: meanwhile})
    assert count >= 2
    assert encoded(reply) == expected
    assert state(side.core) == state(twin)
    check_replay(side.core, NOW_US)


@pytest.mark.parametrize("count", [30, -90])
def test_random_members_are_drawn_in_steps(small_sorted_sets, count):
    """ZRANDMEMBER of many draws members of one moment with their scores, distinct ones for a positive count."""
    side = small_sorted_sets
    side.core.changes.pick = Random(7).randrange
    for change in ("PING", "ZREM x member-1 member-2"):
        steps = side.run(f"ZRANDMEMBER x {count} WITHSCORES")
        assert type(steps) is Steps
        scores = dict(side.core.databases[0].get(b"x"))
        reply, _ = finished(side, steps, {2: change})
        words = decoded(reply)
        drawn = list(zip(words[::2], words[1::2], strict=True))
        assert [float(score) for _, score in drawn] == [scores[member] for member, _ in drawn]
        assert len(drawn) == abs(count)
        assert len(set(drawn)) == count or count < 0


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (f"ZADD x {_MORE}", 35),
        (f"ZADD x CH XX {_MORE}", 0),
        (f"ZADD new {_MORE}", 35),
        ("ZREM x " + " ".join(f"member-{number}" for number in range(5, 40)), 35),
        ("ZREMRANGEBYRANK x 5 -6", 40),
        ("ZREMRANGEBYSCORE x 2 9", 29),
        ("ZPOPMIN x 45", None),
        ("ZMPOP 2 none y MAX COUNT 45", None),
    ],
)
@pytest.mark.parametrize(
    "meanwhile", ["PING", "ZADD x 2.5 other; ZADD y 1 other", "DEL x; ZADD y 0 member-30", "SET x s"]
)
def test_many_members_are_changed_in_steps(small_sorted_sets, command, reply, meanwhile):
    """Each step is logged on its own; the result equals that of a single run, and other commands follow it."""
    side = small_sorted_sets
    whole = replayed(side.core.changes.effects)
    steps = side.run(command)
    assert type(steps) is Steps
    came, count = finished(side, steps, {2: meanwhile})
    assert count >= 3
    session = whole.open_session(NOW_US)
    expected = whole.execute(session, command.encode().split(), NOW_US)
    assert reply is None or came == reply
    assert encoded(came) == encoded(expected)
    for line in meanwhile.split(";"):
        whole.execute(session, line.encode().split(), NOW_US)
    assert state(whole) == state(side.core)
    check_replay(side.core, NOW_US)


@pytest.mark.parametrize("command", ["ZADD x " + _MORE.replace("17.0", "nan"), "ZADD x GT 1 " + _MORE])
def test_a_wrong_score_among_many_prevents_all_changes(small_sorted_sets, command):
    """All scores are parsed first: an invalid one at the very end leaves the data unchanged."""
    before = state(small_sorted_sets.core)
    steps = small_sorted_sets.run(command)
    reply = steps if type(steps) is CommandError else finished(small_sorted_sets, steps)[0]
    assert isinstance(reply, CommandError)
    assert state(small_sorted_sets.core) == before
