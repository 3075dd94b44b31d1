"""Long replies sent in pieces, and long commands parsed and run in pieces, as seen by clients without a socket."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.protocol import pace, replies
from tests.engine.shell.network.without_sockets import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell with 50 strings; replies of more than ten elements have pages of five."""
    monkeypatch.setattr(pace, "MANY_WORDS", 10)
    monkeypatch.setattr(pace, "PAGE_WORDS", 5)
    shell = Shell()
    connection, transport = shell.client()
    connection.data_received(b"MSET " + b" ".join(b"k%d %d" % (number, number) for number in range(50)) + b"\r\n")
    assert transport.taken() == b"+OK\r\n"
    return shell


WHOLE = b"*50\r\n" + b"".join(b"$%d\r\n%d\r\n" % (len(b"%d" % number), number) for number in range(50))
MGET = b"MGET " + b" ".join(b"k%d" % number for number in range(50)) + b"\r\n"


def rest(shell: Shell) -> None:
    """Run the event loop until nothing is left to do."""
    for _ in range(1000):
        if not shell.turns.run():
            return
    raise AssertionError("the event loop still has work after 1,000 iterations")


def test_other_clients_are_served_between_two_pieces(shell):
    """Each iteration sends one piece of a long reply, and another client is served in between."""
    first, reader = shell.client()
    second, other = shell.client()
    first.data_received(MGET)
    received = [reader.taken()]
    while first.pieces is not None:
        assert received[-1].count(b"$") <= 5
        second.data_received(b"PING\r\n")
        assert other.taken() == b"+PONG\r\n"
        assert shell.turns.run()
        received.append(reader.taken())
    assert len(received) == 11
    assert b"".join(received) == WHOLE


def test_the_next_commands_wait_for_the_last_piece(shell):
    """Commands that follow a command with a long reply, in its packet or later, are answered after that reply, in
    order.
    """
    first, reader = shell.client()
    second, _ = shell.client()
    first.data_received(b"PING one\r\n" + MGET + b"STRLEN k49\r\n")
    first.data_received(MGET + b"PING two\r\n")
    second.data_received(b"SET k49 more\r\n")
    rest(shell)
    later = WHOLE.removesuffix(b"$2\r\n49\r\n") + b"$4\r\nmore\r\n"
    assert reader.taken() == b"$3\r\none\r\n" + WHOLE + b":4\r\n" + later + b"$3\r\ntwo\r\n"


def test_messages_follow_the_last_piece(shell):
    """A message published during a long reply is sent after the reply."""
    first, reader = shell.client()
    second, _ = shell.client()
    first.data_received(b"HELLO 3\r\nSUBSCRIBE news\r\n")
    reader.taken()
    first.data_received(MGET)
    second.data_received(b"PUBLISH news hello\r\n")
    rest(shell)
    assert reader.taken() == WHOLE + b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n"


def test_a_client_that_does_not_read_gets_no_more_pieces(shell):
    """While a client has many unread bytes, no piece is made for it; the next pieces follow when it has read them."""
    first, reader = shell.client()
    first.data_received(MGET)
    first.pause_writing()
    rest(shell)
    begun = reader.taken()
    assert begun
    assert len(begun) < len(WHOLE) // 3
    first.resume_writing()
    rest(shell)
    assert begun + reader.taken() == WHOLE


def test_a_closing_connection_closes_after_the_last_piece(shell):
    """A transaction that closes the connection sends its whole reply first."""
    first, reader = shell.client()
    first.data_received(b"CLIENT ID\r\n")
    number = reader.taken()[1:-2]
    first.data_received(b"MULTI\r\n" + MGET + b"CLIENT KILL ID " + number + b" SKIPME no\r\nEXEC\r\nPING\r\n")
    rest(shell)
    assert reader.taken().endswith(b"*2\r\n" + WHOLE + b":1\r\n")
    assert reader.ended == "closed"


def test_an_unfinished_reply_closes_the_connection(shell, monkeypatch):
    """If a piece cannot be made, its client is disconnected: no other reply may follow a partial one."""
    first, reader = shell.client()

    def pages(items: list[Any]) -> replies.Pages:
        return replies.Pages(list, len(items), iter([items[:3], [object()]]))

    monkeypatch.setattr("engine.core.commands.data.strings.paged", pages)
    first.data_received(MGET + b"PING\r\n")
    rest(shell)
    assert reader.taken() == b"*50\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n"
    assert reader.ended == "aborted"


def test_muted_clients_get_no_piece(shell):
    """CLIENT REPLY OFF applies to long replies too."""
    first, reader = shell.client()
    first.data_received(b"CLIENT REPLY OFF\r\n" + MGET + b"CLIENT REPLY ON\r\n")
    rest(shell)
    assert reader.taken() == b"+OK\r\n"


