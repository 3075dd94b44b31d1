"""Blocking XREAD and XREADGROUP: which clients are woken, by which changes, in which order, with which replies.

The module is long because all cases use waiting clients (`waiting`, `member`).
"""

from __future__ import annotations

import pytest

from tests.harness.clients import Client
from tests.harness.kinds import ProcessServer, Server
from tests.harness.marks import hand_clock, over_tcp, since
from tests.harness.replies import OK, WRONGTYPE, Error, Streams, entries
from tests.suite.waiting import wait_for

NOGROUP = Error("NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option")
UNBLOCKED_IN_7_0 = Error("UNBLOCKED the stream key no longer exists")


def waiting(server: Server, command: str) -> Client:
    """Return a client that waits in ``command``."""
    client = server.client()
    client.send(command)
    client.expect_blocked()
    return client


def got(*texts: str, key: str = "s") -> Streams:
    return Streams({key: entries(*texts)})


def timed_out(client: Client) -> None:
    """Check that the client has received the null array."""
    client.expect_reply(None)
    assert client.last_bytes == (b"_\r\n" if client.proto == 3 else b"*-1\r\n")


# -- data -------------------------------------------------------------------------------------------------------------


def test_a_reply_after_a_wait(server: Server) -> None:
    """A reply after a wait has the bytes of an immediate reply."""
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s 0")
    server.given("XADD s 1-1 f v")
    reader.receive()
    assert reader.last_bytes == server.wire("XREAD STREAMS s 0")


def test_every_reader_gets_the_entry(server: Server) -> None:
    """All clients that wait in XREAD get a new entry."""
    readers = [waiting(server, "XREAD BLOCK 0 STREAMS s $") for _ in range(4)]
    server.given("XADD s 1-1 f v")
    for reader in readers:
        reader.expect_reply(got("1-1 f v"))


def test_waiting_for_many_keys(server: Server) -> None:
    """A reader of many streams is woken by any of them."""
    for key in ("a", "b", "c"):
        reader = waiting(server, "XREAD BLOCK 0 STREAMS a b c $ $ $")
        server.given(f"XADD {key} 1-1 f v")
        reader.expect_reply(got("1-1 f v", key=key))
        server.given(f"XADD {key} 2-1 f v")
        reader.expect_nothing()
        server.given("FLUSHALL")


@since("7.4")
def test_waiting_for_the_last_entry(server: Server) -> None:
    """``+`` is the last entry at the time of the reply."""
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s +")
    server.given("MULTI", "XADD s 1-1 f 1", "XADD s 1-2 f 2", "EXEC")
    reader.expect_reply(got("1-2 f 2"))


@since("7.2")
def test_all_streams_with_data_are_in_the_reply(server: Server) -> None:
    """A woken command runs again from its start, and returns all streams that have data."""
    reader = waiting(server, "XREAD BLOCK 0 STREAMS a b $ $")
    server.given("MULTI", "XADD b 1-1 f v", "XADD a 1-1 f v", "EXEC")
    reader.expect_reply(Streams({"a": entries("1-1 f v"), "b": entries("1-1 f v")}))


@since("7.2")
def test_added_and_deleted_at_once(server: Server) -> None:
    """An entry that a transaction adds and deletes wakes no client."""
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s $")
    server.given("MULTI", "XADD s 1-1 f v", "XDEL s 1-1", "EXEC")
    reader.expect_blocked()
    server.given("XADD s 2-1 f v")
    reader.expect_reply(got("2-1 f v"))


# -- groups -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def group(server: Server) -> Server:
    """Return a server with an empty stream s and a group g."""
    server.given("XGROUP CREATE s g $ MKSTREAM")
    return server


def member(server: Server, name: str, options: str = "", streams: str = "s >") -> Client:
    """Return a client that waits as a consumer of g."""
    return waiting(server, f"XREADGROUP GROUP g {name} {options} BLOCK 0 STREAMS {streams}")


