"""Sets: members, operations on several sets, random members and SSCAN."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, AnyOrder, Error

_POSITIVE = Error("ERR value is out of range, must be positive")
_NUMKEYS = Error("ERR numkeys should be greater than 0")
_NEGATIVE = Error("ERR LIMIT can't be negative")


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("SADD x a b a", 2),
            ("SADD x b c", 1),
            ("SCARD x", 3),
            ("SMEMBERS x", AnyOrder(["a", "b", "c"])),
            ("SISMEMBER x a", 1),
            ("SISMEMBER x d", 0),
            ("SMISMEMBER x a d c", [1, 0, 1]),
            ("TYPE x", "set"),
        ],
        [("SCARD x", 0), ("SMEMBERS x", AnyOrder([])), ("SISMEMBER x a", 0), ("SMISMEMBER x a b", [0, 0])],
        [("SREM x a", 0), ("SADD x a", 1), ("SREM x b", 0)],
        [("SADD x a b c", 3), ("SREM x a d a", 1), ("SREM x b c", 2), ("EXISTS x", 0)],
        [("SADD x 3 1 2 -5", 4), ("SMEMBERS x", AnyOrder(["-5", "1", "2", "3"])), ("OBJECT ENCODING x", "intset")],
        [("SADD x 01", 1), ("SADD x 1", 1), ("SADD x +1 -0 0", 3), ("SCARD x", 5)],
        [
            ("SADD x a b", 2),
            ("SADD y b", 1),
            ("SMOVE x y a", 1),
            ("SMOVE x y b", 1),
            ("EXISTS x", 0),
            ("SMEMBERS y", AnyOrder(["a", "b"])),
            ("SMOVE y y a", 1),
            ("SMOVE y y c", 0),
            ("SMOVE x y a", 0),
        ],
        [
            ("SET s 1", OK),
            ("SADD x a", 1),
            *[
                (command, WRONGTYPE)
                for command in (
                    "SADD s a",
                    "SREM s a",
                    "SCARD s",
                    "SMEMBERS s",
                    "SISMEMBER s a",
                    "SMISMEMBER s a",
                    "SPOP s",
                    "SPOP s 1",
                    "SRANDMEMBER s",
                    "SSCAN s 0",
                    "SMOVE s x a",
                    "SMOVE x s none",
                    "SINTER none s",
                    "SUNION x s",
                    "SDIFF none s",
                    "SINTERCARD 2 none s",
                    "SUNIONSTORE x x s",
                )
            ],
            ("SMOVE none s a", 0),
            ("SMEMBERS x", AnyOrder(["a"])),
        ],
    ],
)
def test_members(server: Server, dialogue) -> None:
    """Members are added, found, moved and removed; an empty set is deleted."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("SADD x a b c 1", 4),
            ("SADD y b c 1 2", 4),
            ("SADD z c 1", 2),
            ("SINTER x y z", AnyOrder(["c", "1"])),
            ("SUNION x y z", AnyOrder(["a", "b", "c", "1", "2"])),
            ("SDIFF x y z", AnyOrder(["a"])),
            ("SDIFF z none", AnyOrder(["c", "1"])),
            ("SDIFF x x", AnyOrder([])),
            ("SINTER x none", AnyOrder([])),
            ("SUNION none", AnyOrder([])),
            ("SINTERSTORE to x y", 3),
            ("SMEMBERS to", AnyOrder(["b", "c", "1"])),
            ("SDIFFSTORE x x y", 1),
            ("SMEMBERS x", AnyOrder(["a"])),
            ("SUNIONSTORE x z x", 3),
            ("SMEMBERS x", AnyOrder(["a", "c", "1"])),
            ("SINTERSTORE x x none", 0),
            ("EXISTS x", 0),
        ],
        [
            ("SET s v EX 100", OK),
            ("SADD x a", 1),
            ("SUNIONSTORE s x", 1),
            ("TYPE s", "set"),
            ("TTL s", -1),
            ("SDIFFSTORE s x x", 0),
            ("EXISTS s", 0),
        ],
        [
            ("SADD x a b c", 3),
            ("SADD y b c d", 3),
            ("SINTERCARD 2 x y", 2),
            ("SINTERCARD 2 x y LIMIT 1", 1),
            ("SINTERCARD 2 x y LIMIT 0", 2),
            ("SINTERCARD 2 x y LIMIT 9", 2),
            ("SINTERCARD 2 x none", 0),
            ("SINTERCARD 0 x", _NUMKEYS),
            ("SINTERCARD a x", _NUMKEYS),
            ("SINTERCARD 3 x y", Error("ERR Number of keys can't be greater than number of args")),
            ("SINTERCARD 1 x LIMIT -1", _NEGATIVE),
            ("SINTERCARD 1 x LIMIT a", _NEGATIVE),
            ("SINTERCARD 1 x LIMIT", SYNTAX),
            ("SINTERCARD 1 x y", SYNTAX),
        ],
    ],
)
def test_several_sets(server: Server, dialogue) -> None:
    """Intersections, unions and differences of sets are returned or stored; a stored result replaces a
    key of any type.
    """
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [("SADD x a", 1), ("SRANDMEMBER x", "a"), ("SRANDMEMBER x -3", ["a", "a", "a"]), ("SRANDMEMBER x 5", ["a"])],
        [("SRANDMEMBER x", None), ("SRANDMEMBER x 2", []), ("SPOP x", None), ("SPOP x 2", AnyOrder([]))],
        [
            ("SADD x a", 1),
            ("SPOP x", "a"),
            ("EXISTS x", 0),
            ("SADD x a", 1),
            ("SPOP x 9", AnyOrder(["a"])),
            ("EXISTS x", 0),
        ],
        [
            ("SADD x a b", 2),
            ("SPOP x 0", AnyOrder([])),
            ("SPOP x -1", _POSITIVE),
            ("SPOP x a", _POSITIVE),
            ("SPOP x 1 2", SYNTAX),
            ("SRANDMEMBER x a", NOT_AN_INTEGER),
            ("SRANDMEMBER x 1 2", SYNTAX),
            ("SRANDMEMBER x 0", []),
            (
                "SRANDMEMBER x -9223372036854775808",
                Error(
                    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                ),
            ),
            ("SCARD x", 2),
        ],
    ],
)
def test_random_members(server: Server, dialogue) -> None:
    """SRANDMEMBER and SPOP return random members, and SPOP removes them."""
    play(server, dialogue)


