"""Cost of durability: adding with an append-only file, and loading.

Both servers switch their append-only file on and off at run time, and reload without a new process (``DEBUG RELOAD
NOSAVE``, ``DEBUG LOADAOF``). So these cases run in the same processes as all other cases.
"""

from __future__ import annotations

import time

from benchmarks.engine.cases import KEY, Case, add_entries, expect_length, flush, xadd
from benchmarks.engine.client import Connection, command

_DEADLINE = 60.0


def durable_xadd(policy: str, pipeline: int, entries: int) -> Case:
    """Return the case of XADD with an append-only file and ``policy`` for ``appendfsync``."""
    plain = xadd(pipeline, entries)

    def prepare(connection: Connection) -> None:
        flush(connection)
        expect_ok(connection, "CONFIG", "SET", "appendfsync", policy)
        expect_ok(connection, "CONFIG", "SET", "appendonly", "yes")
        wait_for_log(connection)

    def check(connection: Connection) -> None:
        plain.check(connection)
        expect_ok(connection, "CONFIG", "SET", "appendonly", "no")

    synced = pipeline if policy == "always" else 0
    return Case(f"XADD, {pipeline}, {policy}", entries, prepare, plain.work, check, synced=synced)


def load_snapshot(entries: int) -> Case:
    """Return the case of loading a snapshot of this many entries, in each server's own format."""

    def prepare(connection: Connection) -> None:
        if connection.reply(command("XLEN", KEY)) != b":%d\r\n" % entries:
            flush(connection)
            add_entries(connection, entries)
            # Redis has no other format, and rejects this directive.
            connection.reply(command("CONFIG", "SET", "save-format", "psb"))
            expect_ok(connection, "SAVE")

    def work(connection: Connection) -> None:
        expect_ok(connection, "DEBUG", "RELOAD", "NOSAVE")

    return Case("load a snapshot", entries, prepare, work, expect_length(entries), 2)


def load_log(entries: int) -> Case:
    """Return the case of loading a log of this many XADDs, written a thousand at a time."""

    def prepare(connection: Connection) -> None:
        flush(connection)
        expect_ok(connection, "CONFIG", "SET", "appendfsync", "everysec")
        # An automatic rewrite would replace the commands by a base.
        expect_ok(connection, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
        expect_ok(connection, "CONFIG", "SET", "appendonly", "yes")
        wait_for_log(connection)
        add_entries(connection, entries)

    def work(connection: Connection) -> None:
        expect_ok(connection, "DEBUG", "LOADAOF")

    def check(connection: Connection) -> None:
        expect_length(entries)(connection)
        end_log(connection)

    return Case("load a log", entries, prepare, work, check, 1)


def end_log(connection: Connection) -> None:
    """Remove the log and the stream, so that the next preparation does not reuse them."""
    expect_ok(connection, "CONFIG", "SET", "appendonly", "no")
    flush(connection)


def expect_ok(connection: Connection, *words: str) -> None:
    """Run a command whose reply must be OK."""
    reply = connection.reply(command(*words))
    if reply != b"+OK\r\n":
        raise RuntimeError(f"{words}: {reply[:200]!r}")


def wait_for_log(connection: Connection) -> None:
    """Wait until the append-only file is in use."""
    end = time.monotonic() + _DEADLINE
    while time.monotonic() < end:
        facts = connection.reply(command("INFO", "persistence"))
        if b"aof_enabled:1" in facts and b"aof_rewrite_in_progress:0" in facts and b"aof_rewrite_scheduled:0" in facts:
            return
        time.sleep(0.01)
    raise RuntimeError("the append-only file did not get ready")


def durable_cases(entries: int = 2_000_000) -> list[Case]:
    """Return the cases in the order in which they run."""
    return [
        durable_xadd("everysec", 1000, 200_000),
        durable_xadd("always", 1000, 200_000),
        durable_xadd("always", 1, 2_000),
        load_snapshot(entries),
        load_log(entries),
    ]
