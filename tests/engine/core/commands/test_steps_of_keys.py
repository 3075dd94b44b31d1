"""Commands on many keys, long hashes and payloads run in steps, while other clients read and change them."""

from __future__ import annotations

import pytest

from engine.core.commands.data import dump, hashes
from engine.core.formats.rdb import writer
from engine.core.protocol import pace
from engine.core.protocol.replies import OK, CommandError, Steps
from engine.wire.encode import encoded
from tests.engine.core.commands.stepwise import finished, go_on
from tests.engine.core.commands.test_long_replies import MEANWHILE, Side
from tests.harness.limits import lower
from tests.harness.replay import NOW_US, check_replay, state

# -- DUMP and RESTORE -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat payloads of a few entries as long."""
    sizes = {"MANY_NAMES": 10, "PAYLOAD": 100, "PIECES": 1, "CHECKED": 100, "ELEMENTS": 20}
    lower(monkeypatch, [(pace, sizes), (writer, {"NODE_ENTRIES": 10})])


@pytest.mark.parametrize("before", ["PING", "XACK s g 5-1 6-1", "XADD s IDMP p i * f v"])
def test_dump_and_restore_of_a_long_stream_run_in_steps(small_payloads, before):
    """DUMP returns the value at its start, even if other commands run in between, and RESTORE sets it."""
    side, other = Side(), Side()
    for target in (side, other):
        target.run(before)
        target.core.allow_steps()
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
    reply, count = finished(other, other.core.execute(other.session, words, NOW_US), {9: "XADD t * another entry"})
    assert count > 60
    assert reply is OK
    assert dump.dumped(other.core.databases[0].stream(b"s")) == expected
    check_replay(other.core, NOW_US + 5000)


@pytest.mark.parametrize(
    ("command", "key"),
    [("SET", ["k"]), ("APPEND", ["k"]), ("HSET", ["k", "f"])],
)
def test_the_checksum_of_a_long_element_runs_in_steps(small_payloads, command, key):
    """The checksum of one long element is computed in steps that let others run; the payload shows no later change."""
    side = Side()
    side.core.allow_steps()
    words = [command.encode(), *(word.encode() for word in key), bytes(range(256)) * 4]
    side.core.execute(side.session, words, NOW_US)
    expected = dump.dumped(side.core.databases[0].get(b"k"))
    reply, count = finished(side, side.run("DUMP k"), {2: "DEL k"})
    assert count >= 10
    assert encoded(reply) == b"$%d\r\n%b\r\n" % (len(expected), expected)


# -- many keys and long hashes ----------------------------------------------------------------------------------


@pytest.fixture
def small_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits so that a few fields, keys and elements run in small steps."""
    sizes = {"PAGE_FIELDS": 6, "MANY_NAMES": 10, "IDS": 4, "NAMES": 6, "PIECES": 1, "CHECKED": 50, "ELEMENTS": 4}
    lower(monkeypatch, [(pace, sizes), (hashes, {"SCANNED_AT_ONCE": 0}), (writer, {"PIECE_BYTES": 30})])


_FIELDS = " ".join(f"field-{number}" for number in range(60))
SLOW_READS = [
    "HGETALL h",
    "HKEYS h",
    "HVALS h",
    "DUMP h",
    f"HMGET h {_FIELDS}",
]
#: Commands of another client while a hash of 50 fields is read.
DISTURBANCES = [
    "HSET h field-3 changed",
    "HSET h new new",
    "HDEL h field-1 field-2 field-49",
    "RENAME h h2; HSET h2 field-3 changed",
    "HGET h field-1; HGETALL h; DEL h",
    "SET h string",
    "FLUSHALL",
]


@pytest.mark.parametrize("command", SLOW_READS)
@pytest.mark.parametrize("disturbance", DISTURBANCES, ids=lambda value: str(value)[:20])
def test_a_long_hash_is_read_as_it_was_at_the_start(monkeypatch, small_hashes, command, disturbance):
    """While a hash is read in steps, other clients' changes wait, so that the reply does not show them."""
    monkeypatch.setattr(pace, "FREED", 5)
    side, twin = Side(), Side()
    expected = encoded(twin.run(command))
    side.core.allow_steps()
    steps = side.run(command)
    assert type(steps) is Steps
    reply, count = finished(side, steps, {3: disturbance + "; SET other key"})
    while side.core.changes.free():
        pass
    assert encoded(reply) == expected
    assert count >= 3
    twin.run(disturbance + "; SET other key")
    assert state(side.core) == state(twin.core)


