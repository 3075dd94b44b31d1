"""Divided commands are atomic for other clients, while clients that use other keys are served between the steps."""

from __future__ import annotations

import os
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import hiredis
import pytest

from engine.core.commands.data import hashes
from engine.core.dispatch import Core
from engine.core.environment.divided_commands import DividedCommands
from engine.core.keyspace.changes import Effects
from engine.core.protocol import pace
from engine.core.protocol.replies import Reply, Steps
from engine.shell.durability.disk import DiskDurability
from engine.shell.durability.recovery import Commands
from engine.shell.network.server import ServerHost
from engine.shell.replication.failover import Failover
from engine.wire.encode import encoded
from tests.engine.shell.network.test_replies_in_pieces import rest
from tests.engine.shell.network.without_sockets import Shell
from tests.faults.disk import Disk
from tests.faults.engines import Engine, HandWorkers
from tests.harness.limits import lower
from tests.harness.replay import new_core, replayed, state


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide commands on a few words, keys or IDs."""
    sizes = {
        "MANY_ARGUMENTS": 20, "NAMES": 4, "MANY_NAMES": 10, "IDS": 4, "PAGE_FIELDS": 6, "MANY_IDS": 4, "PARSED": 10,
    }  # fmt: skip
    lower(monkeypatch, [(pace, sizes), (hashes, {"SCANNED_AT_ONCE": 0})])


class Client:
    """A client of a shell. ``replies``: the replies received so far."""

    def __init__(self, shell: Shell) -> None:
        self.connection, self.socket = shell.client()
        self._reader = hiredis.Reader()

    def send(self, *lines: str) -> None:
        """Send commands in one packet."""
        self.connection.data_received(b"".join(line.encode() + b"\r\n" for line in lines))

    def replies(self) -> list[Any]:
        """Return the replies since the last call."""
        self._reader.feed(self.socket.taken())
        found = []
        while (reply := self._reader.gets()) is not False:
            found.append(str(reply) if isinstance(reply, hiredis.ReplyError) else reply)
        return found

    def run(self, line: str) -> Any:
        """Return the reply to a command that does not have to wait."""
        self.send(line)
        (reply,) = self.replies()
        return reply


def logged(shell: Shell) -> Effects:
    """Return the list to which the effects of commands are added from now on."""
    effects: Effects = []
    shell.log.on_effects = effects.extend
    return effects


WORDS = " ".join(f"word-{number}" for number in range(40))
PAIRS = " ".join(f"field-{number} {number}" for number in range(40))
IDS = " ".join(f"{number}-1" for number in range(1, 41))
STREAM = (
    *(f"XADD s {number}-1 f v" for number in range(1, 51)),
    "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c STREAMS s >",
)

#: Commands that change data in steps: given data, the command, and a question about the data.
WRITES = [
    ((), f"HSET h {PAIRS}", "HLEN h"),
    ((f"HSET h {PAIRS}",), "HDEL h " + WORDS.replace("word", "field"), "HLEN h"),
    ((f"MSET {' '.join(f'word-{number} value' for number in range(40))}",), f"DEL {WORDS}", "EXISTS word-0 word-39"),
    (STREAM, f"XACK s g {IDS}", "XPENDING s g"),
    (STREAM, f"XDEL s {IDS}", "XLEN s"),
]


def given(shell: Shell, lines: tuple[str, ...]) -> None:
    client = Client(shell)
    for line in lines:
        client.send(line)
        rest(shell)


@pytest.mark.parametrize(("lines", "command", "question"), WRITES, ids=lambda value: str(value)[:14])
def test_a_reader_never_sees_a_part(shell, lines, command, question):
    """A command that reads a key sees all changes of a divided command, and a command on another key runs at once."""
    given(shell, lines)
    writer, reader, other = Client(shell), Client(shell), Client(shell)
    writer.send(command)
    assert writer.replies() == []
    reader.send(question, "PING")
    steps = 0
    while shell.runner.core.divided.running:
        assert reader.replies() == []
        assert other.run("INCR other") == (steps := steps + 1)
        shell.turns.run()
    assert steps > 5
    rest(shell)
    answer, pong = reader.replies()
    assert pong == b"PONG"
    assert reader.run(question) == answer
    assert not shell.runner.core.divided.running


@pytest.mark.parametrize("read", ["XREAD", "XREADGROUP GROUP g c"])
def test_a_read_of_many_streams_waits_after_its_steps(shell, read):
    """A blocking read that looks at many streams in steps waits if it finds nothing, and replies once."""
    keys = [f"k{number}" for number in range(10)]
    given(shell, tuple(f"XGROUP CREATE {key} g 0 MKSTREAM" for key in keys))
    ids = ">" if "GROUP" in read else "0"
    for leaves in (True, False):
        reader, writer = Client(shell), Client(shell)
        reader.send(f"{read} BLOCK 0 STREAMS {' '.join(keys)} {' '.join([ids] * 10)}")
        if leaves:
            reader.connection.connection_lost(None)
        rest(shell)
        assert reader.replies() == []
        assert len(shell.runner.core.sessions.blocked()) == (not leaves)
    assert not shell.runner.core.databases[0].waiting.keys() - {key.encode() for key in keys}
    writer.send("XADD k7 1-1 f v")
    rest(shell)
    assert reader.replies() == [[[b"k7", [[b"1-1", [b"f", b"v"]]]]]]
    assert not shell.runner.core.databases[0].waiting


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "CLIENT PAUSE 1 WRITE"])
def test_a_command_on_all_keys_finishes_divided_commands(shell, command):
    """FLUSHALL, SWAPDB and CLIENT PAUSE run at once, after all steps of divided commands."""
    shell.runner.core.host = type("Host", (), {"follow_pause": lambda self: None})()  # type: ignore[assignment]
    writer, caller = Client(shell), Client(shell)
    writer.send(f"HSET h {PAIRS}")
    shell.turns.run()
    assert caller.run(command) == b"OK"
    left = {key: len(value) for db in shell.runner.core.databases for key, value, _ in db.items()}
    assert left == ({} if "FLUSH" in command else {b"h": 40})
    rest(shell)
    assert writer.replies() == [40]


@pytest.mark.parametrize("request_line", ["SAVE", "BGSAVE", "BGREWRITEAOF", "CONFIG SET appendonly yes"])
def test_files_contain_no_part_of_a_command(shell, tmp_path, request_line):
    """A snapshot or a log's base that is requested between two steps contains all of the command. It does not wait for
    commands that start later.
    """
    runner = shell.runner
    core, workers = runner.core, HandWorkers()
    core.config.put("dir", os.fsencode(tmp_path))
    core.host = ServerHost(core.config, runner, cast(Any, None), lambda: None)
    durability = DiskDurability(core, workers, Disk())
    durability.start()
    writer, next_writer, caller = Client(shell), Client(shell), Client(shell)
    writer.send(f"HSET first {PAIRS}")
    for _ in range(3):
        shell.turns.run()
    caller.send(request_line)
    for number in range(20):
        next_writer.send(f"HSET next-{number} {PAIRS}")
        shell.turns.run()
        workers.turn()
    (reply,) = caller.replies()
    assert reply in (b"OK", b"Background saving scheduled", b"Background append only file rewriting scheduled")
    workers.run()
    durability.close()
    again = Engine(tmp_path, appendonly="no" if "SAVE" in request_line else "yes")
    assert again.run("HLEN first") == 40
    rest(shell)


def test_a_pipeline_of_xadds_waits_for_its_key(shell):
    """Pipelined XADDs wait for a held stream, and run at once on another stream; unread input stays with the client."""
    given(shell, STREAM)
    writer, waiting, other = Client(shell), Client(shell), Client(shell)
    add = b"".join(b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\n%d\r\n" % number for number in range(9))
    writer.send(f"XDEL s {IDS}", "XLEN s")
    waiting.connection.data_received(add)
    other.connection.data_received(add.replace(b"\ns\r", b"\nt\r"))
    assert (len(waiting.replies()), len(other.replies())) == (0, 9)
    assert not waiting.socket.reading
    rest(shell)
    assert len(waiting.replies()) == 9
    assert waiting.socket.reading
    assert (writer.replies()[0], other.run("XLEN s")) == (40, 19)


@pytest.mark.parametrize("by", ["", "t "])
def test_a_blocked_client_is_served_after_the_last_step(shell, by):
    """XREADGROUP gets its error when a divided DEL has removed its stream with many other keys, not before."""
    given(shell, ("XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM", f"MSET {WORDS} w"))
    writer, blocked, other = Client(shell), Client(shell), Client(shell)
    blocked.send(f"XREADGROUP GROUP g c BLOCK 0 STREAMS s {by}> {'> ' if by else ''}")
    writer.send(f"DEL s {WORDS}")
    assert other.run("INCR other") == 1
    while not writer.replies():
        assert blocked.replies() == []
        shell.turns.run()
    rest(shell)
    (reply,) = blocked.replies()
    assert reply.startswith("NOGROUP")


def test_a_client_that_starts_to_block_waits_first(shell):
    """XREAD on a held key waits for the last step, and then blocks or returns entries."""
    given(shell, STREAM)
    writer, blocked, other = Client(shell), Client(shell), Client(shell)
    writer.send(f"XDEL s {IDS}")
    blocked.send("XREAD BLOCK 0 COUNT 1 STREAMS s 0")
    assert blocked.replies() == []
    rest(shell)
    (reply,) = blocked.replies()
    assert (writer.replies(), reply) == ([40], [[b"s", [[b"41-1", [b"f", b"v"]]]]])
    writer.send(f"XDEL s {IDS}")
    blocked.send("XREAD BLOCK 0 STREAMS s $")
    rest(shell)
    assert blocked.replies() == []
    other.run("XADD s 51-1 f v")
    rest(shell)
    assert blocked.replies() == [[[b"s", [[b"51-1", [b"f", b"v"]]]]]]


@pytest.mark.parametrize("how", ["lost", "killed"])
def test_a_closed_connection_releases_its_keys(shell, how):
    """If the client of a divided command disconnects, the command is completed, and waiting clients continue."""
    writer, reader, gone, other = (Client(shell) for _ in range(4))
    writer.send(f"HSET h {PAIRS}")
    reader.send("HLEN h")
    gone.send("HLEN h", "HSET h late 1")
    for client in (writer, gone):
        if how == "killed":
            client.socket.abort()
        client.connection.connection_lost(None)
    rest(shell)
    assert reader.replies() == [40]
    assert other.run("HLEN h") == 40
    assert not shell.runner.core.divided.running


def test_a_failed_command_releases_its_keys(shell):
    """If a step fails, the client gets the error, and waiting clients continue."""
    given(shell, STREAM)
    writer, reader = Client(shell), Client(shell)
    writer.send(f"XDEL s {IDS} wrong")
    reader.send("XLEN s")
    rest(shell)
    assert writer.replies() == ["ERR Invalid stream ID specified as stream command argument"]
    assert reader.replies() == [50]


def test_a_held_key_does_not_expire(shell):
    """A key that becomes due between two steps expires after the last step, and not before it."""
    core = shell.runner.core
    writer, reader = Client(shell), Client(shell)
    writer.run("HSET h first 1")
    writer.run("PEXPIRE h 10000")
    events: list[bytes] = []
    writer.send(f"HSET h {PAIRS}")
    shell.turns.run()
    core.changes.on_event = lambda kind, event, key, db: events.append(event)
    assert core.expire_due(core.changes.now_us + 60_000_000) == 0
    assert events == []
    reader.send("HLEN h")
    rest(shell)
    assert writer.replies() == [40]
    assert reader.replies() == [41]
    assert core.expire_due(core.changes.now_us + 60_000_000) == 1
    assert reader.run("EXISTS h") == 0


def test_holding_writes_for_a_failover_finishes_divided_commands(shell):
    """Before writes are held, so that replicas can catch up, all steps of divided commands run."""
    core = shell.runner.core
    writer = Client(shell)
    writer.send(f"HSET h {PAIRS}")
    shell.turns.run()
    master = SimpleNamespace(replicas={1: None}, online=[], request_acks_soon=lambda: None)
    parts: Any = (core, shell.runner, master, SimpleNamespace(is_on=False), shell.turns, lambda: 0)
    Failover(*parts).start(None, 0, force=False)
    assert len(core.databases[0].get(b"h")) == 40
    rest(shell)
    assert writer.replies() == [40]


def test_a_command_of_the_master_does_not_wait(shell):
    """On a replica, a command from the master finishes the divided reads of its key, and leaves others alone."""
    core = shell.runner.core
    given(shell, (f"HSET h {PAIRS}", f"HSET h2 {PAIRS}"))
    readers = Client(shell), Client(shell)
    readers[0].send("HKEYS h")
    readers[1].send("HKEYS h2")
    shell.turns.run()
    core.changes.replaying = True
    Commands(core, core.open_session(0), core.changes.now_us).apply([b"DEL", b"h"], 0)
    core.changes.replaying = False
    assert [steps.argv for steps in core.divided.running] == [[b"HKEYS", b"h2"]]
    rest(shell)
    assert [len(reader.replies()[0]) for reader in readers] == [40, 40]


# -- several clients --------------------------------------------------------------------------------------------------


def _random_lines(chance: Random) -> list[str]:
    """Return the lines of one request of a client, on a few keys."""
    key, other = chance.choice("abc"), chance.choice("abc")
    words = " ".join(f"w-{chance.randrange(60)}" for _ in range(chance.choice([1, 3, 30, 45])))
    pairs = " ".join(f"{word} {chance.randrange(5)}" for word in words.split())
    line = chance.choice(
        [
            f"HSET h-{key} {pairs}",
            f"HDEL h-{key} {words}",
            f"HGETALL h-{key}",
            f"HMGET h-{key} {words}",
            f"HSET u-{key} {pairs}",
            f"HDEL u-{key} {words}",
            f"HKEYS u-{key}",
            f"HVALS u-{key}",
            f"DEL h-{key} u-{other} " + " ".join(f"none-{number}" for number in range(9)),
            f"RENAME h-{key} h-{other}",
            f"COPY u-{key} u-{other} REPLACE",
        ]
    )
    if not chance.randrange(6):
        return ["MULTI", f"HLEN h-{key}", line, f"HLEN u-{other}", "EXEC"]
    if not chance.randrange(8):
        return [f"WATCH h-{key}", "MULTI", f"HLEN h-{key}", line, "EXEC"]
    return ["FLUSHALL"] if not chance.randrange(60) else [line]


@pytest.mark.parametrize("seed", range(12))
def test_clients_on_few_keys_see_a_serial_order(shell, monkeypatch, seed):
    """Every command of several clients gets its reply; replies and data are those of some order without divisions."""
    chance = Random(seed)
    order: list[tuple[int, list[bytes]]] = []
    execute, end = Core.execute, DividedCommands.end

    def executed(core: Core, session: Any, argv: list[bytes], now_us: int) -> Reply:
        reply = execute(core, session, argv, now_us)
        if type(reply) is not Steps:
            order.append((session.id, argv))
        return reply

    def ended(divided: DividedCommands, steps: Steps) -> Any:
        order.append((steps.session.id, steps.argv))
        return end(divided, steps)

    monkeypatch.setattr(Core, "execute", executed)
    monkeypatch.setattr(DividedCommands, "end", ended)
    effects, clients, waited = logged(shell), [Client(shell) for _ in range(5)], 0
    for _ in range(300):
        lines = _random_lines(chance)
        client = chance.choice(clients)
        client.send(*lines)
        waited += len(shell.runner.waiting)
        for _ in range(chance.randrange(3)):
            shell.turns.run()
    assert waited
    rest(shell)
    monkeypatch.setattr(Core, "execute", execute)
    serial = new_core()
    sessions = {client.connection.session.id: serial.open_session(1) for client in clients}
    expected: dict[int, bytes] = dict.fromkeys(sessions, b"")
    for number, argv in order:
        expected[number] += encoded(serial.execute(sessions[number], argv, serial.changes.now_us))
    for client in clients:
        assert client.socket.taken() == expected[client.connection.session.id]
    assert state(serial) == state(shell.runner.core)
    assert state(replayed(effects)) == state(serial)
