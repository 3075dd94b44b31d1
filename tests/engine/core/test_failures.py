"""Unexpected errors in handlers: incomplete changes are neither continued nor recorded."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from engine.core.dispatch import SHOWING, Core, FatalError, only_reads
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import BLOCKED, CommandError
from engine.text import messages
from tests.harness.injection import MistakeError, by_name, counted_changes, fails_in
from tests.harness.replay import NOW_US, new_core, replayed, state

COMMANDS = by_name()
#: Commands that create the data before each tested command.
SETUP = (
    "SET string value",
    "SET number 5",
    "SET due value PX 1",
    "HSET hash f 1 g 2",
    *(f"XADD stream {number}-1 f v" for number in range(1, 6)),
    "XGROUP CREATE stream g 0",
    "XGROUP CREATECONSUMER stream g c",
    "XREADGROUP GROUP g a COUNT 3 STREAMS stream >",
    "XADD idempotent IDMP producer iid * f v",
)
#: Write commands that change something.
WRITES = """
    SET string v2 IFEQ value | EXPIRE string 100 | PEXPIRE string 100000 | EXPIREAT string 1700001000
    PEXPIREAT string 1700001000000 | SET other v | SET string v2 | SETNX other v | GETSET string v
    MSET a 1 b 2 c 3 | GETDEL string | GETEX string EX 100 | APPEND string more
    INCR number | DECR number | INCRBY number 3 | DECRBY number 3
    DEL string number | UNLINK string | FLUSHDB | FLUSHALL | RENAME string other | RENAMENX string other
    COPY stream other | MOVE string 1 | SWAPDB 0 1
    HSET hash h 3 | HMSET hash h 3 | HSETNX hash h 3 | HDEL hash f g | HINCRBY hash f 1
    XADD stream 9-1 f v | XADD other * f v | XADD stream MAXLEN = 2 * f v | XADD stream IDMP producer iid * f v
    XADD stream NOMKSTREAM DELREF MAXLEN = 1 * f v
    XDEL stream 1-1 2-1 | XDELEX stream DELREF IDS 2 1-1 2-1 | XTRIM stream MAXLEN 1 | XSETID stream 100-1
    XCLAIM stream g c 0 1-1 2-1 | XAUTOCLAIM stream g c 0 0 | XREADGROUP GROUP g c STREAMS stream >
    XREADGROUP GROUP g a STREAMS stream 0 | XREADGROUP GROUP g c CLAIM 0 STREAMS stream >
    XGROUP CREATE stream h 0 | XGROUP CREATE new h $ MKSTREAM | XGROUP SETID stream g 0 | XGROUP DESTROY stream g
    XGROUP CREATECONSUMER stream g d | XGROUP DELCONSUMER stream g a
    XACK stream g 1-1 2-1 | XACKDEL stream g DELREF IDS 1 1-1 | XNACK stream g FAIL IDS 1 1-1
    XCFGSET stream IDMP-DURATION 7 | XIDMPRECORD stream p i 1-1
    PS.DELIVER stream g c 4-1 5-1 | PS.ACKRANGE stream g - +
