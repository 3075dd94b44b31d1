"""XRANGE and XREVRANGE: their results, order, COUNT and errors."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import INVALID_ID, NOT_AN_INTEGER, SYNTAX


@pytest.fixture
def five(server: Server) -> Server:
    """Return a server with a stream s that has the entries 1-0 to 5-0."""
    server.given(*(f"XADD s {n}-0 n {n}" for n in range(1, 6)))
    return server


@pytest.mark.parametrize("count", ["0", "-1", "-100"])
@pytest.mark.parametrize("command", ["XRANGE s - +", "XREVRANGE s + -"])
def test_count_of_zero(five: Server, command: str, count: str) -> None:
    """COUNT 0 or less returns the null array for a stream, and an empty array for a missing key."""
    null = b"_\r\n" if five.proto == 3 else b"*-1\r\n"
    assert five.wire(f"{command} COUNT {count}") == null
    five.given("DEL s")
    assert five.wire(f"{command} COUNT {count}") == b"*0\r\n"


def test_errors_come_before_the_key(server: Server) -> None:
    """IDs and options are parsed before the key is read."""
    for setting in ["a stream", "nothing", "a string"]:
        server.given("FLUSHALL")
        if setting != "nothing":
            server.given("XADD s 1-1 f v" if setting == "a stream" else "SET s v")
        for command, reply in (
            ("XRANGE s - + COUNT", SYNTAX),
            ("XRANGE s - + COUNT x", NOT_AN_INTEGER),
            ("XRANGE s - + WAT 1", SYNTAX),
            ("XRANGE s - + COUNT 1 WAT", SYNTAX),
            ("XREVRANGE s + - LIMIT 1", SYNTAX),
            ("XRANGE s x +", INVALID_ID),
            ("XRANGE s - x COUNT x", INVALID_ID),
        ):
            server.expect(command, reply)


def test_the_wire_form_of_entries(server: Server) -> None:
    """Entries have the same form in both protocols: an array of an ID and an array of fields and values."""
    server.given("XADD s 1518951480106-0 sensor-id 1234 temperature 19.8")
    assert server.wire("XRANGE s - +") == (
        b"*1\r\n*2\r\n$15\r\n1518951480106-0\r\n*4\r\n$9\r\nsensor-id\r\n$4\r\n1234\r\n$11\r\ntemperature\r\n$4\r\n19.8\r\n"
    )
