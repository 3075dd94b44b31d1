"""Hashes: fields, numbers, random fields and HSCAN."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, Error, Map


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("HSET h a 1 b 2", 2),
            ("HSET h a 3 c 4", 1),
            ("HGETALL h", Map({"a": "3", "b": "2", "c": "4"})),
            ("HLEN h", 3),
        ],
        [
            ("HGET h a", None),
            ("HGETALL h", Map({})),
            ("HMGET h a b", [None, None]),
            ("HKEYS h", []),
            ("HVALS h", []),
            ("HLEN h", 0),
        ],
        [
            ("HSET h a 1 b", Error("ERR wrong number of arguments for 'hset' command")),
            ("EXISTS h", 0),
            ("HMSET h a 1 b", Error("ERR wrong number of arguments for 'hmset' command")),
            ("HMSET h a 1 b 2", OK),
        ],
        [
            ("HSET h a 1 b 2", 2),
            ("HMGET h b x a b", ["2", None, "1", "2"]),
            ("HKEYS h", ["a", "b"]),
            ("HVALS h", ["1", "2"]),
        ],
        [
            ("HSETNX h a 1", 1),
            ("HSETNX h a 2", 0),
            ("HGET h a", "1"),
            ("HEXISTS h a", 1),
            ("HEXISTS h b", 0),
            ("HEXISTS no a", 0),
        ],
        [("HSET h a hello", 1), ("HSTRLEN h a", 5), ("HSTRLEN h b", 0), ("HSTRLEN no a", 0)],
        [("HSET h a 1 b 2 c 3", 3), ("HDEL h a x a", 1), ("HDEL h b c", 2), ("EXISTS h", 0), ("HDEL h a", 0)],
        [("HSET h a 1 b 2 c 3", 3), ("HDEL h a", 1), ("HSET h a 1", 1), ("HKEYS h", ["b", "c", "a"])],
        [
            ("SET s 1", OK),
            ("HSET s a 1", WRONGTYPE),
            ("HGET s a", WRONGTYPE),
            ("HGETALL s", WRONGTYPE),
            ("HDEL s a", WRONGTYPE),
            ("HINCRBY s a 1", WRONGTYPE),
            ("HSCAN s 0", WRONGTYPE),
            ("HRANDFIELD s", WRONGTYPE),
            ("HSETNX s a 1", WRONGTYPE),
        ],
    ],
)
def test_fields(server: Server, dialogue) -> None:
    """Fields are set, read, listed in the order of their insertion, and deleted; an empty hash is deleted."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [("HINCRBY h a 5", 5), ("HINCRBY h a -7", -2), ("HGET h a", "-2"), ("HINCRBY h a x", NOT_AN_INTEGER)],
        [
            ("HSET h a x", 1),
            ("HINCRBY h a 1", Error("ERR hash value is not an integer")),
            ("HINCRBYFLOAT h a 1", Error("ERR hash value is not a float")),
        ],
        [("HSET h a 9223372036854775807", 1), ("HINCRBY h a 1", Error("ERR increment or decrement would overflow"))],
        [
            ("HINCRBYFLOAT h a 10.5", "10.5"),
            ("HINCRBYFLOAT h a 0.1", "10.6"),
            ("HINCRBYFLOAT h a -10.6", "0"),
            ("HINCRBYFLOAT h b 5.0e3", "5000"),
        ],
        [
            ("HINCRBYFLOAT h a x", Error("ERR value is not a valid float")),
            ("HINCRBYFLOAT h a inf", Error("ERR value is NaN or Infinity")),
            ("HINCRBYFLOAT h a nan", Error("ERR value is not a valid float")),
            ("EXISTS h", 0),
        ],
    ],
)
def test_numbers(server: Server, dialogue) -> None:
    """HINCRBY and HINCRBYFLOAT change integers and floats in fields."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("HRANDFIELD h", None),
            ("HRANDFIELD h 5", []),
            ("HSET h a 1", 1),
            ("HRANDFIELD h", "a"),
            ("HRANDFIELD h 5", ["a"]),
        ],
        [
            ("HSET h a 1", 1),
            ("HRANDFIELD h -3", ["a", "a", "a"]),
            ("HRANDFIELD h 0", []),
            ("HRANDFIELD h 5 WITHVALUE", SYNTAX),
        ],
        [
            ("HRANDFIELD h x", NOT_AN_INTEGER),
            ("HRANDFIELD h 1 WITHVALUES x", SYNTAX),
            ("HRANDFIELD h 9223372036854775807 WITHVALUES", Error("ERR value is out of range")),
        ],
    ],
)
def test_random_fields(server: Server, dialogue) -> None:
    """With a positive count HRANDFIELD returns distinct fields; with a negative count it may repeat fields."""
    play(server, dialogue)


def test_random_fields_with_values(server: Server) -> None:
    """HRANDFIELD WITHVALUES returns a flat list in RESP2 and a list of pairs in RESP3."""
    server.given("HSET h a 1")
    pair = [["a", "1"]] if server.proto == 3 else ["a", "1"]
    server.expect("HRANDFIELD h 2 WITHVALUES", pair)


def test_random_fields_are_distinct(server: Server) -> None:
    """HRANDFIELD with a count below the number of fields returns that many distinct fields."""
    server.given("HSET h a 1 b 2 c 3")
    drawn = server.run("HRANDFIELD h 2")
    assert len(set(drawn)) == 2
    assert set(drawn) < {b"a", b"b", b"c"}


def test_a_small_hash_is_scanned_in_one_step(server: Server) -> None:
    """HSCAN returns a small hash completely, regardless of COUNT, and a large one in steps."""
    server.given("HSET h a 1 b 2 c 3")
    play(
        server,
        [
            ("HSCAN h 0 COUNT 1", ["0", ["a", "1", "b", "2", "c", "3"]]),
            ("HSCAN h 0 MATCH [ab]", ["0", ["a", "1", "b", "2"]]),
            ("HSCAN h 0 TYPE hash", SYNTAX),
        ],
    )
    server.run("HSET", "h", *[word for number in range(600) for word in (f"f{number}", "v")])
    cursor, met, steps = b"0", set(), 0
    while True:
        cursor, words = server.run("HSCAN", "h", cursor, "COUNT", "50")
        met |= set(words[::2])
        steps += 1
        if cursor == b"0":
            break
    assert len(met) == 603
    assert steps > 5
