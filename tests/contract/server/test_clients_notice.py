"""Details by which other clients and test suites noticed that a server is not Redis."""

from __future__ import annotations

import re

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import hand_clock, since
from tests.harness.replies import ANY, Error, Streams, entry


@hand_clock
@pytest.mark.parametrize("change", ["FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "SWAPDB 1 0", "DEL k", "GET k"])
def test_an_expired_watched_key_that_is_removed_is_no_change(server: Server, change: str) -> None:
    """EXEC runs if the watched key had expired before WATCH, however it is removed."""
    server.given("SET k v PX 1")
    server.let_pass(5)
    watcher = server.client()
    watcher.run("WATCH k")
    server.given(change)
    watcher.run("MULTI")
    watcher.run("PING")
    assert watcher.run("EXEC")


def counted(server: Server) -> dict[str, str]:
    """Return each command's numbers in INFO commandstats as ``calls/rejected/failed``."""
    text = server.run("INFO commandstats").decode()
    found = re.findall(
        r"cmdstat_(\S+):calls=(\d+),usec=\d+,usec_per_call=\d+\.\d\d,rejected_calls=(\d+),failed_calls=(\d+)\r", text
    )
    return {name: "/".join(counts) for name, *counts in found}


def test_commandstats_count_calls_rejections_and_failures(server: Server) -> None:
    """A blocked command counts once, and a wrong number of arguments is a rejection.

    CONFIG RESETSTAT counts itself, and INFO does not.
    """
    server.given("SET s x", "CONFIG RESETSTAT")
    reader = server.client()
    reader.send("XREAD BLOCK 0 STREAMS l $")
    reader.expect_blocked()
    server.given("XADD l 1-1 f v")
    reader.receive()
    for wrong in ("GET", "HLEN s", "CONFIG GET", "NOSUCH x"):
        server.run(wrong)
    found = counted(server)
    assert found["xread"] == "1/0/0"
    assert found["get"] == "0/1/0"
    assert found["hlen"] == "1/0/1"
    assert found["config|get"] == "0/1/0"
    assert found["config|resetstat"] == "1/0/0"
    assert "info" not in found


@since("7.4", valkey="8.0")
def test_hscan_novalues(server: Server) -> None:
    """HSCAN with NOVALUES returns only names, at any position of the option."""
    server.given("HSET h a 1 b 2")
    server.expect("HSCAN h 0 NOVALUES", ["0", ["a", "b"]])
    server.expect("HSCAN h 0 NOVALUES MATCH b COUNT 5", ["0", ["b"]])
    server.expect("HSCAN h 0 MATCH a NOVALUES", ["0", ["a"]])
    server.expect("SCAN 0 NOVALUES", Error("ERR NOVALUES option can only be used in HSCAN"))


@since("8.8")
def test_a_nacked_entry_is_delivered_once(server: Server) -> None:
    """XREADGROUP CLAIM 0 delivers a NACKed entry only once per reply."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >")
    server.expect("XNACK s g FAIL IDS 1 1-0", 1)
    reply = [[*entry("1-0 f 1"), ANY, 1], [*entry("2-0 f 2"), ANY, 1]]
    server.expect("XREADGROUP GROUP g b CLAIM 0 STREAMS s >", Streams({"s": reply}))


@hand_clock
@pytest.mark.parametrize("mode", ["WRITE", "ALL"])
def test_no_key_expires_during_a_pause(server: Server, mode: str) -> None:
    """A key that expires while writes are held back is invisible but kept, and deleted after the pause."""
    server.given("SET k v PX 10", "SET other v", f"CLIENT PAUSE 1000 {mode}")
    server.let_pass(20)
    server.expect("GET k", None)
    server.expect("EXISTS k", 0)
    server.expect("KEYS *", ["other"])
    server.expect("SCAN 0", ["0", ["other"]])
    server.expect("DBSIZE", 2)
    server.given("CLIENT UNPAUSE")
    server.expect("GET k", None)
    server.expect("DBSIZE", 1)


@hand_clock
@pytest.mark.parametrize("write", ["SET k w", "APPEND k w", "SET k w KEEPTTL", "SETNX k w"])
def test_a_write_after_a_pause_in_a_transaction_replaces_an_expired_key(server: Server, write: str) -> None:
    """A transaction's write after its own CLIENT PAUSE replaces an expired key."""
    server.given("SET k v PX 10")
    server.let_pass(20)
    server.given("MULTI", "CLIENT PAUSE 1000 WRITE", write, "EXEC")
    server.expect("GET k", "w")
    server.expect("TTL k", -1)
    server.expect("DBSIZE", 1)
    server.given("CLIENT UNPAUSE")


@since("7.2", valkey="8.0")
def test_waiting_keys_are_counted(server: Server) -> None:
    """INFO clients has the number of keys that clients wait for, and the number of those for which a deletion wakes a
    client.
    """
    server.given("XADD s 1-1 f v", "XGROUP CREATE s g $")
    reader, group_reader = server.client(), server.client()
    reader.send("XREAD BLOCK 0 STREAMS t $")
    reader.expect_blocked()
    group_reader.send("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    group_reader.expect_blocked()
    text = server.run("INFO clients").decode()
    assert "\r\ntotal_blocking_keys:2\r\n" in text
    assert "\r\ntotal_blocking_keys_on_nokey:1\r\n" in text
    server.given("XADD t 1-1 f v", "XADD s 2-1 f v")
    reader.receive()
    group_reader.receive()