"""
CALLS = [call.strip() for line in WRITES.splitlines() for call in line.split("|") if call.strip()]


def prepared() -> tuple[Core, Any]:
    """Return a core after SETUP, at a time when a key is due, and a function that runs commands on it."""
    core = new_core()
    session = core.open_session(NOW_US)

    def run(text: str, who: Any = session, now: int = NOW_US) -> Any:
        return core.execute(who, text.encode().split(), now)

    for text in SETUP:
        assert not isinstance(run(text), CommandError), text
    return core, run


def same(first: Core, second: Core) -> bool:
    """Whether both cores have the same data, apart from the times of consumers."""
    for core in (first, second):
        core.changes.set_time(NOW_US)
    return state(first) == state(second)


@pytest.mark.parametrize("call", CALLS)
def test_nothing_of_a_failed_command_is_recorded(call):
    """A handler that fails at any of its changes raises a FatalError, and no effects are recorded."""
    with counted_changes() as bomb:
        core, run = prepared()
        before, bomb.counted = core.changes.effects[:], 0
        assert not isinstance(run(call), CommandError)
        changes = bomb.counted
        assert changes
        assert len(core.changes.effects) > len(before)
        for number in range(changes):
            core, run = prepared()
            before = core.changes.effects[:]
            bomb.left = number
            with pytest.raises(FatalError) as caught:
                run(call)
            bomb.left = None
            assert isinstance(caught.value.__cause__, MistakeError)
            assert caught.value.sizes == [len(word) for word in call.split()]
            assert core.changes.effects == before


@pytest.mark.parametrize("call", CALLS)
def test_a_failed_transaction_leaves_no_effects(call):
    """If a command of a transaction fails, replaying the log gives the state before the transaction."""
    with counted_changes() as bomb:
        core, run = prepared()
        model, _ = prepared()
        for text in ("MULTI", "SET before 1", call, "SET after 1"):
            run(text)
        # The first SET makes at most four changes, so a later command fails.
        bomb.left = 4
        with pytest.raises(FatalError):
            run("EXEC")
        bomb.left = None
    assert same(replayed(core.changes.effects), model)


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if not command.subcommands))
def test_the_consequence_of_a_failure_depends_on_the_command(name):
    """A failing read returns an error, a failing write raises a FatalError, and other commands close the client too."""
    command = COMMANDS[name]
    core = new_core()
    session = core.open_session(NOW_US)
    words = name.upper().encode().split(b"|")
    argv = words + [b"x"] * (abs(command.arity) - len(words))
    stops = command.writes or name in ("exec", "ps.exec") or ("admin" in command.flags and name not in SHOWING)
    with fails_in(command):
        if stops:
            with pytest.raises(FatalError):
                core.execute(session, argv, NOW_US)
            return
        reply = core.execute(session, argv, NOW_US)
    assert isinstance(reply, CommandError)
    assert reply.text == messages.INTERNAL_ERROR
    assert session.close_after_reply is not only_reads(command)
    assert not core.changes.effects


def test_a_failing_woken_reader_does_not_undo_the_command_that_woke_it():
    """If a woken command fails, its effects are discarded, and those of the command that woke it are kept."""
    waits, wakes = "XREADGROUP GROUP g c BLOCK 0 STREAMS stream >", "XADD stream * f v"
    with counted_changes() as bomb:
        model, run = prepared()
        run("XREADGROUP GROUP g c STREAMS stream >")
        bomb.counted = 0
        run(wakes)
        needed = bomb.counted
        core, run = prepared()
        run("XREADGROUP GROUP g c STREAMS stream >")
        reader = core.open_session(NOW_US)
        assert run(waits, reader) is BLOCKED
        bomb.left = needed
        with pytest.raises(FatalError) as caught:
            run(wakes)
        assert caught.value.session_id == reader.id
        bomb.left = None
    assert same(replayed(core.changes.effects), model)


def test_a_woken_command_that_reads_gets_an_error():
    """An XREAD that fails when woken returns an error to its client; the command that woke it returns its reply."""
    core, run = prepared()
    reader = core.open_session(NOW_US)
    assert run("XREAD BLOCK 0 STREAMS stream $", reader) is BLOCKED
    with fails_in(COMMANDS["xread"]):
        assert run("XADD stream 9-1 f v") == b"9-1"
    assert [(who, reply.text) for who, reply in core.outbox] == [(reader, messages.INTERNAL_ERROR)]
    assert reader.waiter is None


def test_a_key_that_expires_half_way_under_a_read_is_fatal(monkeypatch):
    """A failure while a read command drops an expired key is fatal."""
    core, run = prepared()

    def broken(self: Database, key: bytes) -> None:
        del self._values[key]
        raise MistakeError

    monkeypatch.setattr(Database, "_drop", broken)
    with pytest.raises(FatalError):
        run("GET due", now=NOW_US + 5000)
    assert [b"DEL", b"due"] not in [words for _, words in core.changes.effects]


def test_a_run_of_xadds_that_fails_is_fatal(monkeypatch):
    """A pipeline of XADDs that fails after its first key leaves no effects."""
    from engine.core.commands.streams import xadd
    from engine.wire.bulk import Scanner

    core, _ = prepared()
    session = core.open_session(NOW_US)
    before = core.changes.effects[:]
    text = b"".join(
        b"*5\r\n$4\r\nXADD\r\n$1\r\n%b\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n" % key for key in (b"a", b"b") * 4
    )
    run = Scanner(patience=0).scan(text)
    assert run is not None
    original, calls = xadd._apply, []

    def second_fails(*words: Any) -> None:
        calls.append(words)
        if len(calls) == 2:
            raise MistakeError
        original(*words)

    monkeypatch.setattr(xadd, "_apply", second_fails)
    with pytest.raises(FatalError):
        core.execute_run(session, run, NOW_US)
    assert len(calls) == 2
    assert core.changes.effects == before
    assert b"a" in core.databases[0]  # The data in memory is incomplete, which is why the engine must stop.


def test_read_only_admin_commands_exist():
    """Each command in SHOWING is in the table as an administrative command that does not write."""
    assert set(COMMANDS) >= SHOWING
    assert all("admin" in COMMANDS[name].flags and not COMMANDS[name].writes for name in SHOWING)


@pytest.mark.parametrize(
    "words",
    [
        ("HSET", "string", "f", "v"),
        ("XADD", "stream", "1-0", "f", "v"),
        ("PS.ADD", "stream", "1", "f", "no positions", "v"),
        ("ACL", "SETUSER", "u", "nonsense"),
        ("HINCRBY", "hash", "f", "x"),
        ("NO-COMMAND",),
    ],
)
def test_arguments_of_a_rejected_command_are_freed_with_the_reply(words):
    """A rejected command leaves no reference cycles, so its arguments do not wait for the garbage collector."""
    core = new_core()
    session = core.open_session(NOW_US)
    for line in SETUP:
        core.execute(session, [word.encode() for word in line.split()], NOW_US)
    argv = [word.encode() for word in words]
    core.execute(session, argv[:], NOW_US)  # Run the command once before, to fill caches.
    gc.collect()
    gc.disable()
    try:
        core.execute(session, argv[:], NOW_US)
        assert gc.collect() == 0
    finally:
        gc.enable()
