"""Exact and approximate trimming by length and by ID, with a limit."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import as_sent


def trim_exactly(server: Server) -> None:
    """Make ``~`` exact. Redis removes whole nodes, so each entry gets a node of its own. The engine is always exact."""
    if server.kind == "redis":
        server.config("stream-node-max-entries", 1)


def fill(server: Server, count: int) -> None:
    """Add the entries 1-0 to count-0."""
    for n in range(1, count + 1):
        server.main.send(f"XADD s {n}-0 f v")
    for n in range(1, count + 1):
        assert server.main.receive() == f"{n}-0".encode()


def ids(server: Server) -> list[str]:
    return [entry[0].decode() for entry in server.run("XRANGE s - +")]


def info(server: Server) -> dict[bytes, object]:
    reply = server.run("XINFO STREAM s")
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def test_trimming_a_hundred_entries(server: Server) -> None:
    """Trimming removes the entries beyond the threshold, up to LIMIT."""
    for options, removed in [
        ("MAXLEN ~ 55", 45),
        ("MAXLEN ~ 50", 50),
        ("MAXLEN ~ 0 LIMIT 35", 35),
        ("MAXLEN ~ 90 LIMIT 35", 10),
        ("MAXLEN ~ 0 LIMIT 1", 1),
        ("MAXLEN ~ 0 LIMIT 0", 100),
        ("MAXLEN ~ 0", 100),
        ("MAXLEN ~ 100", 0),
        ("MAXLEN 95", 5),
        ("MAXLEN = 55", 45),
        ("MAXLEN 100", 0),
        ("MAXLEN 1000", 0),
        ("MAXLEN 0", 100),
        ("MINID ~ 55", 54),
        ("MINID ~ 60-1", 60),
        ("MINID ~ 60-0", 59),
        ("MINID ~ 55 LIMIT 25", 25),
        ("MINID 55", 54),
        ("MINID = 55-1", 55),
        ("MINID 0", 0),
        ("MINID 1000", 100),
        ("MINID ~ 1000", 100),
    ]:
        server.given("FLUSHALL")
        trim_exactly(server)
        fill(server, 100)
        server.expect(f"XTRIM s {options}", removed)
        server.expect("XLEN s", 100 - removed)
        assert ids(server) == [f"{n}-0" for n in range(removed + 1, 101)], options


def test_adding_trims_too(server: Server) -> None:
    """XADD trims like XTRIM, and counts its own entry."""
    for options, left in [
        ("MAXLEN ~ 55", 55),
        ("MAXLEN = 55", 55),
        ("MAXLEN ~ 55 LIMIT 3", 98),
        ("MINID ~ 55", 47),
        ("MINID 55", 47),
    ]:
        server.given("FLUSHALL")
        trim_exactly(server)
        fill(server, 100)
        server.given(f"XADD s {options} 101-0 f v")
        server.expect("XLEN s", left)


@pytest.mark.parametrize(
    ("options", "needed"), [("MAXLEN ~ 55", 55), ("MAXLEN ~ 0", 0), ("MINID ~ 201", 50), ("MINID ~ 90 LIMIT 3", 161)]
)
def test_approximate_trimming_keeps_enough(server: Server, options: str, needed: int) -> None:
    """``~`` never removes an entry that an exact trim keeps, whatever the size of the server's nodes."""
    fill(server, 250)
    removed = server.run(f"XTRIM s {options}")
    assert ids(server) == [f"{n}-0" for n in range(removed + 1, 251)]
    assert 250 - removed >= needed


def test_deleted_entries_are_not_counted(server: Server) -> None:
    """LIMIT and the threshold count live entries."""
    trim_exactly(server)
    fill(server, 20)
    server.given(("XDEL", "s", *(f"{n}-0" for n in range(2, 7))))
    server.expect("XTRIM s MAXLEN ~ 15", 0)
    server.expect("XTRIM s MAXLEN ~ 13 LIMIT 5", 2)
    assert ids(server)[0] == "8-0"
    server.expect("XTRIM s MINID ~ 8", 0)


def test_a_missing_key(server: Server) -> None:
    """Trimming a missing stream removes nothing and creates no key."""
    server.expect("XTRIM s MAXLEN 0", 0)
    server.expect("XTRIM s MINID ~ 5 LIMIT 10", 0)
    server.expect("EXISTS s", 0)


def test_trimming_keeps_the_counters(server: Server) -> None:
    """Trimming changes the first entry; the last ID, entries-added and the greatest deleted ID stay."""
    fill(server, 10)
    server.given("XDEL s 2-0", "XTRIM s MAXLEN 3")
    seen = info(server)
    assert seen[b"length"] == 3
    assert seen[b"entries-added"] == 10
    assert seen[b"max-deleted-entry-id"] == b"2-0"
    assert seen[b"recorded-first-entry-id"] == b"8-0"
    assert seen[b"last-generated-id"] == b"10-0"
    server.given("XTRIM s MAXLEN 0")
    seen = info(server)
    assert (seen[b"recorded-first-entry-id"], seen[b"last-generated-id"]) == (b"0-0", b"10-0")
    assert (seen[b"first-entry"], seen[b"last-entry"]) == (None, None)


def test_trimming_keeps_pending_entries(server: Server) -> None:
    """Trimmed entries stay in the pending entries list of their consumers."""
    fill(server, 3)
    server.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XTRIM s MAXLEN 1")
    server.expect("XPENDING s g", [3, "1-0", "3-0", [["c", "3"]]])
    reply = server.run("XREADGROUP GROUP g c STREAMS s 0")
    history = [["1-0", None], ["2-0", None], ["3-0", ["f", "v"]]]
    assert reply == as_sent({"s": history} if server.proto == 3 else [["s", history]], 3)
