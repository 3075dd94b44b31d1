"""Printed ACL rules of each mode and feature: sufficient, and each one necessary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import redis

from spark_streams.config import options
from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.executor import number_of_write
from streamclient import connection as client_connection
from streamclient import pool
from streamclient.commands import COMMANDS, rule_of
from streamclient.config import address
from streamclient.streams.delivery import Delivery
from tests import servers
from tests.spark_streams.driver import Query
from tests.spark_streams.write.test_attempts import Attempt, numbers
from tests.spark_streams.write.test_exactly_once import table
from tests.suite.long import long_only
from tests.suite.waiting import wait_for


@dataclass
class Feature:
    """A user's work: options of a read or write, and a function that raises if a row is missing or duplicated."""

    work: Callable[[Feature, str, redis.Redis], None]
    options: dict[str, str] = field(default_factory=dict)
    writes: bool = False

    def rules(self, url: str) -> list[str]:
        """Return the rules that NOT_PERMITTED prints."""
        given, server = {"stream": "s", "url": url, **self.options}, address.parse(url)
        if self.writes:
            return options.for_write(options.write_options(given), server).split()
        return options.for_read(options.read_options(given), server).split()


def _write(feature: Feature, url: str, client: redis.Redis) -> None:
    """Write batches that succeed, are repeated, or are completed by a later attempt, and write from foreachBatch."""
    mode = feature.options.get("writeMode", "exactlyOnce")
    more: dict[str, Any] = {"maxlen": 1000} if "maxlen" in feature.options else {}

    def attempt(name: str, batch: int) -> Attempt:
        made = Attempt(url, name, mode, batch, more)
        made.connection.address = made.connection.topology.address = address.Address(url, retry_ms=1000)
        return made

    attempt("first", 0).task(0, range(8)).commit()
    begun = attempt("first", 1).task(0, range(8, 16))
    begun.connection.close()
    attempt("second", 1).task(0, range(8, 16)).task(1, range(16, 20)).commit()
    attempt("third", 1).task(0, range(8, 16)).task(1, range(16, 20)).commit()
    last = attempt("first", 2).task(0, range(20, 24))
    last.commit()
    write_options = WriteOptions(stream="s")
    for batch in range(2):
        assert number_of_write(last.connection, "q", batch, f"run{batch}", "1", write_options) == 0
    assert numbers(client) == [*range(24)]
    last.connection.close()
    for _ in range(2):
        with pool.borrow(address.parse(url)):
            pass


def _append(_: Feature, url: str, client: redis.Redis) -> None:
    with pool.borrow(address.Address(url, retry_ms=0)) as connection:
        sender = AtLeastOnceSender(connection, WriteOptions(stream="s"))
        for chunk in RowEncoder(WriteOptions(stream="s"), WriteSchema(("n",), False, False, False)).chunks(
            iter([table(0, 3)])
        ):
            sender.submit(chunk)
        sender.finish()
    assert len(numbers(client)) == 3
    for _ in range(2):
        with pool.borrow(address.parse(url)):
            pass


def _read(feature: Feature, url: str, client: redis.Redis) -> None:
    """Read with restarts and replays, a second run, and a lease renewal."""
    for n in range(33):
        client.xadd("s", {"n": n})
    query = Query(url, "n int", startingOffsets="earliest", retryTimeoutMs=0, **{"stream": "s", **feature.options})
    first = query.trigger() or []
    query.restart()
    assert sorted(row["n"] for row in query.run()) == sorted(row["n"] for row in first)
    rows = first + query.drain()
    assert sorted(row["n"] for row in rows) == [*range(33)]
    lease = getattr(query.reader.source, "lease", None)
    if lease is not None:
        lease.beat()
    query.reader.stop()
    if "claimIdleMs" in feature.options:  # a pending entry that no longer exists
        client.xgroup_create("s", "h", "$")
        gone = client.xadd("s", {"n": -1})
        client.xreadgroup("h", "gone", {"s": ">"})
        client.xdel("s", gone)
        wait_for(lambda: client.xpending_range("s", "h", "-", "+", 1, idle=1), "the entry to be idle")
        claiming = Query(url, "n int", retryTimeoutMs=0, stream="s", **{**feature.options, "group": "h"})
        assert claiming.trigger() is None
        claiming.reader.stop()
    if "minPartitions" in feature.options:  # an existing group, which is moved to the start of a new query
        client.xgroup_create("s", "h", "0")
        middle = [client.xadd("s", {"n": n}) for n in range(5)][2].decode()
        moving = Query(
            url, "n int", stream="s", retryTimeoutMs=0, **{**feature.options, "group": "h"}, startingOffsets=middle
        )
        moving.trigger()
        moving.reader.stop()