def test_a_group_is_served_first_come_first(group: Server) -> None:
    """Each new entry goes to the consumer that has waited longest."""
    members = [member(group, name, "COUNT 1") for name in ("a", "b", "c")]
    for turn, client in enumerate(members, 1):
        group.given(f"XADD s {turn}-0 f {turn}")
        client.expect_reply(got(f"{turn}-0 f {turn}"))
        for later in members[turn:]:
            later.expect_nothing()
    group.expect("XPENDING s g", [3, "1-0", "3-0", [["a", "1"], ["b", "1"], ["c", "1"]]])


def test_two_entries_for_three_consumers(group: Server) -> None:
    """Two entries at once serve the first two of three consumers that ask for one."""
    first, second, third = (member(group, name, "COUNT 1") for name in ("a", "b", "c"))
    group.given("MULTI", "XADD s 1-0 f 1", "XADD s 2-0 f 2", "EXEC")
    first.expect_reply(got("1-0 f 1"))
    second.expect_reply(got("2-0 f 2"))
    third.expect_blocked()
    group.given("XADD s 3-0 f 3")
    third.expect_reply(got("3-0 f 3"))


def test_the_first_consumer_takes_all(group: Server) -> None:
    """Without COUNT the first consumer gets everything, and the next continues to wait."""
    first, second = member(group, "a"), member(group, "b")
    group.given("MULTI", "XADD s 1-0 f 1", "XADD s 2-0 f 2", "EXEC")
    first.expect_reply(got("1-0 f 1", "2-0 f 2"))
    second.expect_blocked()


def test_groups_and_readers_are_independent(group: Server) -> None:
    """A reader and the consumers of two groups each get a new entry."""
    group.given("XGROUP CREATE s h $")
    clients = [
        member(group, "a"),
        waiting(group, "XREAD BLOCK 0 STREAMS s $"),
        waiting(group, "XREADGROUP GROUP h a BLOCK 0 STREAMS s >"),
    ]
    group.given("XADD s 1-0 f v")
    for client in clients:
        client.expect_reply(got("1-0 f v"))


def test_history_never_waits(group: Server) -> None:
    """A command that also reads the history of a stream replies at once, even with BLOCK 0."""
    group.given("XGROUP CREATE t g $ MKSTREAM")
    group.expect("XREADGROUP GROUP g a BLOCK 0 STREAMS s t > 0", Streams({"t": []}))


DISAPPEARANCES = {
    "DEL": ["DEL s"],
    "UNLINK": ["UNLINK s"],
    "RENAME": ["RENAME s elsewhere"],
    "FLUSHDB": ["FLUSHDB"],
    "FLUSHALL": ["FLUSHALL"],
    "MOVE": ["MOVE s 1"],
    "SWAPDB": ["SWAPDB 0 1"],
    "a transaction": ["MULTI", "DEL s", "EXEC"],
}


@pytest.mark.parametrize("how", DISAPPEARANCES)
def test_the_key_disappears(group: Server, how: str) -> None:
    """If the key disappears, consumers get an error; readers continue to wait and get entries of a new stream."""
    consumer = member(group, "a")
    reader = waiting(group, "XREAD BLOCK 0 STREAMS s $")
    group.given(*DISAPPEARANCES[how])
    consumer.expect_reply(group.newest(NOGROUP, before={"7.2": UNBLOCKED_IN_7_0}))
    reader.expect_blocked()
    group.given("XADD s 1-0 f v")
    reader.expect_reply(got("1-0 f v"))


@over_tcp
def test_a_stream_that_expires_in_a_transaction_wakes_no_client(server: Server) -> None:
    """An entry of a stream that expires before EXEC ends does not wake the client that waits for it."""
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s 0")
    server.given("MULTI", "XADD s 1-1 f old", "PEXPIRE s 5", "DEBUG SLEEP 0.03", "EXEC")
    reader.expect_blocked()
    server.expect("EXISTS s", 0)
    server.given("XADD s 2-1 f new")
    reader.expect_reply(got("2-1 f new"))


