"""Publish and subscribe with channels and patterns, and keyspace notifications."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import OK, Error
from tests.servers.releases import Newest


def test_each_channel_gets_its_own_reply(server: Server) -> None:
    """Each channel and pattern gets its own reply with the number of subscriptions."""
    client = server.client()
    client.send("SUBSCRIBE a b a")
    for channel, count in (("a", 1), ("b", 2), ("a", 2)):
        client.expect_reply(["subscribe", channel, count])
    client.send("PSUBSCRIBE p* q?")
    client.expect_reply(["psubscribe", "p*", 3])
    client.expect_reply(["psubscribe", "q?", 4])
    client.send("UNSUBSCRIBE a nothing")
    client.expect_reply(["unsubscribe", "a", 3])
    client.expect_reply(["unsubscribe", "nothing", 3])
    client.send("PUNSUBSCRIBE p*")
    client.expect_reply(["punsubscribe", "p*", 2])
    client.send("UNSUBSCRIBE")
    client.expect_reply(["unsubscribe", "b", 1])
    client.send("PUNSUBSCRIBE")
    client.expect_reply(["punsubscribe", "q?", 0])
    client.expect("PING", "PONG")


def test_unsubscribing_without_subscriptions_gets_a_reply(server: Server) -> None:
    """UNSUBSCRIBE and PUNSUBSCRIBE without subscriptions reply once, with nil instead of a channel; Valkey 8.0 returns
    an error.
    """
    for command in ("unsubscribe", "punsubscribe"):
        answer = [command, None, 0]
        refusal = Error(f"NOSUB '{command}' command executed not in subscribed mode")
        server.expect(command, Newest(answer, valkey={"8.1": answer, "8.0": refusal}))


def test_messages_reach_subscribers(server: Server) -> None:
    """PUBLISH returns its number of deliveries; a client gets a message once for its channel and once
    for each pattern.
    """
    client = server.client()
    client.send("SUBSCRIBE news")
    client.receive()
    client.send("PSUBSCRIBE n* *s")
    client.receive(), client.receive()
    play(server, [("PUBLISH news hello", 3), ("PUBLISH other x", 0), ("PUBLISH names y", 2)])
    client.expect_reply(["message", "news", "hello"])
    for channel, message in ((b"news", b"hello"), (b"names", b"y")):
        # The order of patterns depends on redis-server's hash seed.
        both = sorted([client.receive(), client.receive()])
        assert both == [[b"pmessage", pattern, channel, message] for pattern in (b"*s", b"n*")]
    client.expect_nothing()


def test_messages_are_pushes_in_resp3(server: Server) -> None:
    """In RESP3 subscriptions and messages are push data; in RESP2 they are arrays."""
    client = server.client()
    kind = b">" if server.proto == 3 else b"*"
    assert client.wire("SUBSCRIBE c") == kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
    server.run("PUBLISH c m")
    client.receive()
    assert client.last_bytes == kind + b"3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"


def test_commands_of_a_subscriber(server: Server) -> None:
    """A subscriber in RESP2 may only subscribe and ping, and PING returns an array; in RESP3 it may run any command."""
    client = server.client()
    client.run("SUBSCRIBE c")
    if server.proto == 3:
        client.expect("GET k", None)
        client.expect("PING", "PONG")
        return
    client.expect(
        "GET k",
        Error(
            "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
            "context"
        ),
    )
    client.expect("PING", ["pong", ""])
    client.expect("PING x", ["pong", "x"])


def test_pubsub_lists_subscriptions(server: Server) -> None:
    """PUBSUB lists channels with subscribers, and counts subscribers and patterns."""
    first, second = server.client(), server.client()
    first.run("SUBSCRIBE a")
    second.run("SUBSCRIBE a")
    second.run("PSUBSCRIBE a*")
    play(
        server,
        [
            ("PUBSUB CHANNELS", ["a"]),
            ("PUBSUB CHANNELS b*", []),
            ("PUBSUB NUMSUB a b", ["a", 2, "b", 0]),
            ("PUBSUB NUMSUB", []),
            ("PUBSUB NUMPAT", 1),
            ("PUBSUB NUMPAT x", Error("ERR wrong number of arguments for 'pubsub|numpat' command")),
            ("PUBSUB FOO", Error("ERR unknown subcommand 'FOO'. Try PUBSUB HELP.")),
            (
                "PUBSUB CHANNELS a b",
                Error("ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP."),
            ),
        ],
    )


def test_subscribing_in_a_transaction(server: Server) -> None:
    """SUBSCRIBE can be queued; its reply is one of EXEC's replies."""
    client = server.client()
    client.run("MULTI")
    client.run("SUBSCRIBE c")
    client.expect("EXEC", [["subscribe", "c", 1]])
    server.expect("PUBLISH c m", 1)
    client.expect_reply(["message", "c", "m"])


