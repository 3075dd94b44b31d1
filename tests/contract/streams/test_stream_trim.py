"""Exact and approximate trimming by length and by ID, with a limit; nodes as clients see them."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import as_sent


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


@pytest.mark.parametrize(
    ("options", "removed"),
    [
        ("MAXLEN ~ 55", 40),
        ("MAXLEN ~ 50", 50),
        ("MAXLEN ~ 0 LIMIT 35", 30),
        ("MAXLEN ~ 0 LIMIT 9", 0),
        ("MAXLEN ~ 0 LIMIT 10", 10),
        ("MAXLEN ~ 0 LIMIT 0", 100),
        ("MAXLEN ~ 0", 100),
        ("MAXLEN ~ 95", 0),
        ("MAXLEN 95", 5),
        ("MAXLEN = 55", 45),
        ("MAXLEN 100", 0),
        ("MAXLEN 1000", 0),
        ("MAXLEN 0", 100),
        ("MINID ~ 55", 50),
        ("MINID ~ 60-1", 60),
        ("MINID ~ 60-0", 50),
        ("MINID ~ 55 LIMIT 25", 20),
        ("MINID 55", 54),
        ("MINID = 55-1", 55),
        ("MINID 0", 0),
        ("MINID 1000", 100),
        ("MINID ~ 1000", 100),
    ],
)
def test_trimming_a_hundred_entries_in_nodes_of_ten(server: Server, options: str, removed: int) -> None:
    """``=`` removes exactly the requested entries, ``~`` only whole nodes, and LIMIT as many nodes as fit into it."""
    server.config("stream-node-max-entries", 10)
    fill(server, 100)
    server.expect(f"XTRIM s {options}", removed)
    server.expect("XLEN s", 100 - removed)
    assert ids(server) == [f"{n}-0" for n in range(removed + 1, 101)]


@pytest.mark.parametrize(
    ("options", "left"), [("MAXLEN ~ 55", 61), ("MAXLEN = 55", 55), ("MINID ~ 55", 51), ("MINID 55", 47)]
)
def test_adding_trims_by_nodes_too(server: Server, options: str, left: int) -> None:
    """XADD trims like XTRIM, and counts its own entry."""
    server.config("stream-node-max-entries", 10)
    fill(server, 100)
    server.given(f"XADD s {options} 101-0 f v")
    server.expect("XLEN s", left)


@pytest.mark.parametrize(
    ("options", "removed"), [("MAXLEN ~ 0", 1000), ("MAXLEN ~ 0 LIMIT 0", 2500), ("MAXLEN 0", 2500)]
)
def test_the_default_limit(server: Server, options: str, removed: int) -> None:
    """``~`` without LIMIT removes at most a hundred times the entries of a node."""
    server.config("stream-node-max-entries", 10)
    fill(server, 2500)
    server.expect(f"XTRIM s {options}", removed)


def test_the_default_limit_without_a_node_limit(server: Server) -> None:
    """If nodes have no limit of entries, ``~`` without LIMIT can remove 300 entries at once."""
    server.config("stream-node-max-entries", 0)
    server.config("stream-node-max-bytes", 100)
    fill(server, 300)
    server.expect("XTRIM s MAXLEN ~ 0", 300)


@pytest.mark.parametrize(
    ("max_bytes", "max_entries", "keys"),
    [(4096, 100, 3), (4096, 50, 5), (0, 0, 1), (0, 100, 3), (2, 0, 250), (1000000, 0, 1)],
)
def test_nodes(server: Server, max_bytes: int, max_entries: int, keys: int) -> None:
    """A node is full at a number of entries or of bytes; 0 means no limit."""
    server.config("stream-node-max-bytes", max_bytes)
    server.config("stream-node-max-entries", max_entries)
    fill(server, 250)
    assert info(server)[b"radix-tree-keys"] == keys


def test_nodes_by_bytes(server: Server) -> None:
    """With a limit of bytes, the number of entries per node follows from Redis's packing: here ten nodes
    of 256 bytes.
    """
    server.config("stream-node-max-bytes", 256)
    fill(server, 200)
    assert info(server)[b"radix-tree-keys"] == 10


def test_deleted_entries_count_for_their_node(server: Server) -> None:
    """A deleted entry still counts for its node, and a node without live entries is removed."""
    server.config("stream-node-max-entries", 10)
    fill(server, 25)
    server.given("XDEL s 1-0 2-0 3-0")
    assert info(server)[b"radix-tree-keys"] == 3
    server.given(("XDEL", "s", *(f"{n}-0" for n in range(4, 11))))
    assert info(server)[b"radix-tree-keys"] == 2
    server.expect("XTRIM s MAXLEN ~ 10", 0)
    server.expect("XTRIM s MAXLEN ~ 5", 10)


def test_a_node_is_kept_for_a_deleted_last_entry(server: Server) -> None:
    """MINID compares the last entry of a node, even if deleted, to decide whether to remove the node."""
    server.config("stream-node-max-entries", 5)
    fill(server, 10)
    server.given("XDEL s 5-0")
    server.expect("XTRIM s MINID ~ 5", 0)
    server.expect("XTRIM s MINID ~ 6", 4)


def test_limit_counts_live_entries(server: Server) -> None:
    """LIMIT is compared with the number of live entries of a node."""
    server.config("stream-node-max-entries", 10)
    fill(server, 20)
    server.given(("XDEL", "s", *(f"{n}-0" for n in range(1, 6))))
    server.expect("XTRIM s MAXLEN ~ 0 LIMIT 4", 0)
    server.expect("XTRIM s MAXLEN ~ 0 LIMIT 5", 5)
    assert ids(server)[0] == "11-0"


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


def test_trimming_within_a_node(server: Server) -> None:
    """An exact trim in the middle of a node keeps the rest of that node."""
    server.config("stream-node-max-entries", 4)
    fill(server, 20)
    server.expect("XTRIM s MAXLEN 13", 7)
    assert info(server)[b"radix-tree-keys"] == 4
    server.expect("XTRIM s MAXLEN ~ 12", 1)
    server.expect("XTRIM s MAXLEN ~ 11", 0)
    assert ids(server)[0] == "9-0"


def test_adding_after_the_newest_node_was_deleted(server: Server) -> None:
    """If all entries of the newest node are deleted, new entries go to a new node."""
    server.config("stream-node-max-entries", 4)
    fill(server, 5)
    server.given("XDEL s 5-0", "XADD s 6-0 f v")
    assert info(server)[b"radix-tree-keys"] == 2
    server.expect("XTRIM s MINID ~ 5", 4)
    server.given("XDEL s 6-0", "XADD s 7-0 f v", "XADD s 8-0 f v")
    assert info(server)[b"radix-tree-keys"] == 1
