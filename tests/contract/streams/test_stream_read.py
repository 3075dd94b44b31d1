"""XREAD without waiting."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import INVALID_ID, NOT_AN_INTEGER, SYNTAX, WRONGTYPE, Error, Streams, entries


@pytest.fixture
def two(server: Server) -> Server:
    """Return a server with streams a (1-0, 2-0, 3-0) and b (1-0, 9-0)."""
    server.given("XADD a 1-0 f 1", "XADD a 2-0 f 2", "XADD a 3-0 f 3", "XADD b 1-0 g 1", "XADD b 9-0 g 9")
    return server


A = entries("1-0 f 1", "2-0 f 2", "3-0 f 3")
B = entries("1-0 g 1", "9-0 g 9")


def test_a_key_named_twice(two: Server) -> None:
    """A stream named twice is returned twice."""
    assert two.wire("XREAD COUNT 1 STREAMS a a 0 1").count(b"$1\r\na\r\n") == 2


def test_nothing_new(two: Server) -> None:
    """If no stream has new entries, the reply is the null array."""
    for command in ["XREAD STREAMS a 3", "XREAD STREAMS a $", "XREAD STREAMS missing 0", "XREAD STREAMS missing $"]:
        assert two.wire(command) == (b"_\r\n" if two.proto == 3 else b"*-1\r\n")


def test_the_wire_form(two: Server) -> None:
    """In RESP2 the reply is an array of pairs, in RESP3 a map."""
    entries_of_a = b"*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\nf\r\n$1\r\n3\r\n"
    head = b"%1\r\n" if two.proto == 3 else b"*1\r\n*2\r\n"
    assert two.wire("XREAD STREAMS a 2") == head + b"$1\r\na\r\n" + entries_of_a


GROUP_ONLY = "The {} option is only supported by XREADGROUP. You called XREAD instead."
GREATER = "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."


def test_errors(two: Server) -> None:
    """XREAD rejects invalid arguments with Redis's errors."""
    two.given("SET text v")
    for command, reply in [
        ("XREAD COUNT 1 BLOCK 1", SYNTAX),
        ("XREAD COUNT 1 STREAMS", SYNTAX),
        ("XREAD WAT 1 STREAMS a 0", SYNTAX),
        ("XREAD COUNT x STREAMS a 0", NOT_AN_INTEGER),
        ("XREAD BLOCK x STREAMS a 0", Error("ERR timeout is not an integer or out of range")),
        ("XREAD BLOCK -1 STREAMS a 0", Error("ERR timeout is negative")),
        ("XREAD GROUP g c STREAMS a 0", Error(f"ERR {GROUP_ONLY.format('GROUP')}")),
        ("XREAD NOACK STREAMS a 0", Error(f"ERR {GROUP_ONLY.format('NOACK')}")),
        ("XREAD STREAMS a >", Error(f"ERR {GREATER}")),
        ("XREAD STREAMS a x", INVALID_ID),
        ("XREAD STREAMS a b 0 x", INVALID_ID),
        ("XREAD STREAMS text 0", WRONGTYPE),
        ("XREAD STREAMS a text 0 0", WRONGTYPE),
        ("XREAD BLOCK 0 STREAMS missing text 0 0", WRONGTYPE),
    ]:
        two.expect(command, reply)


def test_unbalanced(two: Server) -> None:
    """Fewer IDs than keys are an error, which in newer releases shows the expected form."""
    for command in ["XREAD STREAMS a b 0", "XREAD STREAMS a b c 0 0", "XREAD BLOCK 0 STREAMS a b 0"]:
        two.expect(
            command,
            two.newest(
                Error(
                    "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
                ),
                before={
                    "7.2": Error(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
                    ),
                    "7.4": Error(
                        "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."
                    ),
                },
            ),
        )


@since("7.2")
def test_a_timeout_that_is_too_large(two: Server) -> None:
    """A timeout that ends after the greatest time is rejected."""
    two.expect("XREAD BLOCK 9223372036854775807 STREAMS a $", Error("ERR timeout is out of range"))


@since("7.4")
def test_the_last_entry(two: Server) -> None:
    """``+`` returns the last entry that a stream still has."""
    two.expect("XREAD STREAMS a +", Streams({"a": A[2:]}))
    two.expect("XREAD COUNT 10 STREAMS a b + +", Streams({"a": A[2:], "b": B[1:]}))
    two.given("XDEL a 3-0")
    two.expect("XREAD STREAMS a +", Streams({"a": A[1:2]}))
    two.expect("XREAD STREAMS missing +", None)


@since("8.10")
def test_the_last_entry_of_an_empty_stream(two: Server) -> None:
    """``+`` on a stream without entries returns nothing."""
    two.given("XDEL b 1-0 9-0")
    two.expect("XREAD STREAMS b +", None)


@since("8.4")
def test_claim_is_for_groups(two: Server) -> None:
    """XREAD rejects CLAIM."""
    two.expect("XREAD CLAIM 10 STREAMS a 0", Error(f"ERR {GROUP_ONLY.format('CLAIM')}"))