#: notify-keyspace-events, the commands, and the expected events, each as ``event key``.
EVENTS = [
    (
        "E$",
        ["SET k v", "SET k v EX 100", "GETSET k 1", "INCR k", "APPEND k 1", "DEL k"],
        ["set k", "set k", "set k", "incrby k", "append k"],
    ),
    (
        "EA",
        ["SET k v EX 100", "PERSIST k", "EXPIRE k 5", "DEL k"],
        ["set k", "expire k", "persist k", "expire k", "del k"],
    ),
    ("EA", ["SET k v", "EXPIRE k -1", "GETDEL k"], ["set k", Newest("del k", valkey={"8.1": "expired k"})]),
    (
        "EA",
        ["SET a v", "RENAME a b", "COPY b c", "MOVE c 1"],
        ["set a", "rename_from a", "rename_to b", "copy_to c", "move_from c", "move_to c"],
    ),
    ("EnA", ["SET a v", "SET a w", "RENAME a b"], ["new a", "set a", "set a", "new b", "rename_from a", "rename_to b"]),
    (
        "Em",
        ["GET no", "EXISTS no", "TTL no", "HGET no f", "HLEN no", "DEL no", "MGET no"],
        ["keymiss no", "keymiss no", "keymiss no", "keymiss no", "keymiss no", "keymiss no"],
    ),
    (
        "Em",
        ["XLEN no", "XRANGE no - +", "XREVRANGE no + -", "XACK no g 1-1", "XDEL no 1-1", "XADD no NOMKSTREAM * f v"],
        ["keymiss no", "keymiss no", "keymiss no", "keymiss no"],
    ),
    (
        "Eh",
        ["HSET h f 1", "HINCRBY h f 1", "HDEL h x", "HDEL h f"],
        ["hset h", "hincrby h", "hdel h"],
    ),
    ("EA", ["HSET h f 1", "HDEL h f"], ["hset h", "hdel h", "del h"]),
    ("Eg", ["SET a 1", "FLUSHALL"], []),
]


@pytest.mark.parametrize(("letters", "lines", "events"), EVENTS)
def test_keyspace_events(server: Server, letters: str, lines: list[str], events: list[Any]) -> None:
    """Commands publish the same events of the enabled classes as in Redis."""
    server.config("notify-keyspace-events", letters)
    client = server.client()
    client.run("PSUBSCRIBE __keyevent@*")
    server.given(*lines)
    for event in events:
        _, _, channel, key = client.receive()
        assert server.same(channel.rpartition(b":")[2] + b" " + key, event)
    client.expect_nothing()


@since("8.2")
@pytest.mark.parametrize(
    ("lines", "events"),
    [
        (["SET a 1", "SET a 1", "APPEND a 2", "SET a 1 EX 9", "INCR a"], ["overwritten a"] * 2),
        (["HSET l f v", "SET l 1"], ["overwritten l", "type_changed l"]),
        (
            ["MSET a 1 b 1", "HSET l f v", "MSET a 2 l 1 n 1", "GETSET b 2"],
            ["overwritten a", "overwritten l", "type_changed l", "overwritten b"],
        ),
    ],
)
def test_events_of_replaced_values(server: Server, lines: list[str], events: list[str]) -> None:
    """The classes o and c report each key whose value, or whose type, a command has replaced."""
    server.config("notify-keyspace-events", "Eoc")
    client = server.client()
    client.run("PSUBSCRIBE __keyevent@*")
    server.given(*lines)
    for event in events:
        _, _, channel, key = client.receive()
        assert channel.rpartition(b":")[2] + b" " + key == event.encode()
    client.expect_nothing()