@pytest.mark.parametrize("size", [5, 300, 3000])
def test_random_members_are_distinct(server: Server, size: int) -> None:
    """SRANDMEMBER returns distinct members and keeps them; SPOP returns distinct members and removes them."""
    names = {b"m%d" % number for number in range(size)}
    server.run("SADD", "x", *names)
    drawn = server.run("SRANDMEMBER", "x", size - 1)
    assert (len(drawn), len(set(drawn)), set(drawn) <= names) == (size - 1, size - 1, True)
    popped = server.run("SPOP", "x", size - 2)
    assert (len(popped), len(set(popped))) == (size - 2, size - 2)
    assert set(server.run("SMEMBERS", "x")) == names - set(popped)


def test_a_small_set_is_scanned_in_one_step(server: Server) -> None:
    """SSCAN returns a set of numbers completely, regardless of COUNT, and a large set in steps."""
    server.given("SADD x 1 2 3")
    play(
        server,
        [
            ("SSCAN x 0 COUNT 1", ["0", ["1", "2", "3"]]),
            ("SSCAN x 0 MATCH [12]", ["0", ["1", "2"]]),
            ("SSCAN x 0 COUNT 0", SYNTAX),
            ("SSCAN x a", Error("ERR invalid cursor")),
            ("SSCAN none 0", ["0", []]),
        ],
    )
    server.run("SADD", "x", *[f"m{number}" for number in range(600)])
    cursor, met, steps = b"0", set(), 0
    while True:
        cursor, words = server.run("SSCAN", "x", cursor, "COUNT", "50")
        met |= set(words)
        steps += 1
        if cursor == b"0":
            break
    assert (len(met), steps > 5) == (603, True)


@since("7.2")
@pytest.mark.parametrize(
    ("lines", "encoding"),
    [
        (["SADD x 1 2 3"], "intset"),
        (["SADD x 1 2 a"], "listpack"),
        (["SADD x 1", "SADD x a"], "listpack"),
        (["SADD x 1", f"SADD x {'a' * 65}"], "hashtable"),
        ([f"SADD x {'a' * 64}"], "listpack"),
        (["SADD x " + " ".join(map(str, range(512)))], "intset"),
        (["SADD x " + " ".join(map(str, range(513)))], "hashtable"),
        (["SADD x " + " ".join(map(str, range(512))), "SADD x 512"], "hashtable"),
        (["SADD x " + " ".join(map(str, range(127))), "SADD x a"], "listpack"),
        (["SADD x " + " ".join(map(str, range(128))), "SADD x a"], "hashtable"),
        (["SADD x a " + " ".join(map(str, range(128)))], "hashtable"),
        (["SADD x " + " ".join(map(str, range(600))), "SREM x " + " ".join(map(str, range(599)))], "hashtable"),
        (["SADD y 1 2 a", "SADD z 1 2 b", "SINTERSTORE x y z"], "intset"),
        (["SADD y 1 2 a", "SADD z 1 2 b", "SUNIONSTORE x y z"], "listpack"),
        (["SADD y " + " ".join(map(str, range(600))), "SADD z 1", "SDIFFSTORE x y z"], "hashtable"),
        (["SADD x 9223372036854775807 -9223372036854775808"], "intset"),
        (["SADD x 9223372036854775808"], "listpack"),
        (["SADD y 1 2 a", "COPY y x"], "listpack"),
    ],
)
def test_encodings(server: Server, lines: list[str], encoding: str) -> None:
    """OBJECT ENCODING reports Redis's encoding of a set, which depends on its current and earlier members."""
    server.given(*lines)
    server.expect("OBJECT ENCODING x", encoding)
