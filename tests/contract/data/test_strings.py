"""Strings, and numbers stored in strings."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, Between, Error
from tests.servers.releases import Newest

OVERFLOW = Error("ERR increment or decrement would overflow")


def invalid_expire(command: str) -> Error:
    return Error(f"ERR invalid expire time in '{command}' command")


@pytest.mark.parametrize(
    "dialogue",
    [
        [("SET a 1", OK), ("GET a", "1"), (("SET", "a", ""), OK), ("GET a", ""), ("GET b", None)],
        [("SET a 1 XX", None), ("SET a 1 NX", OK), ("SET a 2 NX", None), ("SET a 2 xx", OK), ("GET a", "2")],
        [
            ("SET a 1 GET", None),
            ("SET a 2 GET", "1"),
            ("SET a 3 NX GET", "2"),
            ("GET a", "2"),
            ("SET b 1 XX GET", None),
        ],
        [("SET a 1 EX 100", OK), ("TTL a", Between(99, 100)), ("SET a 2 KEEPTTL", OK), ("TTL a", Between(99, 100))],
        [
            ("SET a 1 EX 100", OK),
            ("SET a 2", OK),
            ("TTL a", -1),
            ("SET a 1 px 100000", OK),
            ("TTL a", Between(99, 100)),
        ],
        [
            ("SET a 1 EXAT 4102444800", OK),
            ("EXPIRETIME a", 4102444800),
            ("SET a 1 PXAT 4102444800123", OK),
            ("PEXPIRETIME a", 4102444800123),
            ("SET a 1 EXAT 1", OK),
            ("GET a", None),
        ],
        [
            ("SET a 1 EX 0", invalid_expire("set")),
            ("SET a 1 PX -1", invalid_expire("set")),
            ("SET a 1 EX x", NOT_AN_INTEGER),
            ("SET a 1 EX 9223372036854775807", invalid_expire("set")),
            ("SET a 1 PX 9223372036854775807", invalid_expire("set")),
        ],
        [
            ("SET a 1 NX XX", SYNTAX),
            ("SET a 1 EX", SYNTAX),
            ("SET a 1 EX 1 PX 1", SYNTAX),
            ("SET a 1 EX 1 KEEPTTL", SYNTAX),
            ("SET a 1 PERSIST", SYNTAX),
            ("SET a 1 foo", SYNTAX),
            ("SET a 1 EX 5 EX 100", OK),
            ("TTL a", Between(99, 100)),
        ],
        [("HSET l f v", 1), ("SET l 1 GET", WRONGTYPE), ("GET l", WRONGTYPE), ("SET l 1", OK), ("GET l", "1")],
        [("SETNX a 1", 1), ("SETNX a 2", 0), ("GETSET a 3", "1"), ("GETSET b 1", None), ("GET a", "3")],
        [
            ("MSET a 1 b 2 a 3", OK),
            ("MGET a b c", ["3", "2", None]),
            ("HSET l f v", 1),
            ("MGET l a", [None, "3"]),
            ("MSET a 1 b", Error("ERR wrong number of arguments for 'mset' command")),
        ],
        [
            ("GETDEL a", None),
            ("SET a 1", OK),
            ("GETDEL a", "1"),
            ("EXISTS a", 0),
            ("HSET l f v", 1),
            ("GETDEL l", WRONGTYPE),
        ],
    ],
)
def test_setting_and_getting(server: Server, dialogue) -> None:
    """SET with its options, and the other commands that set, read or delete whole strings, reply as in Redis."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("GETEX a EX 0", Newest(None, valkey={"9.0": invalid_expire("getex")})),
            ("GETEX a EX x", Newest(None, valkey={"9.0": NOT_AN_INTEGER})),
            ("GETEX a EX 1 PX 1", SYNTAX),
            ("GETEX a KEEPTTL", SYNTAX),
        ],
        [
            ("SET a 1", OK),
            ("GETEX a", "1"),
            ("TTL a", -1),
            ("GETEX a EX 100", "1"),
            ("TTL a", Between(99, 100)),
            ("GETEX a", "1"),
            ("TTL a", Between(99, 100)),
            ("GETEX a persist", "1"),
            ("TTL a", -1),
        ],
        [("SET a 1", OK), ("GETEX a EX 0", invalid_expire("getex")), ("GETEX a PXAT 5", "1"), ("EXISTS a", 0)],
        [
            ("SET a 1", OK),
            ("GETEX a PXAT 4102444800123", "1"),
            ("PEXPIRETIME a", 4102444800123),
            ("GETEX a PERSIST EX 1", SYNTAX),
        ],
    ],
)
def test_getex(server: Server, dialogue) -> None:
    """GETEX reads a string and changes its expiry."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("APPEND a ab", 2),
            ("APPEND a cd", 4),
            ("GET a", "abcd"),
            ("STRLEN a", 4),
            ("STRLEN b", 0),
            (("APPEND", "b", ""), 0),
            ("GET b", ""),
        ],
        [("HSET l f v", 1), ("APPEND l x", WRONGTYPE), ("STRLEN l", WRONGTYPE)],
        [("SET a 1 EX 100", OK), ("APPEND a 2", 2), ("INCR a", 13), ("TTL a", Between(99, 100))],
    ],
)
def test_appending(server: Server, dialogue) -> None:
    """APPEND extends a string and keeps its expiry, and STRLEN returns its length."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("INCR a", 1),
            ("INCRBY a 41", 42),
            ("DECR a", 41),
            ("DECRBY a 1", 40),
            ("GET a", "40"),
            ("INCRBY a -50", -10),
        ],
        [
            ("SET a 9223372036854775807", OK),
            ("INCR a", OVERFLOW),
            ("SET a -9223372036854775808", OK),
            ("DECR a", OVERFLOW),
        ],
        [
            ("DECRBY a -9223372036854775808", Error("ERR decrement would overflow")),
            ("INCRBY a 1.5", NOT_AN_INTEGER),
            ("EXISTS a", 0),
        ],
        [
            ("SET a 01", OK),
            ("INCR a", NOT_AN_INTEGER),
            ("SET a +1", OK),
            ("INCR a", NOT_AN_INTEGER),
            (("SET", "a", ""), OK),
            ("INCR a", NOT_AN_INTEGER),
        ],
        [("HSET l f v", 1), ("INCR l", WRONGTYPE), ("DECRBY l x", NOT_AN_INTEGER)],
    ],
)
def test_numbers(server: Server, dialogue) -> None:
    """Integers have 64 bits, and other text is an error."""
    play(server, dialogue)


def test_a_value_may_be_any_bytes(server: Server) -> None:
    """Keys and values with line ends, zero bytes and bytes that are not UTF-8 are returned unchanged."""
    data = bytes(range(256)) + b"\r\n"
    play(server, [(("SET", data, data), OK), (("GET", data), data), (("STRLEN", data), 258), ("KEYS *", [data])])