@since("8.2")
def test_order_of_events_of_replaced_values(server: Server) -> None:
    """A replaced value is reported before SET's event, but after those of RENAME, COPY and RESTORE."""
    server.given("HSET l f v", "SET a 1", "SET b 1")
    payload = server.run("DUMP a")
    server.config("notify-keyspace-events", "EAoc")
    client = server.client()
    client.run("PSUBSCRIBE __keyevent@*")
    server.given("SET b 2", "COPY l b REPLACE", ("RESTORE", "b", "0", payload, "REPLACE"), "RENAME l b")
    replaced = ["overwritten", "type_changed"]
    for event in [
        "overwritten",
        "set",
        "copy_to",
        *replaced,
        "restore",
        *replaced,
        "rename_from",
        "rename_to",
        *replaced,
    ]:
        assert client.receive()[2].rpartition(b":")[2] == event.encode()
    client.expect_nothing()


def test_both_forms_of_events(server: Server) -> None:
    """K publishes the event's name on the key's channel, E the key on the event's channel."""
    server.config("notify-keyspace-events", "KE$")
    client = server.client()
    client.run("PSUBSCRIBE __key*__:*")
    server.given("SET k v")
    client.expect_reply(["pmessage", "__key*__:*", "__keyspace@0__:k", "set"])
    client.expect_reply(["pmessage", "__key*__:*", "__keyevent@0__:set", "k"])


def test_an_expired_key_is_an_event(server: Server) -> None:
    """An expired key publishes an event, at the latest when it is accessed."""
    server.config("notify-keyspace-events", "Ex")
    client = server.client()
    client.run("SUBSCRIBE __keyevent@0__:expired")
    server.given("SET k v PX 10")
    server.let_pass(15)
    server.expect("GET k", None)
    client.expect_reply(["message", "__keyevent@0__:expired", "k"])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("KEA", "AKE"),
        ("g$lshzxetdKE", "AKE"),
        ("Kgx", "gxK"),
        ("AnmKE", "AKEm"),
        ("nK$", "$nK"),
        pytest.param("cKonx", "xnocK", marks=since("8.2")),
        pytest.param("KEAoc", "AKE", marks=since("8.2")),
        ("", ""),
    ],
)
def test_how_the_setting_is_shown(server: Server, given: str, shown: str) -> None:
    """CONFIG GET shows the letters of notify-keyspace-events in a fixed order, and A for all types at once."""
    server.config("notify-keyspace-events", given)
    reply = server.run("CONFIG GET notify-keyspace-events")
    assert (reply if isinstance(reply, list) else [*reply.keys(), *reply.values()])[1] == shown.encode()


def test_a_wrong_letter_is_rejected(server: Server) -> None:
    """CONFIG SET rejects a wrong letter with an error that lists the letters."""
    server.expect(
        "CONFIG SET notify-keyspace-events Q",
        Error(
            "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class "
            "character. Use 'Ag$lshzxeKEtmdn'."
        ),
    )
    server.expect("CONFIG SET notify-keyspace-events KEA", OK)
    server.expect(("CONFIG", "SET", "notify-keyspace-events", ""), OK)


@since("8.0")
def test_own_messages_follow_the_reply(server: Server) -> None:
    """A RESP3 client that publishes to itself gets its reply first, also from EXEC and a keyspace event."""
    server.config("notify-keyspace-events", "K$")
    client = server.client()
    if client.proto == 2:
        pytest.skip("a subscriber in RESP2 cannot publish")
    client.expect("SUBSCRIBE c", ["subscribe", "c", 1])
    message = ["message", "c", "hello"]
    client.send("PUBLISH c hello")
    client.expect_reply(1)
    client.expect_reply(message)
    play_multi = ("MULTI", "PUBLISH c hello", "ECHO x")
    for command, reply in zip(play_multi, (OK, "QUEUED", "QUEUED"), strict=True):
        client.expect(command, reply)
    client.send("EXEC")
    client.expect_reply([1, "x"])
    client.expect_reply(message)
    client.expect("PSUBSCRIBE __key*", ["psubscribe", "__key*", 2])
    client.send("SET k v")
    client.expect_reply(OK)
    client.expect_reply(["pmessage", "__key*", "__keyspace@0__:k", "set"])