def _dead_letters(feature: Feature, url: str, client: redis.Redis) -> None:
    """Let a batch fail until its entries become dead letters."""
    for n in range(3):
        client.xadd("s", {"n": n})
    query = Query(url, "n int", startingOffsets="earliest", retryTimeoutMs=0, **{"stream": "s", **feature.options})
    query.trigger()
    query.restart()
    assert query.run() == []
    assert (query.trigger(), client.xlen("dead")) == (None, 3)
    query.reader.source.lease.beat()
    query.reader.stop()


_DISPENSABLE = {rule_of(name) for name, sent in COMMANDS.items() if sent.without}
FEATURES = {
    "append": Feature(_append, {"writeMode": "append"}, writes=True),
    "exactlyOnce": Feature(_write, {"writeMode": "exactlyOnce"}, writes=True),
    "atomic": Feature(_write, {"writeMode": "atomic"}, writes=True),
    "staged": Feature(_write, {"writeMode": "staged"}, writes=True),
    "maxlen": Feature(_write, {"writeMode": "staged", "maxlen": "1000"}, writes=True),
    "read": Feature(_read, {"maxEntriesPerTrigger": "10"}),
    "group": Feature(_read, {"group": "g", "maxEntriesPerTrigger": "10", "minPartitions": "2"}),
    "cursor": Feature(_read, {"group": "g", "ack": "cursor", "maxEntriesPerTrigger": "10"}),
    "shared": Feature(
        _read,
        {
            "group": "g",
            "consume": "shared",
            "maxEntriesPerTrigger": "10",
            "claimIdleMs": "1",
            "failOnDataLoss": "false",
        },
    ),
    "dead letters": Feature(
        _dead_letters, {"group": "g", "consume": "shared", "maxDeliveries": "1", "deadLetterStream": "dead"}
    ),
    "trimOnCommit": Feature(
        _read, {"group": "g", "trimOnCommit": "true", "maxEntriesPerTrigger": "10", "minPartitions": "2"}
    ),
}


#: Features whose rules and requests are among those of other features.
_LONG = {"exactlyOnce", "atomic", "staged", "read", "cursor"}


@pytest.mark.parametrize("name", [pytest.param(each, marks=long_only if each in _LONG else ()) for each in FEATURES])
def test_the_printed_rules_are_sufficient_and_necessary(
    client: redis.Redis, instance: servers.Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rules that NOT_PERMITTED prints, the feature works; without any one of them, it fails or falls back."""
    monkeypatch.setattr(client_connection, "_IDLE_SECONDS", -1)
    monkeypatch.setattr(Delivery, "limits", replace(Delivery.limits, deleted=5))
    feature = FEATURES[name]
    url = instance.url.replace("://", "://job:x@")
    rules = feature.rules(url)
    problems: list[str] = []
    try:
        for left_out in (None, *(rule for rule in rules if rule.startswith("+"))):
            client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", *(r for r in rules if r != left_out))
            client.acl_log_reset()
            refusal = _refusal(feature, url, client)
            denied = {entry["object"].lower() for entry in client.acl_log() if entry["reason"] == "command"}
            word = (left_out or "").removeprefix("+")
            was_asked = word in denied or word.partition("|")[0] in denied
            if left_out is None and refusal:
                problems.append(f"not enough: {refusal}, denied: {denied}")
            elif left_out is not None and not refusal and left_out not in _DISPENSABLE:
                problems.append(f"{left_out}: {'needed no more' if was_asked else 'never used'}")
            elif left_out in _DISPENSABLE and not was_asked and not refusal:
                problems.append(f"{left_out}: never used")
            pool.close_all()
            client.flushall()
    finally:
        client.acl_deluser("job")
    assert problems == []


def _refusal(feature: Feature, url: str, client: redis.Redis) -> str:
    try:
        feature.work(feature, url, client)
    except PystreamsError as problem:
        return str(problem)
    return ""