def test_the_key_expires(group: Server) -> None:
    """If the key expires, consumers get an error and readers continue to wait."""
    consumer = member(group, "a")
    reader = waiting(group, "XREAD BLOCK 0 STREAMS s $")
    group.given("PEXPIRE s 5")
    group.let_pass(10)
    consumer.expect_reply(group.newest(NOGROUP, before={"7.2": UNBLOCKED_IN_7_0}))
    reader.expect_blocked()


def test_the_type_changes(group: Server) -> None:
    """If the key gets another type, consumers get an error and readers continue to wait."""
    consumer = member(group, "a")
    reader = waiting(group, "XREAD BLOCK 0 STREAMS s $")
    group.given("SET s text")
    consumer.expect_reply(group.newest(WRONGTYPE, before={"7.2": UNBLOCKED_IN_7_0}))
    reader.expect_blocked()


def test_the_group_is_destroyed(group: Server) -> None:
    """XGROUP DESTROY ends the wait of the group's consumers, and of no other client."""
    group.given("XGROUP CREATE s h $")
    consumer, other = member(group, "a"), waiting(group, "XREADGROUP GROUP h a BLOCK 0 STREAMS s >")
    group.given("XGROUP DESTROY s g")
    in_7_0 = Error("NOGROUP the consumer group this client was blocked on no longer exists")
    consumer.expect_reply(group.newest(NOGROUP, before={"7.2": in_7_0}))
    other.expect_blocked()


def test_the_key_comes_back_without_the_group(group: Server) -> None:
    """A consumer gets an error if a transaction replaces the stream with one without the group."""
    consumer = member(group, "a")
    group.given("MULTI", "DEL s", "XADD s 1-0 f v", "EXEC")
    in_7_0 = Error("NOGROUP the consumer group this client was blocked on no longer exists")
    consumer.expect_reply(group.newest(NOGROUP, before={"7.2": in_7_0}))


def test_the_key_comes_back_with_the_group(group: Server) -> None:
    """A consumer is served if a transaction replaces the stream with one that has the group and data."""
    consumer = member(group, "a")
    group.given("MULTI", "DEL s", "XADD s 1-0 f v", "XGROUP CREATE s g 0", "EXEC")
    consumer.expect_reply(got("1-0 f v"))


ARRIVALS = {
    "RENAME": ["RENAME other s"],
    "RENAMENX": ["RENAMENX other s"],
    "COPY": ["COPY other s"],
    "MOVE": ["SELECT 1", "MOVE s 0", "SELECT 0"],
    "SWAPDB": ["SWAPDB 0 1"],
}


@pytest.mark.parametrize("how", ARRIVALS)
def test_a_stream_is_created(server: Server, how: str) -> None:
    """A stream created by any command serves the clients that wait for its key."""
    server.given("SELECT 1", "XADD s 5-0 f v", "SELECT 0", "XADD other 5-0 f v")
    new, all_of_it = waiting(server, "XREAD BLOCK 0 STREAMS s $"), waiting(server, "XREAD BLOCK 0 STREAMS s 4")
    later = waiting(server, "XREAD BLOCK 0 STREAMS s 9")
    server.given(*ARRIVALS[how])
    new.expect_reply(got("5-0 f v"))
    all_of_it.expect_reply(got("5-0 f v"))
    later.expect_blocked()


def test_restored_by_dump(server: Server) -> None:
    """RESTORE creates a stream that serves waiting clients."""
    server.given("XADD other 5-0 f v")
    dump = server.run("DUMP other")
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s 0")
    server.expect(("RESTORE", "s", "0", dump), OK)
    reader.expect_reply(got("5-0 f v"))


@since("7.2")
def test_a_first_read_makes_the_consumer(group: Server) -> None:
    """A consumer exists as soon as its first command waits."""
    member(group, "a")
    rows = group.run("XINFO CONSUMERS s g")
    assert len(rows) == 1


