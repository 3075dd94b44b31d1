"""XPENDING: the bytes of an empty summary, idle times and errors."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock
from tests.harness.replies import ANY, INVALID_ID, NOT_AN_INTEGER, SYNTAX, Error


@pytest.fixture
def pending(server: Server) -> Server:
    """Return a server with a stream s from 1-0 to 5-0. In group g, a has received 1-0 to 3-0, and b 4-0 and 5-0."""
    server.given(*(f"XADD s {n}-0 f {n}" for n in range(1, 6)), "XGROUP CREATE s g 0")
    server.given("XREADGROUP GROUP g a COUNT 3 STREAMS s >", "XREADGROUP GROUP g b STREAMS s >")
    return server


def test_the_summary_without_pending_entries(server: Server) -> None:
    """Without pending entries the short form is 0, two nils and a null array."""
    server.given("XGROUP CREATE s g $ MKSTREAM")
    expected = b"*4\r\n:0\r\n_\r\n_\r\n_\r\n" if server.proto == 3 else b"*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"
    assert server.wire("XPENDING s g") == expected
    server.expect("XPENDING s g - + 10", [])


NOGROUP = "NOGROUP No such key '{}' or consumer group '{}'"


def test_pending_errors(pending: Server) -> None:
    """XPENDING parses numbers and IDs before it reads the key."""
    for words, reply in [
        ("s g -", SYNTAX),
        ("s g - +", SYNTAX),
        ("s g IDLE 5", SYNTAX),
        ("s g IDLE 5 -", SYNTAX),
        ("s g - + 10 a b c d", SYNTAX),
        ("s g - + x", NOT_AN_INTEGER),
        ("s g IDLE x - + 10", NOT_AN_INTEGER),
        ("s g x + 10", INVALID_ID),
        ("s g - x 10", INVALID_ID),
        ("none g", Error(NOGROUP.format("none", "g"))),
        ("s none", Error(NOGROUP.format("s", "none"))),
        ("none g - + 10", Error(NOGROUP.format("none", "g"))),
        ("s none - + 10 c", Error(NOGROUP.format("s", "none"))),
        ("none g - + x", NOT_AN_INTEGER),
        ("none g x + 10", INVALID_ID),
    ]:
        pending.expect(f"XPENDING {words}", reply)


def test_a_surplus_argument_is_ignored(pending: Server) -> None:
    """Without IDLE, a surplus argument after the consumer is ignored."""
    pending.expect("XPENDING s g - + 10 a surplus", [[f"{n}-0", "a", ANY, 1] for n in (1, 2, 3)])


@hand_clock
def test_idle_times(server: Server) -> None:
    """With IDLE, XPENDING lists only entries with at least that idle time."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    server.let_pass(100)
    server.given("XREADGROUP GROUP g b STREAMS s >")
    server.let_pass(10)
    first, second = ["1-0", "a", 110, 1], ["2-0", "b", 10, 1]
    server.expect("XPENDING s g - + 10", [first, second])
    server.expect("XPENDING s g IDLE 10 - + 10", [first, second])
    server.expect("XPENDING s g IDLE 11 - + 10", [first])
    server.expect("XPENDING s g IDLE 110 - + 10", [first])
    server.expect("XPENDING s g IDLE 111 - + 10", [])
    server.expect("XPENDING s g IDLE 11 - + 10 b", [])