def test_many_keys_are_deleted_in_steps(small_hashes):
    """DEL of many keys deletes some of them in each step and logs those that it deleted."""
    side = Side()
    side.core.allow_steps()
    names = [f"key-{number}" for number in range(50)]
    steps = side.run("DEL " + " ".join([*names, "none", "s", "h"]))
    assert type(steps) is Steps
    reply, count = finished(side, steps, {5: "SET key-1 again; EXPIRE key-40 1"})
    assert (reply, count) == (52, 12)
    assert side.run("EXISTS key-0 key-1 key-49 s h") == 1
    assert max(len(argv) for _, argv in side.core.changes.effects[-20:] if argv[0] == b"DEL") == 5
    check_replay(side.core, NOW_US + 5000)


@pytest.mark.parametrize(
    "command",
    [
        "HSET h " + _FIELDS.replace("f", "new-f") + " " + _FIELDS,
        "HMSET h " + _FIELDS.replace("f", "new-f") + " " + _FIELDS,
        f"HDEL h {_FIELDS}",
        f"MSET {_FIELDS.replace('f', 'new-f')} {_FIELDS}",
        f"MGET h {_FIELDS}",
    ],
    ids=lambda command: command[:20],
)
@pytest.mark.parametrize("meanwhile", ["PING", "HDEL h field-59", "DEL h", "SET h s"])
def test_many_words_are_processed_in_steps(monkeypatch, command, meanwhile):
    """Each step is logged on its own; the result equals that of a single run, and other commands follow it."""
    whole, side = Side(), Side()
    expected = whole.run(command)
    lower(monkeypatch, [(pace, {"MANY_ARGUMENTS": 20, "NAMES": 4})])
    side.core.allow_steps()
    steps = side.run(command)
    assert type(steps) is Steps
    reply, count = finished(side, steps, {2: meanwhile})
    assert count >= 13
    assert encoded(reply) == encoded(expected)
    whole.run(meanwhile)
    assert state(side.core) == state(whole.core)
    check_replay(side.core, NOW_US + 5000)


def test_many_names_are_matched_in_steps(small_hashes):
    """KEYS matches some names in each step; keys deleted meanwhile cause no error."""
    side = Side()
    side.core.allow_steps()
    reply, count = finished(side, side.run("KEYS key-*"))
    assert (len(set(reply)), count > 2) == (50, True)
    reply, _ = finished(side, side.run("KEYS key-*"), {1: "DEL key-49 key-48 key-0"})
    assert len(reply) <= 50


def test_restore_adds_nothing_if_the_payload_is_damaged(small_payloads):
    """An error in the last step of RESTORE leaves the data unchanged; a client that uses the key follows."""
    side = Side()
    payload = dump.dumped(side.core.databases[0].stream(b"s"))
    side.core.allow_steps()
    for key, options in ((b"new", []), (b"s", [b"REPLACE"])):
        words = [b"RESTORE", key, b"0", payload[:-1] + b"x", *options]
        reply, _ = finished(side, side.core.execute(side.session, words, NOW_US), {1: "SET new value"})
        assert isinstance(reply, CommandError)
        assert b"DUMP payload version or checksum" in reply.text
    assert side.run("GET new") == b"value"
    assert dump.dumped(side.core.databases[0].stream(b"s")) == payload