REPLACED = {
    "COPY": ["COPY other s REPLACE"],
    "RENAME": ["RENAME other s"],
    "MOVE": ["SELECT 1", "MULTI", "SELECT 0", "DEL s", "SELECT 1", "MOVE s 0", "EXEC", "SELECT 0"],
    "SWAPDB": ["SWAPDB 0 1"],
    "DESTROY": ["MULTI", "XGROUP DESTROY s g", "XGROUP CREATE s g $", "XGROUP CREATECONSUMER s g a", "EXEC"],
}


@since("7.2", valkey="8.0")
@pytest.mark.parametrize("how", REPLACED)
def test_waiting_consumers_join_a_replacing_group(group: Server, how: str) -> None:
    """If another stream or another group of the same name replaces theirs, waiting consumers become its consumers."""
    for setup in ("SELECT 1", "SELECT 0"):
        key = "s" if setup == "SELECT 1" else "other"
        group.given(setup, f"XGROUP CREATE {key} g $ MKSTREAM", f"XGROUP CREATECONSUMER {key} g a")
    consumers = [member(group, name) for name in "abc"]
    group.given(*REPLACED[how])
    for name in "abc":
        group.expect(f"XGROUP CREATECONSUMER s g {name}", 0)
    for consumer in consumers:
        consumer.expect_blocked()
    group.given("XADD s 7-1 f v")
    consumers[0].expect_reply(got("7-1 f v"))


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_wait_times_out(server: Server) -> None:
    """After the timeout the reply is the null array."""
    reader = server.client()
    reader.send("XREAD BLOCK 30 STREAMS s $")
    server.let_pass(35)
    timed_out(reader)
    server.given("XADD s 1-1 f v")
    reader.expect("PING", "PONG")


@hand_clock
def test_the_deadline_stays(group: Server) -> None:
    """A client that is woken without data waits for the rest of its time, not for the whole time again."""
    first, second = (waiting(group, f"XREADGROUP GROUP g {name} BLOCK 100 STREAMS s >") for name in ("a", "b"))
    group.let_pass(60)
    group.given("XADD s 1-0 f v")
    first.expect_reply(got("1-0 f v"))
    second.expect_blocked()
    group.let_pass(39)
    second.expect_blocked()
    group.let_pass(1)
    timed_out(second)


@hand_clock
def test_zero_waits_indefinitely(server: Server) -> None:
    """BLOCK 0 waits indefinitely."""
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s $")
    server.let_pass(1000 * 60 * 60 * 24 * 365)
    reader.expect_blocked()


@hand_clock
def test_deadlines_are_independent(server: Server) -> None:
    """Each client's wait ends at its own time."""
    late, early = waiting(server, "XREAD BLOCK 50 STREAMS s $"), waiting(server, "XREAD BLOCK 20 STREAMS s $")
    server.let_pass(20)
    timed_out(early)
    late.expect_blocked()
    server.let_pass(30)
    timed_out(late)


# -- other ways out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"])
def test_no_waiting_in_a_transaction(group: Server, command: str) -> None:
    """A blocking read in a transaction returns nil at once."""
    group.given("MULTI", command, "XADD s 1-0 f v")
    group.expect("EXEC", [None, "1-0"])


@pytest.mark.parametrize("command", ["XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"])
def test_the_client_disconnects(group: Server, command: str) -> None:
    """A new entry is not delivered to a waiting client that has disconnected."""
    client = waiting(group, command)
    client.close()
    if group.kind != "core":
        assert isinstance(group, ProcessServer)
        control = group.control
        wait_for(lambda: len(control.client_list()) == 2, "the server to see that the client has gone")
    group.given("XADD s 1-0 f v")
    group.expect("XPENDING s g", [0, None, None, None])
    group.expect("XREADGROUP GROUP g b STREAMS s >", got("1-0 f v"))


