"""entries-read and lag of a group: known and unknown values, after deletions, trims and moves."""

from __future__ import annotations

from typing import Any

from tests.harness.kinds import Server
from tests.harness.marks import since

Numbers = tuple[int | None, int | None]


def numbers(server: Server, group: str = "g") -> Numbers:
    """Return entries-read and lag of a group."""
    for row in server.run("XINFO GROUPS s"):
        fields: dict[bytes, Any] = row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
        if fields[b"name"] == group.encode():
            return fields[b"entries-read"], fields[b"lag"]
    raise AssertionError(f"no group {group}")


def fill(server: Server, count: int) -> None:
    server.given(*(f"XADD s {n}-0 f v" for n in range(1, count + 1)))


def test_five_entries(server: Server) -> None:
    """A group of a stream with 1-0 to 5-0 has Redis's entries-read and lag after deletions and explicit counts."""
    for steps, expected, before_8_0 in [
        (["XGROUP CREATE s g 3-0 ENTRIESREAD 3"], (3, 2), None),
        (["XGROUP CREATE s g 0", "READ 2", "XGROUP SETID s g 2-0 ENTRIESREAD 2"], (2, 3), None),
        (["XGROUP CREATE s g 0", "XDEL s 1-0"], (None, 4), None),
        (["XGROUP CREATE s g 0", "XDEL s 1-0", "READ 1"], (2, 3), None),
        (["XGROUP CREATE s g 0", "XDEL s 3-0"], (None, None), None),
        (["XGROUP CREATE s g 0", "XDEL s 3-0", "READ 1"], (None, None), None),
        (["XGROUP CREATE s g 0", "READ 2", "XDEL s 1-0"], (2, 3), None),
        (["XGROUP CREATE s g 0", "READ 2", "XDEL s 4-0"], (2, None), None),
        (["XGROUP CREATE s g 0", "READ 2", "XDEL s 4-0", "READ 9"], (5, 0), None),
        (["XGROUP CREATE s g 0", "XTRIM s MAXLEN 3"], (None, 3), None),
        (["XGROUP CREATE s g 0", "READ 3", "XTRIM s MAXLEN 4"], (3, 2), None),
        (["XGROUP CREATE s g 0", "READ 1", "XTRIM s MAXLEN 2"], (1, 2), (1, 4)),
        (["XGROUP CREATE s g 0", "READ 5", "XTRIM s MAXLEN 0"], (5, 0), None),
        (["XGROUP CREATE s g 0", "READ 2", "XTRIM s MAXLEN 0"], (2, 0), (2, 3)),
        (["XGROUP CREATE s g 0", "READ 2", "XDEL s 1-0 2-0 3-0 4-0 5-0"], (2, 0), (2, 3)),
    ]:
        server.given("FLUSHALL")
        fill(server, 5)
        for step in steps:
            word, _, count = step.partition(" ")
            if word == "READ":
                server.given(f"XREADGROUP GROUP g c COUNT {count} STREAMS s >")
            else:
                server.given(step)
        if server.kind == "redis" and not server.since("8.0") and before_8_0 is not None:
            expected = before_8_0
        assert numbers(server) == expected, steps


@since("8.10")
def test_counts_beyond_the_stream(server: Server) -> None:
    """entries-read is at most the number of entries ever added, whatever ENTRIESREAD and XSETID set."""
    fill(server, 5)
    server.given("XGROUP CREATE s g 5-0 ENTRIESREAD 99")
    assert numbers(server) == (5, 0)
    server.given(
        "XGROUP SETID s g 5-0 ENTRIESREAD 99", "XDEL s 1-0 2-0", "XSETID s 5-0 ENTRIESADDED 3 MAXDELETEDID 0-0"
    )
    assert numbers(server)[0] == 3
