"""Conditional string commands (8.4): SET with IFEQ and its variants, DELEX, DIGEST, MSETEX."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import NOT_AN_INTEGER, OK, SYNTAX, WRONGTYPE, Error

pytestmark = since("8.4")

_DIGITS = Error("ERR must be exactly 16 hexadecimal characters")
_STRING = Error("ERR Key should be of string type if conditions are specified")
_NUMKEYS = Error("ERR invalid numkeys value")
_PAIRS = Error("ERR wrong number of key-value pairs")
#: Digests of ``v`` and ``12``.
_V, _12 = "f7042be43fb80714", "7ecd2e572c949f74"


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("SET k v IFEQ x", None),
            ("SET k v IFNE x", OK),
            ("SET k v2 IFNE v", None),
            ("SET k w IFEQ v GET", "v"),
            ("SET k x IFEQ v GET", "w"),
            ("GET k", "w"),
            ("SET k x EX 100 IFEQ w", OK),
            ("SET k y KEEPTTL IFEQ x", OK),
            ("TTL k", 100),
            ("SET k z IFEQ y", OK),
            ("TTL k", -1),
            ("SET new 1 IFNE v NX", OK),
            ("SET new 1 IFNE v NX", None),
            ("SET none 1 IFNE v XX", None),
        ],
        [
            ("SET k v", OK),
            (f"SET k 12 IFDEQ {_V.upper()}", OK),
            (f"SET k v IFDNE {_12}", None),
            (f"SET k v IFDEQ {_12}", OK),
            ("SET none v IFDEQ 0123", None),
            ("SET none v IFDNE 0123", OK),
            ("SET none v IFDNE 0123", _DIGITS),
            ("SET none v IFDEQ 0123456789abcdefg", _DIGITS),
        ],
        [
            ("LPUSH l a", 1),
            ("SET l v IFEQ a", WRONGTYPE),
            ("SET l v IFDNE x", WRONGTYPE),
            ("SET k v NX IFEQ a", SYNTAX),
            ("SET k v IFEQ a IFNE b", SYNTAX),
            ("SET k v IFEQ", SYNTAX),
            ("SET k v IFEQ a EX 1 KEEPTTL", SYNTAX),
            ("LLEN l", 1),
        ],
    ],
)
def test_set_under_a_condition(server: Server, dialogue) -> None:
    """SET does nothing and returns nil if the value or its digest does not meet the condition."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("SET k v", OK),
            ("DIGEST k", _V),
            ("SETRANGE k 0 12", 2),
            ("DIGEST k", _12),
            (("SET", "k", ""), OK),
            ("DIGEST k", "2d06800538d394c2"),
            (("SET", "k", "x" * 1000), OK),
            ("DIGEST k", "c0a4877b962cba82"),
            ("DIGEST none", None),
            ("LPUSH l a", 1),
            ("DIGEST l", WRONGTYPE),
        ],
        [
            ("SET k v", OK),
            ("DELEX k IFEQ x", 0),
            ("DELEX k IFNE v", 0),
            (f"DELEX k IFDNE {_V}", 0),
            (f"DELEX k IFDEQ {_V}", 1),
            ("DELEX k IFDEQ 0", 0),
            ("SET k v", OK),
            ("DELEX k IFEQ v", 1),
            ("EXISTS k", 0),
            ("DELEX k", 0),
        ],
        [
            ("LPUSH l a", 1),
            ("DELEX l IFEQ a", _STRING),
            ("DELEX l FOO a", _STRING),
            ("SET k v", OK),
            ("DELEX k FOO a", Error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")),
            ("DELEX k IFDEQ 0", _DIGITS),
            ("DELEX k IFEQ", Error("ERR wrong number of arguments for 'delex' command")),
            ("DELEX l", 1),
        ],
    ],
)
def test_digests_and_deleting_under_a_condition(server: Server, dialogue) -> None:
    """DIGEST is XXH3 of the value; DELEX deletes a string if its condition holds, and any key without a condition."""
    play(server, dialogue)


@pytest.mark.parametrize(
    "dialogue",
    [
        [
            ("MSETEX 2 a 1 b 2", 1),
            ("MGET a b", ["1", "2"]),
            ("MSETEX 2 a 3 c 3 NX", 0),
            ("MSETEX 2 a 3 c 3 XX", 0),
            ("MSETEX 2 a 3 b 3 XX EX 100", 1),
            ("MSETEX 2 c 3 d 3 PX 100000 NX", 1),
            ("MGET a b c d", ["3"] * 4),
            ("TTL b", 100),
            ("MSETEX 1 b 4 KEEPTTL", 1),
            ("TTL b", 100),
            ("MSETEX 2 b 5 b 6", 1),
            ("TTL b", -1),
            ("GET b", "6"),
            ("MSETEX 1 b 7 PXAT 1", 1),
            ("EXISTS b", 0),
        ],
        [
            ("MSETEX 0 a 1", _NUMKEYS),
            ("MSETEX 2147483648 a 1", _NUMKEYS),
            ("MSETEX x a 1", _NUMKEYS),
            ("MSETEX 2 a 1 b", _PAIRS),
            ("MSETEX 1 a 1 b", SYNTAX),
            ("MSETEX 1 a 1 NX XX", SYNTAX),
            ("MSETEX 1 a 1 EX", SYNTAX),
            ("MSETEX 1 a 1 EX 1 KEEPTTL", SYNTAX),
            ("MSETEX 1 a 1 EX x", NOT_AN_INTEGER),
            ("MSETEX 1 a 1 EX 0", Error("ERR invalid expire time in 'msetex' command")),
            ("EXISTS a", 0),
        ],
    ],
)
def test_several_strings_with_one_expiry(server: Server, dialogue) -> None:
    """MSETEX sets all of its keys or none; they share the expiry."""
    play(server, dialogue)


@pytest.mark.parametrize(
    ("command", "use"),
    [
        ("SET k v", ["OW", "update"]),
        ("SET k v IFEQ x", ["RW", "update"]),
        ("SET k v GET", ["RW", "access", "update"]),
        ("DELEX k", ["RM", "delete"]),
        ("DELEX k IFEQ x", ["RW", "delete"]),
    ],
)
def test_getkeysandflags_of_conditional_commands(server: Server, command: str, use: list[str]) -> None:
    """COMMAND GETKEYSANDFLAGS reports how SET, with and without a condition, and DELEX use their key."""
    ((_, words),) = server.run(f"COMMAND GETKEYSANDFLAGS {command}")
    assert sorted(words) == sorted(word.encode() for word in use)
