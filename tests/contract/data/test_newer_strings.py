"""Conditions of SET on the current string (8.4): IFEQ, IFNE, IFDEQ and IFDNE."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import OK, SYNTAX, WRONGTYPE, Error

pytestmark = since("8.4")

_DIGITS = Error("ERR must be exactly 16 hexadecimal characters")
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
            ("HSET l f v", 1),
            ("SET l v IFEQ a", WRONGTYPE),
            ("SET l v IFDNE x", WRONGTYPE),
            ("SET k v NX IFEQ a", SYNTAX),
            ("SET k v IFEQ a IFNE b", SYNTAX),
            ("SET k v IFEQ", SYNTAX),
            ("SET k v IFEQ a EX 1 KEEPTTL", SYNTAX),
            ("HLEN l", 1),
        ],
    ],
)
def test_set_under_a_condition(server: Server, dialogue) -> None:
    """SET does nothing and returns nil if the value or its digest does not meet the condition."""
    play(server, dialogue)
