"""Operations on several sorted sets, and popping members with and without blocking."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, Error, Score, Scored

_POSITIVE = Error("ERR value is out of range, must be positive")
_NUMKEYS = Error("ERR numkeys should be greater than 0")
_COUNT = Error("ERR count should be greater than 0")
_LIMIT = Error("ERR LIMIT can't be negative")


def _no_keys(command: str) -> Error:
    return Error(f"ERR at least 1 input key is needed for '{command}' command")


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("ZUNION 2 z y", ["a", "c", "b", "d", "e"]),
            ("ZUNION 2 z y WITHSCORES", Scored("a 1 c 3 b 12 d 23 e 30")),
            ("ZUNION 2 z y WEIGHTS 2 3 AGGREGATE MAX WITHSCORES", Scored("a 2 c 6 b 30 d 60 e 90")),
            ("ZUNION 2 z y AGGREGATE MIN WITHSCORES", Scored("a 1 b 2 c 3 d 3 e 30")),
            ("ZUNION 2 z set WITHSCORES", Scored("a 2 b 3 c 3 d 3")),
            ("ZUNION 2 set none WITHSCORES", Scored("a 1 b 1")),
            ("ZUNION 1 z WEIGHTS -inf WITHSCORES", Scored("a -inf b -inf c -inf d -inf")),
            ("ZUNION 2 z z AGGREGATE MIN AGGREGATE SUM WITHSCORES WITHSCORES", Scored("a 2 b 4 c 6 d 6")),
            ("ZINTER 2 z y WITHSCORES", Scored("b 12 d 23")),
            ("ZINTER 3 z set y", ["b"]),
            ("ZINTER 2 z none", []),
            ("ZINTER 2 z z WEIGHTS 1 -1 WITHSCORES", Scored("a 0 b 0 c 0 d 0")),
            ("ZDIFF 2 z y WITHSCORES", Scored("a 1 c 3")),
            ("ZDIFF 3 z set y", ["c"]),
            ("ZDIFF 2 set z", []),
            ("ZDIFF 1 none", []),
            ("ZINTERCARD 2 z y", 2),
            ("ZINTERCARD 2 z y LIMIT 1", 1),
            ("ZINTERCARD 2 z y LIMIT 0", 2),
            ("ZINTERCARD 2 z none", 0),
        ],
        [
            ("ZADD i inf a", 1),
            ("ZADD j -inf a", 1),
            ("ZUNION 2 i j WITHSCORES", Scored("a 0")),
            ("ZINTER 2 i j WEIGHTS 0 0 WITHSCORES", Scored("a 0")),
            ("ZUNION 2 i j WEIGHTS 0 1 WITHSCORES", Scored("a -inf")),
            ("ZINTER 2 i j WEIGHTS 1 0 WITHSCORES", Scored("a 0")),
            ("ZINTER 2 i j WEIGHTS 1 0 AGGREGATE MIN WITHSCORES", Scored("a inf")),
            ("ZUNION 2 i j WEIGHTS 1 0 AGGREGATE MIN WITHSCORES", Scored("a 0")),
        ],
        [
            ("ZUNIONSTORE d 2 z y WEIGHTS 1 0.5", 5),
            ("ZRANGE d 0 -1 WITHSCORES", Scored("a 1 c 3 b 7 d 13 e 15")),
            ("ZINTERSTORE d 2 z d", 4),
            ("ZRANGE d 0 -1 WITHSCORES", Scored("a 2 c 6 b 9 d 16")),
            ("ZDIFFSTORE d 2 d y", 2),
            ("ZRANGE d 0 -1 WITHSCORES", Scored("a 2 c 6")),
            ("ZDIFFSTORE d 2 z z", 0),
            ("EXISTS d", 0),
            ("SET s v EX 100", OK),
            ("ZUNIONSTORE s 1 set", 2),
            ("TTL s", -1),
            ("ZUNIONSTORE s 1 none", 0),
            ("EXISTS s", 0),
        ],
        [
            ("ZUNION 0 z", _no_keys("zunion")),
            ("ZINTERSTORE d 0 z", _no_keys("zinterstore")),
            ("ZINTERCARD -1 z", _no_keys("zintercard")),
            ("ZUNION x z", NOT_AN_INTEGER),
            ("ZUNION 3 z y", SYNTAX),
            ("ZUNION 9223372036854775807 z", SYNTAX),
            ("ZUNION 2 z y WEIGHTS 1", SYNTAX),
            ("ZUNION 2 z y WEIGHTS 1 x", Error("ERR weight value is not a float")),
            ("ZUNION 2 z y AGGREGATE FOO", SYNTAX),
            ("ZUNION 2 z y AGGREGATE", SYNTAX),
            ("ZUNION 2 z y FOO", SYNTAX),
            ("ZUNIONSTORE d 2 z y WITHSCORES", SYNTAX),
            ("ZDIFF 2 z y WEIGHTS 1 2", SYNTAX),
            ("ZDIFFSTORE d 2 z y AGGREGATE MAX", SYNTAX),
            ("ZINTERCARD 1 z WITHSCORES", SYNTAX),
            ("ZINTERCARD 1 z LIMIT -1", _LIMIT),
            ("ZINTERCARD 1 z LIMIT x", _LIMIT),
            ("SET s 1", OK),
            ("ZUNION 2 s z WEIGHTS x y", WRONGTYPE),
            ("ZDIFFSTORE d 2 none s", WRONGTYPE),
            ("EXISTS d", 0),
        ],
    ],
)
def test_operations_on_several_sorted_sets(server: Server, dialogue) -> None:
    """Unions, intersections and differences of sorted sets and sets, with weights, are returned and stored."""
    server.given("ZADD z 1 a 2 b 3 c 3 d", "ZADD y 10 b 20 d 30 e", "SADD set a b")
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("ZPOPMIN z", ["a", Score("1")]),
            ("ZPOPMAX z", ["e", Score("4.5")]),
            ("ZPOPMAX z 2", Scored("d 3 c 3")),
            ("ZPOPMIN z 0", []),
            ("ZPOPMIN z 9", Scored("b 2")),
            ("EXISTS z", 0),
            ("ZPOPMIN z", []),
            ("ZPOPMIN z 2", []),
        ],
        [
            ("ZPOPMIN z -1", _POSITIVE),
            ("ZPOPMIN z x", _POSITIVE),
            ("ZPOPMIN z 9223372036854775808", _POSITIVE),
            ("ZPOPMIN z 1 2", SYNTAX),
            ("ZMPOP 0 z MIN", _NUMKEYS),
            ("ZMPOP x z MIN", _NUMKEYS),
            ("ZMPOP 2 z MIN", SYNTAX),
            ("ZMPOP 1 z FOO", SYNTAX),
            ("ZMPOP 1 z MIN FOO", SYNTAX),
            ("ZMPOP 1 z MIN COUNT 0", _COUNT),
            ("ZMPOP 1 z MIN COUNT x", _COUNT),
            ("ZMPOP 1 z MIN COUNT", SYNTAX),
            ("ZMPOP 1 z MIN COUNT 1 COUNT 1", SYNTAX),
            ("BZMPOP x 0 z FOO", _NUMKEYS),
            ("BZMPOP x 1 z MIN", Error("ERR timeout is not a float or out of range")),
            ("BZMPOP -1 1 z MIN", Error("ERR timeout is negative")),
            ("BZPOPMIN z x", Error("ERR timeout is not a float or out of range")),
            ("BZPOPMIN z -1", Error("ERR timeout is negative")),
            ("ZCARD z", 5),
        ],
        [
            ("ZMPOP 2 none z MIN", ["z", [["a", Score("1")]]]),
            ("ZMPOP 2 z none MAX COUNT 2", ["z", [["e", Score("4.5")], ["d", Score("3")]]]),
            ("BZMPOP 0 1 z MIN COUNT 9", ["z", [["b", Score("2")], ["c", Score("3")]]]),
            ("ZMPOP 1 z MIN", None),
        ],
        [
            ("BZPOPMIN none z 0", ["z", "a", Score("1")]),
            ("BZPOPMAX z none 0", ["z", "e", Score("4.5")]),
            ("MULTI", OK),
            ("BZPOPMIN none 0", "QUEUED"),
            ("BZMPOP 0 1 none MIN", "QUEUED"),
            ("BZPOPMIN z 0", "QUEUED"),
            ("EXEC", [None, None, ["z", "b", Score("2")]]),
        ],
    ],
)
def test_pops(server: Server, dialogue) -> None:
    """Members are removed from either end of the first non-empty sorted set; in a transaction no client waits."""
    server.given("ZADD z 1 a 2 b 3 d 3 c 4.5 e")
    play(server, dialogue)


def test_waiting_clients_are_served_in_order(server: Server) -> None:
    """Clients get the lowest or highest members in the order in which they began to wait."""
    clients = [server.client() for _ in range(4)]
    commands = ("BZPOPMIN z other 0", "BZPOPMAX z 0", "BZMPOP 0 2 other z MIN COUNT 2", "BZPOPMIN z other 0")
    for client, command in zip(clients, commands, strict=True):
        client.send(command)
        client.expect_blocked()
    server.expect("ZADD z 1 a 2 b 3 c 4 d 5 e", 5)
    clients[0].expect_reply(["z", "a", Score("1")])
    clients[1].expect_reply(["z", "e", Score("5")])
    clients[2].expect_reply(["z", [["b", Score("2")], ["c", Score("3")]]])
    clients[3].expect_reply(["z", "d", Score("4")])
    server.expect("EXISTS z", 0)


@pytest.mark.parametrize("command", ["BZPOPMIN none z 0.02", "BZMPOP 0.02 2 none z MAX COUNT 3"])
def test_a_waiting_client_times_out(server: Server, command: str) -> None:
    """After its timeout a waiting client gets nil, and members that are added later stay in the sorted set."""
    client = server.client()
    client.send(command)
    server.let_pass(25)
    client.expect_reply(None)
    server.expect("ZADD z 1 a", 1)
    server.expect("ZCARD z", 1)


@pytest.mark.parametrize(
    "lines",
    [
        ["ZADD tmp 1 x", "RENAME tmp z"],
        ["ZADD tmp 1 x", "COPY tmp z"],
        ["SADD tmp x", "ZUNIONSTORE z 1 tmp"],
        ["ZADD tmp 1 x", "ZRANGESTORE z tmp 0 -1"],
        ["SET z 1", "DEL z", "ZINCRBY z 1 x"],
        ["MULTI", "ZADD z 0 gone", "DEL z", "ZADD z 1 x", "EXEC"],
    ],
)
def test_a_sorted_set_created_by_another_command(server: Server, lines: list[str]) -> None:
    """A waiting client is served by every command that creates its sorted set; a transaction serves it at its end."""
    client = server.client()
    client.send("BZPOPMIN z 0")
    client.expect_blocked()
    server.given(*lines)
    client.expect_reply(["z", "x", Score("1")])


def test_a_key_of_another_type_does_not_wake_a_client(server: Server) -> None:
    """A list does not wake a client that waits for a sorted set; CLIENT UNBLOCK does."""
    popper, lister = server.client(), server.client()
    number = popper.run("CLIENT ID")
    popper.send("BZPOPMIN q 0")
    popper.expect_blocked()
    lister.send("BLPOP q 0")
    lister.expect_blocked()
    server.given("RPUSH q a")
    lister.expect_reply(["q", "a"])
    popper.expect_blocked()
    server.expect(f"CLIENT UNBLOCK {number} ERROR", 1)
    popper.expect_reply(Error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))


def test_a_watched_sorted_set(server: Server) -> None:
    """A transaction runs unless a watched sorted set has changed."""
    other = server.client()
    server.given("ZADD z 1 a", "WATCH z")
    other.run("ZADD z 1 a")
    play(server, [("MULTI", OK), ("ZCARD z", "QUEUED"), ("EXEC", [1]), ("WATCH z", OK)])
    other.run("ZINCRBY z 1 a")
    play(server, [("MULTI", OK), ("ZCARD z", "QUEUED"), ("EXEC", None)])
