"""Cost of small streams: a million streams of ten entries with two short fields.

The engine and `redis-server` are measured with a log. The output has these columns; processor time is that of the
process and its children:

* B/stream, B again: resident bytes per stream, after adding and after a restart
* add us, rewrite us, save us, start us: processor time per stream in microseconds, for adding, a `BGREWRITEAOF`, an RDB
  file (`SAVE`), and a start with the rewritten log
* SCAN s, SCAN TYPE s, KEYS s: seconds of processor time of `SCAN` by pattern and by type, and of `KEYS` by pattern

    python -m benchmarks.engine.small_streams [--streams 1000000] [--servers engine redis] [--directory DIRECTORY]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import servers
from benchmarks.engine.client import Connection, command
from benchmarks.engine.memory import resident_bytes

_ENTRIES, _AT_ONCE = 10, 100
_COLUMNS = ("B/stream", "add us", "rewrite us", "save us", "B again", "start us", "SCAN s", "SCAN TYPE s", "KEYS s")
_TICKS = os.sysconf("SC_CLK_TCK")
#: Timeout of a start or a reply in seconds.
_PATIENCE = 900


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--servers", nargs="+", default=["engine", "redis"], choices=["engine", "redis"])
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="directory for temporary data")
    options = parser.parse_args()
    servers.end_with_this_process()
    servers.START_SECONDS = _PATIENCE
    print(f"{options.streams:,} streams".ljust(20) + "".join(name.rjust(12) for name in _COLUMNS), flush=True)
    for name in options.servers:
        start = servers.engine_command() if name == "engine" else servers.redis_command()
        if start is not None:
            with tempfile.TemporaryDirectory(prefix="bench-small-", dir=options.directory) as directory:
                figures = measure(name, [*start, "--appendonly", "yes"], directory, options.streams)
            print(name.ljust(20) + "".join(f"{figures[column]:12,.2f}" for column in _COLUMNS), flush=True)


def measure(name: str, start: list[str], directory: str, streams: int) -> dict[str, float]:
    """Return the figures of one server, by column."""
    found: dict[str, float] = {}
    with _serving(name, start, directory) as (server, connection):
        empty = resident_bytes(server.pid)

        def spent(column: str, work: Callable[[], object], each: float = 1e6 / streams) -> None:
            before = _processor_seconds(server.pid)
            work()
            found[column] = (_processor_seconds(server.pid) - before) * each

        spent("add us", lambda: _fill(connection, streams))
        found["B/stream"] = (resident_bytes(server.pid) - empty) / streams
        for column, words in (("SCAN s", ("MATCH", "stream:99*")), ("SCAN TYPE s", ("TYPE", "stream"))):
            spent(column, lambda words=words: _scan(connection, *words), 1)  # type: ignore[misc]
        spent("KEYS s", lambda: connection.reply(command("KEYS", "stream:99*")), 1)
        spent("rewrite us", lambda: _rewrite(connection))
        spent("save us", lambda: connection.reply(command("SAVE")))
    with _serving(name, start, directory) as (server, connection):
        found["start us"] = _processor_seconds(server.pid) * 1e6 / streams
        found["B again"] = (resident_bytes(server.pid) - empty) / streams
        assert connection.reply(command("DBSIZE")) == b":%d\r\n" % streams
    return found


@contextmanager
def _serving(name: str, start: list[str], directory: str) -> Iterator[tuple[servers.Server, Connection]]:
    with servers.running(name, start, directory) as server, Connection(server.port, _PATIENCE) as connection:
        yield server, connection


def _fill(connection: Connection, streams: int) -> None:
    rows = [(b"%d" % (number * 7919 % 100_000), b"%d.5" % number) for number in range(_ENTRIES)]
    for at in range(0, streams, _AT_ONCE):
        keys = [b"stream:%d" % number for number in range(at, min(at + _AT_ONCE, streams))]
        request = [
            command("XADD", key, "*", "sensor-id", sensor, "temperature", temperature)
            for key in keys
            for sensor, temperature in rows
        ]
        connection.lines(b"".join(request), 2 * len(request))


def _scan(connection: Connection, *words: str) -> None:
    cursor = b"0"
    while True:
        cursor = connection.reply(command("SCAN", cursor, *words, "COUNT", 1000)).split(b"\r\n")[2]
        if cursor == b"0":
            return


def _rewrite(connection: Connection) -> None:
    """Rewrite the log, and wait until that is done."""

    def is_running() -> bool:
        info = connection.reply(command("INFO", "persistence"))
        return b"aof_rewrite_in_progress:1" in info or b"aof_rewrite_scheduled:1" in info

    while is_running():
        time.sleep(0.05)
    connection.reply(command("BGREWRITEAOF"))
    while is_running():
        time.sleep(0.05)


def _processor_seconds(pid: int) -> float:
    """Return user and system time of a process and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


if __name__ == "__main__":
    main()
