"""Number of changes per command, as shown by INFO persistence and used by the save directive."""

from __future__ import annotations

import re

import pytest

from tests.harness.kinds import Server
from tests.servers.releases import Newest


def counted(server: Server) -> int:
    """Return the number of changes since the last snapshot."""
    found = re.search(rb"rdb_changes_since_last_save:(\d+)", server.run("INFO persistence"))
    assert found is not None
    return int(found[1])


#: Preceding commands, separated by semicolons; the tested command; its number of changes.
CASES = [
    ("", "SET a 1", 1),
    ("SET a 1", "SET a 2 NX", 0),
    ("", "MSET a 1 b 2 a 3", 3),
    ("SET a 1", "APPEND a 2", 1),
    ("", "APPEND a 2", 1),
    ("", "INCRBY a 0", 1),
    ("SET a 1", "GETEX a", 0),
    ("SET a 1", "GETEX a EX 10", 1),
    ("SET a 1", "GETEX a PERSIST", 0),
    ("SET a 1", "EXPIRE a -1", 1),
    ("SET a 1", "PERSIST a", 0),
    ("MSET a 1 b 2", "DEL a b c", 2),
    ("", "HSET h a 1 b 2", 2),
    ("HSET h a 1", "HSET h a 1 b 2 c 3", 3),
    ("HSET h a 1", "HSETNX h a 2", 0),
    ("", "HINCRBY h a 1", 1),
    ("HSET h a 1 b 2 c 3", "HDEL h a b d", 2),
    ("HSET h a 1", "HDEL h a", 1),
    ("SET a 1", "RENAME a b", 1),
    ("MSET a 1 b 2", "RENAME a b", 1),
    ("SET a 1", "RENAME a a", 0),
    ("MSET a 1 b 2", "COPY a b REPLACE", 1),
    ("SET a 1", "MOVE a 1", 1),
    ("", "SWAPDB 0 1", 1),
    ("MSET a 1 b 2", "FLUSHDB", 2),
    ("MSET a 1 b 2", "FLUSHALL", 2),
    ("XADD s 1 f v", "XADD s MAXLEN 1 2 f v", 1),
    ("XADD s 1 f v;XADD s 2 f v", "XDEL s 1 2 3", 2),
    ("XADD s 1 f v;XADD s 2 f v;XADD s 3 f v", "XTRIM s MAXLEN 1", 2),
    ("XADD s 1 f v", "XTRIM s MAXLEN 1", 0),
    ("XADD s 1 f v", "XSETID s 2", 1),
    ("", "XGROUP CREATE s g 0 MKSTREAM", 1),
    ("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g c", 1),
    ("XGROUP CREATE s g 0 MKSTREAM;XGROUP CREATECONSUMER s g c", "XGROUP CREATECONSUMER s g c", 0),
    ("XGROUP CREATE s g 0 MKSTREAM", "XGROUP SETID s g 5", 1),
    ("XGROUP CREATE s g 0 MKSTREAM", "XGROUP DESTROY s g", 1),
    *(
        (f"XGROUP CREATE s g 0 MKSTREAM;XADD s 1 f v;XADD s 2 f v;{more}", command, count)
        for more, command, count in (
            ("XGROUP CREATECONSUMER s g c", "XREADGROUP GROUP g c STREAMS s >", 1),
            ("XGROUP CREATECONSUMER s g c", "XREADGROUP GROUP g c NOACK STREAMS s >", 1),
            ("XREADGROUP GROUP g c STREAMS s >", "XREADGROUP GROUP g c STREAMS s >", 0),
            (
                "XREADGROUP GROUP g c STREAMS s >",
                "XREADGROUP GROUP g c STREAMS s 0",
                Newest(0, before={"8.0": 1}),
            ),
            ("XREADGROUP GROUP g c STREAMS s >", "XACK s g 1 2 3", 2),
            ("XREADGROUP GROUP g c STREAMS s >", "XCLAIM s g c 0 1 2", 2),
            ("XREADGROUP GROUP g c STREAMS s >", "XCLAIM s g c 0 1 2 JUSTID", 2),
            ("XREADGROUP GROUP g c STREAMS s >", "XCLAIM s g c 0 1 LASTID 9", 1),
            ("XREADGROUP GROUP g c STREAMS s >", "XCLAIM s g c 0 7 LASTID 9", 1),
            ("XREADGROUP GROUP g c STREAMS s >", "XAUTOCLAIM s g c 0 0", 2),
            ("XREADGROUP GROUP g c STREAMS s >;XDEL s 1", "XAUTOCLAIM s g c 0 0", 2),
            ("XREADGROUP GROUP g c STREAMS s >", "XGROUP DELCONSUMER s g c", 1),
        )
    ),
]


def test_a_command_counts_its_changes(server: Server) -> None:
    """Each command adds the number of changes that Redis counts for it."""
    for before, command, count in CASES:
        server.given("FLUSHALL")
        server.given(*(words for words in before.split(";") if words))
        start = counted(server)
        server.given(command)
        wanted = count.of(server.release) if isinstance(count, Newest) else count
        assert counted(server) - start == wanted, (before, command)


@pytest.mark.parametrize("command", ["FLUSHALL", "SWAPDB 0 1"])
def test_watching_keys_does_not_alter_the_count(server: Server, command: str) -> None:
    """FLUSHALL and SWAPDB count the same changes if their keys are watched."""
    server.given("MSET a 1 b 2", "WATCH a b")
    start = counted(server)
    server.given(command)
    assert counted(server) - start == (2 if command == "FLUSHALL" else 1)


def test_expiry_is_no_change(server: Server) -> None:
    """Removing an expired key does not count as a change."""
    server.given("SET a 1 PX 1")
    start = counted(server)
    server.let_pass(2)
    server.expect("GET a", None)
    assert counted(server) == start
