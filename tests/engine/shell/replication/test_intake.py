"""Applying a master's stream to a core: in pieces of any size, with transactions as units, and passed on unchanged."""

from __future__ import annotations

import pytest

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.core.protocol.replies import BLOCKED
from engine.shell.replication.intake import Intake
from engine.shell.replication.link import command
from engine.wire.encode import encoded
from tests.harness.replay import commands, new_core, state

ADDS = b"".join(command(b"XADD", b"s", b"%d-0" % number, b"field", b"value%d" % number) for number in range(1, 400))
STREAM = (
    command(b"SELECT", b"3")
    + command(b"PING")
    + command(b"MULTI")
    + command(b"SET", b"a", b"1")
    + command(b"SELECT", b"4")
    + command(b"INCR", b"a")
    + command(b"EXEC")
    + ADDS
    + command(b"XGROUP", b"CREATE", b"s", b"g", b"0", b"ENTRIESREAD", b"-1")
    + command(b"XADD", b"s", b"MAXLEN", b"=", b"300", b"LIMIT", b"100", b"500-0", b"field", b"%" * 2000)
    + command(b"SET", b"gone", b"x", b"PXAT", b"1")
    + command(b"APPEND", b"gone", b"y")
)


class Replica:
    """A core with an intake, and the bytes that it passed on."""

    def __init__(self) -> None:
        self.core: Core = new_core()
        self.passed_on: list[bytes] = []
        self.intake = Intake(self.core, 0, self.passed_on.append)

    @property
    def fed(self) -> bytes:
        return b"".join(self.passed_on)

    def take(self, data: bytes) -> None:
        self.intake.feed(data)
        while not self.intake.is_idle:
            self.intake.work()


def test_a_stream_in_pieces_gives_the_same_data():
    """A stream that arrives in pieces of any size gives the same data and effects, and is passed on unchanged."""
    whole = Replica()
    whole.take(STREAM)
    assert whole.fed == STREAM
    assert whole.core.databases[4].get(b"s").length == 300
    for size in (1, 2, 3, 11, 64, 1000):
        replica = Replica()
        for at in range(0, len(STREAM), size):
            replica.take(STREAM[at : at + size])
        assert replica.fed == STREAM
        assert state(replica.core) == state(whole.core)
        assert commands(replica.core.changes.effects) == commands(whole.core.changes.effects)


def test_a_transaction_is_applied_and_passed_on_as_a_whole():
    """Until EXEC no command of a transaction runs or is passed on, and then its effects are one transaction."""
    replica = Replica()
    before = command(b"SET", b"k", b"0")
    replica.take(before + command(b"MULTI") + command(b"INCR", b"k") + command(b"INCR", b"other"))
    assert replica.core.databases[0].get(b"k") == b"0"
    assert replica.fed == before
    replica.core.changes.effects.clear()
    replica.take(command(b"EXEC"))
    assert replica.core.databases[0].get(b"k") == b"1"
    assert [argv[0] for _, argv in commands(replica.core.changes.effects)] == [b"MULTI", b"INCRBY", b"INCRBY", b"EXEC"]
    assert replica.fed.endswith(command(b"EXEC"))


def test_a_message_of_a_shard_channel_changes_nothing():
    """A message that a Redis master sends for shard channels, also in a transaction, does not end the stream."""
    message = command(b"SPUBLISH", b"news", b"a")
    replica = Replica()
    replica.take(message + command(b"MULTI") + message + command(b"SET", b"k", b"1") + command(b"EXEC"))
    assert replica.core.databases[0].get(b"k") == b"1"


def test_an_expired_key_stays_until_the_master_deletes_it():
    """The master's commands apply to an expired key; clients do not see the key, and it is kept."""
    replica = Replica()
    replica.core.changes.hold_expiry("master", 1 << 62)
    replica.take(command(b"SET", b"k", b"x", b"PXAT", b"1000") + command(b"APPEND", b"k", b"y"))
    client = replica.core.open_session(1)
    now = 2_000_000
    assert replica.core.execute(client, [b"EXISTS", b"k"], now) == 0
    assert replica.core.execute(client, [b"STRLEN", b"k"], now) == 0
    replica.core.expire_due(now)
    assert replica.core.databases[0].holds(b"k")
    replica.take(command(b"DEL", b"k"))
    assert not replica.core.databases[0].holds(b"k")


@pytest.mark.parametrize("adds", [command(b"XADD", b"s", b"1-0", b"f", b"v"), ADDS], ids=["one XADD", "a pipeline"])
def test_waiting_clients_see_no_expired_key(adds):
    """A client that waits for two streams, one of them expired, gets only the other one's entries."""
    replica = Replica()
    core = replica.core
    core.changes.hold_expiry("master", 1 << 62)
    replica.take(command(b"XADD", b"due", b"1-0", b"f", b"v") + command(b"PEXPIREAT", b"due", b"1000"))
    client = core.open_session(1)
    waits = [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"due", b"0", b"0"]
    assert core.execute(client, waits, 2_000_000) is BLOCKED
    replica.take(adds)
    [(session, reply)] = core.outbox
    assert session is client
    assert b"due" not in encoded(reply)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (command(b"PFADD", b"text", b"a"), "unknown command 'PFADD'"),
        (command(b"SELECT", b"99"), "SELECT 99"),
        (command(b"EXEC"), "EXEC without MULTI"),
        (b"*1\r\n$x\r\n", "this is not a command"),
        (b"*1\r\n:1\r\n", "this is not a command"),
    ],
)
def test_a_failing_command_stops_the_stream(wrong, why):
    """The error has the command and its offset; earlier commands have run and were passed on, later ones were not."""
    replica = Replica()
    before = command(b"SET", b"a", b"1")
    with pytest.raises(DamagedError, match=why) as caught:
        replica.take(before + wrong + command(b"SET", b"b", b"1"))
    assert caught.value.offset == len(before)
    assert replica.core.databases[0].get(b"a") == b"1"
    assert replica.core.databases[0].get(b"b") is None
    assert replica.fed == before


def test_a_master_s_duplicate_adds_nothing():
    """An idempotent XADD without its final ID, as a master may send a duplicate, adds no entry."""
    for option in (b"IDMP p i", b"IDMPAUTO p"):
        words = b"XADD s %b * f v" % option
        replica = Replica()
        replica.take(command(b"XADD", b"s", b"1-1", b"f", b"v") + command(*words.split()))
        assert replica.core.databases[0].get(b"s").length == 1
