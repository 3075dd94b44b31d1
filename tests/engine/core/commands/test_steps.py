"""Commands with very many IDs are done in steps: what each does, what others find in between, what the log gets."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from engine.core.admission import Refusal
from engine.core.commands.data import dump, hashes, keys, scan, set_algebra, sets, sort
from engine.core.commands.data.sorted_sets import algebra, members, pops, ranges, results
from engine.core.commands.streams import many_ids
from engine.core.commands.streams.entries import deleting
from engine.core.commands.streams.groups import claims, pending_entries
from engine.core.formats.rdb import value_writer
from engine.core.formats.rdb.streams import writer as stream_writer
from engine.core.keyspace import changes, elements, sorted_set
from engine.core.keyspace.members import Members
from engine.core.protocol.replies import OK, CommandError, Steps
from engine.wire.encode import encoded
from tests.engine.core.commands.test_long_replies import MEANWHILE, Side
from tests.harness.replay import NOW_US, check_replay, new_core, replayed, state

#: IDs in a command, and of them in a step.
IDS, STEP = 120, 10
_WORDS = " ".join(f"{number * 2}-1" for number in range(1, IDS + 1))

COMMANDS = [
    f"XACK s g {_WORDS}",
    f"XDEL s {_WORDS}",
    f"XDELEX s DELREF IDS {IDS} {_WORDS}",
    f"XDELEX s IDS {IDS} {_WORDS}",
    f"XACKDEL s g ACKED IDS {IDS} {_WORDS}",
    f"XNACK s g FAIL IDS {IDS} {_WORDS}",
    f"XNACK s g SILENT IDS {IDS} {_WORDS} RETRYCOUNT 7 FORCE",
    f"XCLAIM s g c-1 0 {_WORDS}",
    f"XCLAIM s g new 0 {_WORDS} IDLE 70 RETRYCOUNT 3 FORCE JUSTID LASTID 280-1",
    f"XAUTOCLAIM s g c-1 0 - COUNT {IDS}",
    f"XAUTOCLAIM s g new 0 30 COUNT {IDS} JUSTID",
    "XAUTOCLAIM s g c-1 1000 - COUNT 50",
]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some IDs are many."""
    for module in (many_ids, deleting, pending_entries, claims):
        monkeypatch.setattr(module, "MANY_IDS", 40)
        if module is not many_ids:
            monkeypatch.setattr(module, "_STEP", STEP)
    for module in (deleting, pending_entries):
        monkeypatch.setattr(module, "_STEP_WITH_POLICY", STEP)
    monkeypatch.setattr(many_ids, "_PARSED", 50)
    for name, value in {"_FEW": 20, "_WORK": STEP, "_OF_A_STRETCH": 1.0, "_OF_FRESH_ONES": 1.0}.items():
        monkeypatch.setattr(claims, name, value)


def begun(command: str) -> tuple[Side, Steps]:
    """A side that does commands in steps, and one that it has begun."""
    side = Side()
    side.core.take_steps()
    steps = side.run(command, after_ms=5)
    assert type(steps) is Steps
    return side, steps


def go_on(side: Side, steps: Steps, after_ms: int = 5) -> Any:
    """The next step."""
    return side.core.go_on(side.session, steps, NOW_US + after_ms * 1000)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[:12])
def test_all_steps_together_are_the_command(command):
    """With nothing in between, the steps answer and leave what the command does in one go; each step is small."""
    whole = Side()
    expected = whole.run(command, after_ms=5)
    side, steps = begun(command)
    assert state(side.core) == state(Side().core)
    count, reply = 0, None
    while (reply := go_on(side, steps)) is steps:
        count += 1
        first = side.core.changes.effects
        assert max(len(argv) for _, argv in first[-3:] if isinstance(argv, list)) <= max(STEP + 16, 25)
    assert count >= IDS // STEP
    assert encoded(reply) == encoded(expected)
    assert state(side.core, times=True) == state(whole.core, times=True)
    check_replay(side.core, NOW_US + 5000)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[:12])