@over_tcp
@pytest.mark.parametrize(
    ("words", "reply"),
    [("", None), ("TIMEOUT", None), ("ERROR", Error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))],
)
def test_client_unblock(server: Server, words: str, reply: object) -> None:
    """CLIENT UNBLOCK ends another client's wait with the reply of a timeout or an error; INFO counts only the error."""
    server.given("CONFIG RESETSTAT")
    reader = server.client()
    number = reader.run("CLIENT ID")
    reader.send("XREAD BLOCK 0 STREAMS s $")
    reader.expect_blocked()
    server.expect(f"CLIENT UNBLOCK {number} {words}", 1)
    reader.expect_reply(reply)
    server.expect(f"CLIENT UNBLOCK {number}", 0)
    assert (b"errorstat_UNBLOCKED:count=1" in server.run("INFO errorstats")) == (words == "ERROR")


@over_tcp
def test_commands_after_a_wait(server: Server) -> None:
    """Commands that a client sends while it is blocked run after its wait, in order."""
    reader = server.client()
    reader.send("XREAD BLOCK 0 STREAMS s $")
    reader.send("PING")
    reader.send("XLEN s")
    reader.expect_blocked()
    server.expect("XADD s 1-1 f v", "1-1")
    reader.expect_reply(got("1-1 f v"))
    reader.expect_reply("PONG")
    reader.expect_reply(1)


def test_a_wait_in_another_database(server: Server) -> None:
    """A key in another database does not wake a client."""
    reader = server.client()
    reader.expect("SELECT 1", OK)
    reader.send("XREAD BLOCK 0 STREAMS s $")
    reader.expect_blocked()
    server.given("XADD s 1-1 f v")
    reader.expect_blocked()
    server.given("SELECT 1", "XADD s 2-2 f v", "SELECT 0")
    reader.expect_reply(got("2-2 f v"))


@since("8.0")
def test_the_slow_log_has_a_blocking_command_once(server: Server) -> None:
    """SLOWLOG records a blocking command once, when its wait ends: after the command that woke it or its timeout."""
    server.config("slowlog-log-slower-than", 0)
    reader = waiting(server, "XREAD BLOCK 0 STREAMS s $")
    server.expect("SLOWLOG RESET", OK)
    server.given("XADD s 1-0 f v")
    reader.expect_reply(got("1-0 f v"))
    short = server.client()
    short.send("XREAD BLOCK 10 STREAMS s $")
    server.let_pass(20)
    short.expect_reply(None)
    replica = server.client()
    replica.send("WAIT 1 10")
    server.let_pass(20)
    replica.expect_reply(0)
    ended = [entry[3] for entry in server.run("SLOWLOG GET -1") if entry[3][0] in (b"XREAD", b"XADD", b"WAIT")]
    assert ended[0] == [b"WAIT", b"1", b"10"]
    assert [words[:3] for words in ended[1:]] == [
        [b"XREAD", b"BLOCK", b"10"],
        [b"XREAD", b"BLOCK", b"0"],
        [b"XADD", b"s", b"1-0"],
    ]


@since("8.0")
@pytest.mark.parametrize(
    "command",
    ["CLIENT PAUSE {}", "WAIT 0 {}", "WAIT 1 {}", "XREAD BLOCK {} STREAMS s $", "CLIENT PAUSE {} WRITE"],
)
def test_the_end_of_a_timeout_has_64_bits(server: Server, command: str) -> None:
    """A timeout is rejected without any change if its end in milliseconds exceeds 64 bits."""
    server.expect_error(command.format(2**63 - 1), "ERR timeout is out of range")
    server.expect("SET k v", OK)


@over_tcp
def test_paused_clients_count_as_blocked(server: Server) -> None:
    """INFO's blocked_clients includes clients whose command CLIENT PAUSE holds back."""
    other = server.client()
    server.expect("CLIENT PAUSE 60000 WRITE", OK)
    other.send("SET k v")
    wait_for(lambda: b"\nblocked_clients:1\r" in server.run("INFO clients"), "the writer to be held back")
    server.expect("CLIENT UNPAUSE", OK)
    other.expect_reply(OK)
    assert b"\nblocked_clients:0\r" in server.run("INFO clients")
