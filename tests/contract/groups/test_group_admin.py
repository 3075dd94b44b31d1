"""XGROUP, XINFO GROUPS and XINFO CONSUMERS: groups and consumers are created, changed and deleted."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import ANY, Error, Map


@pytest.fixture
def stream(server: Server) -> Server:
    """Return a server with a stream s that has 1-0 and 2-0 and no group."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2")
    return server


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("XGROUP CREATE s g 0 MKSTREAM MKSTREAM ENTRIESREAD 0", "CREATE"),
        ("XGROUP SETID s g 0 ENTRIESREAD 0 ENTRIESREAD 1", "SETID"),
    ],
)
def test_too_many_options(stream: Server, command: str, name: str) -> None:
    """A command with more arguments than all options could have is rejected before its ID is parsed."""
    stream.given("XGROUP CREATE s g 0")
    text = f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try XGROUP HELP."
    stream.expect(command, Error(text))
    stream.expect(command.replace(" 0 ", " x ", 1), Error(text))


def test_the_order_of_names(stream: Server) -> None:
    """Groups and consumers are listed in the order of their names' bytes, the empty name first."""
    names = ["b", "a", "ab", "B", "", "é"]
    for name in names:
        stream.run("XGROUP", "CREATE", "s", name, "0")
        stream.run("XGROUP", "CREATECONSUMER", "s", "a", name) if name == "a" else None
    for name in names:
        stream.run("XGROUP", "CREATECONSUMER", "s", "a", name)
    for command in ("XINFO GROUPS s", "XINFO CONSUMERS s a"):
        shown = [row[b"name"] if isinstance(row, dict) else row[1] for row in stream.run(command)]
        assert shown == sorted(name.encode() for name in names)


def test_consumer_rows(stream: Server) -> None:
    """XINFO CONSUMERS has name, pending, idle, and since 7.2 inactive."""
    stream.given("XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g b", "XREADGROUP GROUP g a STREAMS s >")
    rows = stream.run("XINFO CONSUMERS s g")
    dicts = [row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    assert [row[b"name"] for row in dicts] == [b"a", b"b"]
    assert [row[b"pending"] for row in dicts] == [2, 0]
    assert all(0 <= row[b"idle"] < 5000 for row in dicts)
    names = [b"name", b"pending", b"idle", b"inactive"]
    assert list(dicts[0]) == stream.newest(names, before={"7.2": names[:3]})
    if stream.since("7.2"):
        assert dicts[1][b"inactive"] == -1
        assert 0 <= dicts[0][b"inactive"] < 5000


@since("7.2")
@hand_clock
@pytest.mark.parametrize(
    ("command", "idle", "inactive"),
    [
        ("XREADGROUP GROUP g c STREAMS s >", 0, 0),
        ("XREADGROUP GROUP g c NOACK STREAMS s >", 0, 1000),
        ("XREADGROUP GROUP g c STREAMS s 0", 0, 1000),
        ("XCLAIM s g c 0 1-0", 0, 0),
        ("XCLAIM s g c 0 1-0 JUSTID", 0, 0),
        ("XCLAIM s g c 0 9-9", 0, 1000),
        ("XCLAIM s g c 99999 1-0", 0, 1000),
        ("XAUTOCLAIM s g c 0 0", 0, 0),
        ("XAUTOCLAIM s g c 99999 0", 0, 1000),
        ("XACK s g 1-0", 1000, 1000),
        ("XPENDING s g - + 10", 1000, 1000),
        ("XGROUP CREATECONSUMER s g c", 1000, 1000),
    ],
)
def test_seen_and_active(stream: Server, command: str, idle: int, inactive: int) -> None:
    """Each attempt to read or claim updates the seen time; only new pending entries and claims set the active time."""
    stream.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    stream.let_pass(1000)
    stream.given(command)
    stream.expect("XINFO CONSUMERS s g", [Map({"name": "c", "pending": ANY, "idle": idle, "inactive": inactive})])


@since("7.2")
@hand_clock
def test_never_active(stream: Server) -> None:
    """A consumer that never got an entry has an inactive time of -1, however often it has called."""
    stream.given("XGROUP CREATE s g $", "XGROUP CREATECONSUMER s g c")
    stream.let_pass(70)
    stream.expect("XINFO CONSUMERS s g", [Map({"name": "c", "pending": 0, "idle": 70, "inactive": -1})])
    stream.expect("XREADGROUP GROUP g c STREAMS s >", None)
    stream.let_pass(5)
    stream.expect("XINFO CONSUMERS s g", [Map({"name": "c", "pending": 0, "idle": 5, "inactive": -1})])