@pytest.mark.parametrize("ends", ["", "; DEL s", "; XGROUP DESTROY s g", "; FLUSHALL; SET s string"])
def test_the_log_has_what_happened_whatever_others_do_in_between(command, ends):
    """However others change the data between two steps, the effects in their order give the same state again."""
    side, steps = begun(command)
    other = side.core.open_session(NOW_US)
    for at in range(6):
        assert go_on(side, steps) is steps
        mine, side.session = side.session, other
        side.run(f"XADD s * step {at}", after_ms=6)
        if at == 3:
            side.run(MEANWHILE, after_ms=7)
        if at == 5:
            side.run("PING" + ends, after_ms=7)
        side.session = mine
    while (reply := go_on(side, steps, 9)) is steps:
        pass
    assert isinstance(reply, CommandError) == (("CLAIM" in command and bool(ends)) or "string" in ends), reply
    check_replay(side.core, NOW_US + 9000)


@pytest.mark.parametrize("command", [one for one in COMMANDS if "CLAIM" not in one], ids=lambda command: command[:12])
def test_a_wrong_id_is_an_error_before_anything_is_done(command):
    """All IDs are parsed first: one that is none, at the very end, leaves the data as they were."""
    side, steps = begun(command.replace("240-1", "240-x"))
    while (reply := go_on(side, steps)) is steps:
        pass
    assert isinstance(reply, CommandError)
    assert state(side.core) == state(Side().core)


@pytest.mark.parametrize("why", [Refusal.DISK, Refusal.READONLY, Refusal.LOADING])
def test_a_step_is_refused_where_the_command_would_be(why):
    """A disk that takes nothing, a server that became a replica, data being loaded: what was done stays, no more is."""
    side, steps = begun(f"XDEL s {_WORDS}")
    for _ in range(6):
        assert go_on(side, steps) is steps
    before = state(side.core)
    assert before != state(Side().core)
    side.core.admission.refuse(why, b"ERR not now")
    reply = go_on(side, steps)
    assert isinstance(reply, CommandError)
    assert reply.text == b"ERR not now"
    assert state(side.core) == before
    check_replay(side.core, NOW_US + 5000)


def test_steps_are_one_call_in_the_statistics():
    """The slow log has the command once, with the time of all its steps; an error in a step is a call that failed."""
    side, steps = begun(f"XDEL s {_WORDS}")
    telemetry = side.core.telemetry
    telemetry.stopwatch = lambda: telemetry.measured_ns + 2_000_000
    count = 1
    while go_on(side, steps) is steps:
        count += 1
    assert [(one.words[0], one.microseconds) for one in telemetry.slow_log] == [(b"XDEL", 2000 * count)]
    stat = telemetry.stats[b"xdel"]
    calls, failed = stat.calls, stat.failed
    steps = side.run(f"XDEL s {_WORDS} x")
    while go_on(side, steps) is steps:
        pass
    assert (stat.calls, stat.failed) == (calls + 1, failed + 1)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[:12])
def test_a_transaction_does_all_at_once(command):
    """Within MULTI and EXEC nobody comes in between."""
    whole = Side()
    expected = whole.run(command, after_ms=5)
    side = Side()
    side.core.take_steps()
    assert encoded(side.run(f"MULTI; {command}; EXEC", after_ms=5)) == encoded([expected])
    assert state(side.core) == state(whole.core)


# -- DUMP and RESTORE -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads of some entries are long."""
    for name, value in {"_LONG": 10, "_LONG_PAYLOAD": 100, "_NODES": 1, "_CHECKED": 100}.items():
        monkeypatch.setattr(dump, name, value)
    monkeypatch.setattr(stream_writer, "_NODE_ENTRIES", 10)
    monkeypatch.setattr(stream_writer, "RECORDS", 20)