def test_a_command_of_very_many_words_is_parsed_in_pieces(shell):
    """The arguments of a very long command are parsed over several iterations, and other clients are
    served in between.
    """
    first, reader = shell.client()
    second, other = shell.client()
    words = [b"XDEL", b"s", *(b"%d-1" % number for number in range(30_000))]
    data = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    first.data_received(data[:1000])
    first.data_received(data[1000:])
    answers = 0
    while first.unparsed:
        assert first.parser.buffered < 64 * 1024 * (answers + 1)
        second.data_received(b"PING\r\n")
        assert other.taken() == b"+PONG\r\n"
        answers += 1
        assert shell.turns.run()
    assert answers == len(data) // (64 * 1024)
    first.data_received(data + b"PING\r\n")
    rest(shell)
    assert reader.taken() == b":0\r\n:0\r\n+PONG\r\n"


@pytest.mark.parametrize("command", [b"a\r\n", b"\r\n", b"*0\r\n", b"AUTH wrong\r\n", b"HELLO\r\n"])
def test_a_client_without_login_delays_no_other(command):
    """Before login, one command runs per iteration, in pieces of a kilobyte, until the client is disconnected."""
    shell = Shell()
    shell.runner.core.config.change([(b"requirepass", b"secret")])
    connection, transport = shell.client()
    data, work = command * ((1 << 20) // len(command)), 0
    for at in range(0, len(data), 1 << 18):
        waiting = connection.unparsed_size
        connection.data_received(data[at : at + (1 << 18)])
        assert connection.unparsed_size >= waiting + (1 << 18) - 1024 or transport.ended
    while not transport.ended:
        waiting, replies = connection.unparsed_size, transport.written.count(b"\r\n")
        assert shell.turns.run()
        assert transport.written.count(b"\r\n") <= replies + 1
        assert waiting - connection.unparsed_size <= 1024
        work += 1
    assert transport.ended == "aborted"
    assert work < 10_000


def test_commands_behind_a_login_run(shell):
    """A login with a long pipeline behind it, all in one packet, is answered in order."""
    shell.runner.core.config.change([(b"requirepass", b"secret")])
    connection, transport = shell.client()
    connection.data_received(b"PING\r\nAUTH secret\r\n" + b"PING\r\n" * 100_000)
    rest(shell)
    assert transport.taken() == b"-NOAUTH Authentication required.\r\n+OK\r\n" + b"+PONG\r\n" * 100_000


# -- commands that run in steps ---------------------------------------------------------------------------------------


@pytest.fixture
def many_ids(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell with a stream of 50 entries, where XDEL runs in steps of five IDs."""
    monkeypatch.setattr(pace, "MANY_IDS", 5)
    connection, transport = shell.client()
    connection.data_received(b"".join(b"XADD s %d-1 field value\r\n" % number for number in range(1, 51)))
    transport.taken()
    return shell


XDEL = b"XDEL s " + b" ".join(b"%d-1" % number for number in range(1, 41)) + b"\r\n"


def test_other_clients_are_served_after_a_large_input_of_one_client(shell):
    """After a large input, even a pipeline of XADDs, the client's connection is not read until the next iteration."""
    first, sender = shell.client()
    second, other = shell.client()
    add = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n"
    first.data_received(add * 1000)
    assert sender.reading
    first.data_received(add * 4000)
    assert not sender.reading
    second.data_received(b"XLEN s\r\n")
    assert other.taken() == b":5000\r\n"
    rest(shell)
    assert sender.reading
    first.data_received(b"XLEN s\r\n")
    assert sender.reading
    assert sender.taken().endswith(b"\r\n:5000\r\n")


def test_nothing_is_read_while_a_command_runs_in_steps(many_ids):
    """A client's connection is not read while its command runs in steps, and is read again after the reply."""
    first, reader = many_ids.client()
    first.data_received(XDEL)
    while not reader.written:
        assert not reader.reading
        assert many_ids.turns.run()
    rest(many_ids)
    assert reader.reading


def test_an_unexpected_error_in_a_step_stops_the_engine(many_ids, monkeypatch):
    """A failed step is not logged: the engine stops, and the log has the steps before it."""
    first, reader = many_ids.client()
    effects: list[Any] = []
    ended: list[bool] = []
    many_ids.runner.core.changes.recording = True
    many_ids.log.on_effects = effects.extend
    many_ids.runner.on_failure = lambda: ended.append(True)
    first.data_received(XDEL)
    for _ in range(3):
        many_ids.turns.run()

    def fails(*words: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("engine.core.streams.stream.Stream.delete_many", fails)
    rest(many_ids)
    assert ended == [True]
    assert [len(argv) for _, argv in effects] == [7] * 4
    assert reader.taken() == b"-ERR internal error\r\n"