@pytest.mark.parametrize("before", ["PING", "XACK s g 5-1 6-1", "XADD s IDMP p i * f v"])
def test_a_long_stream_travels_in_steps(small_payloads, before):
    """DUMP gives what was there when it began, RESTORE adds the whole at its end, whatever others do in between."""
    side, other = Side(), Side()
    for one in (side, other):
        one.run(before)
        one.core.take_steps()
    stream = side.core.databases[0].stream(b"s")
    expected = dump.dumped(stream)
    steps, count = side.run("DUMP s"), 0
    while (reply := go_on(side, steps)) is steps:
        count += 1
        if count == 10:
            side.run(MEANWHILE)
    assert count > 60
    assert encoded(reply) == b"$%d\r\n%b\r\n" % (len(expected), expected)
    words = [b"RESTORE", b"s", b"0", expected, b"REPLACE"]
    steps, count = other.core.execute(other.session, words, NOW_US), 0
    other.run("XGROUP DESTROY s g; XADD s * another entry")
    while (reply := go_on(other, steps)) is steps:
        count += 1
        other.run("XADD s * another entry")
    assert count > 60
    assert reply is OK
    assert dump.dumped(other.core.databases[0].stream(b"s")) == expected
    check_replay(other.core, NOW_US + 5000)


# -- many keys, long hashes and lists -------------------------------------------------------------------------------


@pytest.fixture
def small_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some fields, keys and elements are many; the limits below make small steps."""
    limits: list[tuple[Any, dict[str, int]]] = [
        (hashes, {"_MANY": 20}),
        (elements, {"_PART": 6, "_PARTS": 1}),
        (keys, {"_MANY": 10, "_AT_ONCE": 4}),
        (scan, {"_LOOKED_AT": 6}),
        (dump, {"_MANY": 20, "_NODES": 1, "_CHECKED": 50}),
        (value_writer, {"ELEMENTS": 4, "_NODE_BYTES": 30}),
    ]
    for module, numbers in limits:
        for name, value in numbers.items():
            monkeypatch.setattr(module, name, value)


def finished(side: Side, steps: Steps, meanwhile: dict[int, str] | None = None) -> tuple[Any, int]:
    """The reply of steps, and how many there were; what others do after some of them."""
    count = 0
    while (reply := go_on(side, steps)) is steps:
        count += 1
        if meanwhile and count in meanwhile:
            side.run(meanwhile[count])
    return reply, count


#: A hash that has had a long value is walked as Redis walks large ones.
_GROW = "HSET h long " + "x" * 100 + "; HDEL h long"
SLOW_READS = ["HGETALL h", "HKEYS h", "HVALS h", "DUMP h"]
#: What others do to a hash of 50 fields that is being read, and whether it shows then what they have made of it.
DISTURBANCES = [
    ("HSET h field-3 changed", True),
    ("HSET h new new", True),
    ("HDEL h field-1 field-2 field-49", True),
    ("RENAME h h2; HSET h2 field-3 changed", True),
    ("HGET h field-1; HGETALL h", False),
    ("DEL h", False),
    ("SET h string", False),
    ("FLUSHALL", False),
]


@pytest.mark.parametrize("command", SLOW_READS)
@pytest.mark.parametrize(("disturbance", "shows"), DISTURBANCES, ids=lambda one: str(one)[:20])
def test_a_long_hash_is_read_as_it_was_at_one_moment(monkeypatch, small_hashes, command, disturbance, shows):
    """A hash is gathered in steps; where it is changed in between, the reply shows all of it after the change."""
    monkeypatch.setattr(changes, "_LARGE", 5)
    before, after = Side(), Side()
    for side in (before, after):
        side.run(_GROW)
    after.run(disturbance if shows else "PING")
    key = b"h2" if shows and "RENAME" in disturbance else b"h"
    after.run("PING" if key == b"h" else "RENAME h2 h")
    expected = encoded(after.run(command))
    before.core.take_steps()
    steps = before.run(command)
    assert type(steps) is Steps
    reply, count = finished(before, steps, {3: disturbance + "; SET other key"})
    assert encoded(reply) == expected
    assert count >= 3
    while before.core.changes.free():
        pass
    left = before.core.databases[0].get(key)
    assert not isinstance(left, elements.Elements) or not left.readings


@pytest.mark.parametrize("command", SLOW_READS)
@pytest.mark.parametrize("changed_at", [0, 2])
def test_a_long_hash_that_is_read_is_not_taken_apart(monkeypatch, small_hashes, command, changed_at):
    """Where it is changed and then deleted in between, before the first step too, the reply has all that it held."""
    monkeypatch.setattr(changes, "_LARGE", 5)
    side, twin = Side(), Side()
    for one in (side, twin):
        one.run(_GROW)
    twin.run("HSET h field-3 changed")
    expected = encoded(twin.run(command))
    side.core.take_steps()
    steps = side.run(command)
    for _ in range(changed_at):
        assert go_on(side, steps) is steps
    side.run("HSET h field-3 changed; DEL h")
    while side.core.changes.free(7):
        pass
    reply, _ = finished(side, steps)
    assert encoded(reply) == expected


# -- large sets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> Side:
    """A core with three tables of 50 members, of which 25 are common to the first two; sets are large from 20 on."""
    for module, numbers in ((sets, {"MANY": 20, "_AT_ONCE": 10}), (set_algebra, {"MANY": 20})):
        for name, value in numbers.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(elements, "_PART", 6)
    monkeypatch.setattr(elements, "_PARTS", 1)
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
def test_a_large_result_is_that_of_one_moment(small_sets, command, meanwhile):
    """What is stored is what the log gives again, whatever others do in between; a reply is that before or after it."""
    names = ("x", "y", "z", "to", "none", "other")
    before = {name: small_sets.core.databases[0].get(name.encode()) for name in names}
    start = {name: set(value) for name, value in before.items() if value is not None}
    small_sets.core.take_steps()
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
    if "STORE" in command:
        assert (reply, now) == twin(meanwhile, command)
    else:
        assert encoded_members(reply) in [
            encoded_members(twin(*lines)[0]) for lines in ((command,), (meanwhile, command))
        ]


def encoded_members(reply: Any) -> Any:
    """What a client gets, in no order."""
    if isinstance(reply, int):
        return reply
    reader = hiredis.Reader()
    reader.feed(encoded(reply))
    return sorted(reader.gets())


def test_many_members_are_popped_in_steps(small_sets):
    """Each step is logged; a member that others add in between may be popped too, and one that goes is not."""
    small_sets.core.take_steps()
    steps = small_sets.run("SPOP x 45")
    assert type(steps) is Steps
    reply, count = finished(small_sets, steps, {2: "SADD y new"})
    popped = encoded_members(reply)
    assert (len(set(popped)), small_sets.run("SCARD x"), count) == (45, 5, 5)
    small_sets.core.take_steps()
    steps = small_sets.run("SPOP y 40")
    reply, _ = finished(small_sets, steps, {2: "SET y string"})
    assert len(encoded_members(reply)) == 20
    assert small_sets.run("GET y") == b"string"


# -- large sorted sets ----------------------------------------------------------------------------------------------


class _Empty(Side):
    """A core without keys."""

    def __init__(self) -> None:
        self.core = new_core()
        self.session = self.core.open_session(NOW_US)


@pytest.fixture
def small_sorted_sets(monkeypatch: pytest.MonkeyPatch) -> Side:
    """A core with two sorted sets of 50 members, of which 25 are common, and a set; they are large from 20 on."""
    limits: list[tuple[Any, dict[str, int]]] = [
        (members, {"AT_ONCE": 10}),
        (pops, {"AT_ONCE": 10}),
        (ranges, {"AT_ONCE": 10, "MANY": 20, "_PART": 6}),
        (algebra, {"MANY": 20, "_COPIED": 6, "_LOOKED_AT": 6}),
        (results, {"_LOGGED": 7}),
        (sorted_set, {"_SORTED_AT_ONCE": 8}),
        (elements, {"_PARTS": 1}),
        (dump, {"_MANY": 20, "_NODES": 1, "_CHECKED": 50}),
    ]
    for module, numbers in limits:
        for name, value in numbers.items():
            monkeypatch.setattr(module, name, value)
    side = _Empty()
    for key, first in (("x", 0), ("y", 25)):
        pairs = [f"{number * 7 % 50 / 4} member-{number}" for number in range(first, first + 50)]
        side.run(f"ZADD {key} 1 {'x' * 100}; ZREM {key} {'x' * 100}")
        side.run(f"ZADD {key} {' '.join(pairs)}")
    side.run("SADD z " + " ".join(f"member-{number}" for number in range(40, 70)))
    side.core.take_steps()
    return side


_MORE = " ".join(f"{number / 2} new-{number}" for number in range(35))
_SORTED_SET_READS = [
    "ZRANGE x 0 -1 WITHSCORES",
    "ZRANGE x 9 2 BYSCORE REV",
    "ZRANGEBYLEX x - +",
    "ZRANDMEMBER x 99 WITHSCORES",
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
def test_of_large_sorted_sets_a_command_sees_one_moment(small_sorted_sets, command, meanwhile):
    """A reply is that before or after what others do in between; what is stored is it, too, and the log has it."""
    side, lines = small_sorted_sets, ((command,), (meanwhile, command))
    expected = []
    for some in lines:
        twin = replayed(side.core.changes.effects)
        session = twin.open_session(NOW_US)
        answers = [twin.execute(session, one.encode().split(), NOW_US) for line in some for one in line.split(";")]
        expected.append((encoded(answers[-1]), state(twin).get(0, {}).get(command.split()[1].encode())))
    steps = side.run(command)
    assert type(steps) is Steps
    reply, count = finished(side, steps, {2: meanwhile})
    assert count >= 2
    assert encoded(reply) in [answer for answer, _ in expected]
    if "STORE" in command:
        assert state(side.core).get(0, {}).get(command.split()[1].encode()) in [stored for _, stored in expected]
    check_replay(side.core, NOW_US)


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
    """Each step is logged by itself; with nothing in between they do what the command does in one go."""
    side = small_sorted_sets
    whole = replayed(side.core.changes.effects)
    steps = side.run(command)
    assert type(steps) is Steps
    came, count = finished(side, steps, {2: meanwhile})
    assert count >= (3 if meanwhile == "PING" else 2)
    if meanwhile == "PING":
        expected = whole.execute(whole.open_session(NOW_US), command.encode().split(), NOW_US)
        assert encoded(came) == encoded(expected)
        assert reply is None or came == reply
        assert state(whole) == state(side.core)
    check_replay(side.core, NOW_US)


@pytest.mark.parametrize("command", ["ZADD x " + _MORE.replace("17.0", "nan"), "ZADD x GT 1 " + _MORE])
def test_a_wrong_score_among_many_is_an_error_before_anything_is_done(small_sorted_sets, command):
    """All scores are read first: one that is none, at the very end, leaves the data as they were."""
    before = state(small_sorted_sets.core)
    steps = small_sorted_sets.run(command)
    reply = steps if type(steps) is CommandError else finished(small_sorted_sets, steps)[0]
    assert isinstance(reply, CommandError)
    assert state(small_sorted_sets.core) == before


def test_a_long_list_travels_in_steps(small_hashes):
    """DUMP of a long list gives what was there when it began, and RESTORE makes the same list of it."""
    side = Side()
    expected = dump.dumped(side.core.databases[0].get(b"l"))
    side.core.take_steps()
    reply, count = finished(side, side.run("DUMP l"), {3: "LPOP l; RPUSH l more; DEL l"})
    assert count >= 10
    assert encoded(reply) == b"$%d\r\n%b\r\n" % (len(expected), expected)


def test_many_keys_are_deleted_in_steps(small_hashes):
    """DEL of many keys deletes some in each step, and the log gets what it has deleted."""
    side = Side()
    side.core.take_steps()
    names = [f"key-{number}" for number in range(50)]
    steps = side.run("DEL " + " ".join([*names, "none", "s", "h"]))
    assert type(steps) is Steps
    reply, count = finished(side, steps, {5: "DEL key-30; SET key-1 again; EXPIRE key-40 1"})
    assert (reply, count) == (51, 14)
    assert side.run("EXISTS key-0 key-1 key-49 s h") == 1
    assert max(len(argv) for _, argv in side.core.changes.effects[-20:] if argv[0] == b"DEL") == 5
    check_replay(side.core, NOW_US + 5000)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("KEYS key-*", 50),
        ("SCAN 0 COUNT 1000 MATCH key-*", 50),
        ("SCAN 0 COUNT 1000 TYPE string", 50),
        ("HSCAN h 0 COUNT 1000 MATCH field-1*", 22),
        ("HSCAN h 0 COUNT 1000 NOVALUES", 50),
    ],
)
def test_many_names_are_compared_in_steps(small_hashes, command, found):
    """KEYS, SCAN and HSCAN of many names look at some in each step; names that go meanwhile do no harm."""
    side = Side()
    side.run(_GROW)
    side.core.take_steps()
    steps = side.run(command)
    assert type(steps) is Steps
    reply, count = finished(side, steps)
    names = reply if command.startswith("KEYS") else reply[1]
    assert (len(names), count > 5) == (found, True)
    assert len(set(names)) >= found // 2
    steps = side.run(command)
    reply, _ = finished(side, steps, {1: "DEL key-49 key-48 key-0; HDEL h field-0 field-1 field-49"})
    names = reply if command.startswith("KEYS") else reply[1]
    assert len(names) <= found


def test_restore_adds_nothing_where_a_key_has_come_or_the_payload_is_wrong(small_payloads):
    """Without REPLACE a key that somebody adds meanwhile stays; a damaged payload adds nothing."""
    side = Side()
    payload = dump.dumped(side.core.databases[0].stream(b"s"))
    side.core.take_steps()
    for words, text in (
        ([b"new", b"0", payload], b"BUSYKEY"),
        ([b"s", b"0", payload[:-1] + b"x", b"REPLACE"], b"DUMP payload version or checksum"),
    ):
        steps = side.core.execute(side.session, [b"RESTORE", *words], NOW_US)
        side.run("SET new value")
        while (reply := go_on(side, steps)) is steps:
            pass
        assert isinstance(reply, CommandError)
        assert text in reply.text
    assert side.run("GET new") == b"value"
    assert dump.dumped(side.core.databases[0].stream(b"s")) == payload


@pytest.mark.parametrize("key", ["l", "x"])
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ("", 30),
        ("ALPHA DESC", 30),
        ("BY w:* LIMIT 5 60", 25),
        ("GET w:* GET #", 30),
        ("BY nosort STORE to", 20),
        ("DESC STORE to", 40),
    ],
)
def test_many_elements_are_sorted_in_steps(monkeypatch, options, least, key):
    """SORT of many elements gives what it gives at once, of the moment at which it was called; the log has it too.

    They are sorted in steps, gathered in order, let go, and stored.
    """
    words = " ".join(str(number * 37 % 101) for number in range(101))
    given = [f"DEL l x; RPUSH l {words}; SADD x {words} a; SREM x a; CONFIG SET set-max-listpack-entries 5"]
    given += [f"SET w:{number} {number % 7}" for number in range(101)]
    at_once, side = Side(), Side()
    side.core.take_steps()
    for line in given:
        at_once.run(line), side.run(line)
    expected = at_once.run(f"SORT {key} {options}")
    for name, value in {"_MANY": 20, "_AT_ONCE": 10, "_IN_EFFECT": 10, "_FREED_AT_ONCE": 1}.items():
        monkeypatch.setattr(sort, name, value)
    monkeypatch.setattr(elements, "_PART", 10)
    steps = side.run(f"SORT {key} {options}")
    assert type(steps) is Steps
    came, count = finished(side, steps, {1: f"DEL {key}"})
    assert came == expected
    assert count >= least
    assert side.run("LRANGE to 0 -1") == at_once.run("LRANGE to 0 -1")
    check_replay(side.core, NOW_US + 5000)
