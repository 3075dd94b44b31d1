"""Situations whose stored formats are tested: functions that create each, store it in files, and load it again."""

from __future__ import annotations

import ast
import base64
import json
import pprint
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import redis

from spark_streams.write.publishing import Mover
from spark_streams.write.records import ChunkState
from tests.engine.core.formats import real_files
from tests.engine.shell.durability.workload import freeze, small_segments
from tests.faults.engines import Engine
from tests.harness.storing import store
from tests.spark_streams.driver import OldQuery, Query, Site
from tests.spark_streams.write.test_attempts import Attempt

#: Directory with the files of the releases.
RELEASES = Path(__file__).parent

# --- Checkpoints of streaming queries

_LIMITED = {"maxEntriesPerTrigger": "7"}
_TWO = {"streams": "a,b", "maxEntriesPerTrigger": "9", "minPartitions": "3", "maxPartitions": "3"}
#: Options of a query, for each way of reading.
READS: dict[str, dict[str, str]] = {
    "range": {"stream": "a", **_LIMITED},
    "range-of-a-group": {"stream": "a", "group": "g", **_LIMITED},
    "range-of-two-streams": _TWO,
    "range-of-a-pattern": {"streamPattern": "[ab]", "maxEntriesPerTrigger": "9"},
    "shared": {"stream": "a", "group": "g", "consume": "shared", **_LIMITED},
    "range-on-spark-4.1": {"stream": "a", "group": "g"},
}


def query_of(site: Site, name: str) -> Query:
    """Return a query that reads in this way, from the start of its streams."""
    return site.old_query(**READS[name]) if name.endswith("4.1") else site.query(**READS[name])


def add_entries(site: Site, first: int, count: int) -> None:
    """Add entries to both streams."""
    for stream in ("a", "b"):
        site.add(stream, count, first)


def write_read(site: Site, name: str) -> dict[str, Any]:
    """Run two batches without committing the second; return the checkpoint and the server's keys."""
    add_entries(site, 0, 20)
    query = query_of(site, name)
    if isinstance(query, OldQuery):
        query.available_now()
        query.restart()
        add_entries(site, 20, 5)
        rows = query.available_now()
    else:
        query.trigger()
        rows = query.trigger() or []
    query.reader.stop()
    keys = {text(key): base64.b64encode(site.client.dump(key)).decode() for key in sorted(site.client.keys())}
    return {
        "options": READS[name],
        "log": [json.loads(each or "null") for each in query.log],
        "rows": rows,
        "keys": keys,
    }


def put_read(site: Site, name: str, stored: dict[str, Any]) -> Query:
    """Put the keys on a server without keys; return the query that starts on the checkpoint."""
    for key, dump in stored["keys"].items():
        site.client.restore(key.encode("latin-1"), 0, base64.b64decode(dump))
    query = query_of(site, name)
    assert stored["options"] == READS[name], "the options of a release's query have changed"
    query.log = [json.dumps(each) if each else "" for each in stored["log"]]
    return query


# --- Records of exactly-once writes


def _committed(url: str) -> None:
    """Commit a batch of two tasks."""
    Attempt(url, "first").task(0, range(20)).task(1, range(20, 40)).commit()


def _direct(url: str) -> None:
    """Leave a direct write after the driver's death: one task has written all of its rows, the other one five."""
    _committed(url)
    Attempt(url, "first", batch=1).task(0, range(100, 120)).task(1, range(120, 125))


def _atomic(url: str) -> None:
    """Leave an atomic write after the driver's death: one of two tasks has written its rows in one transaction."""
    Attempt(url, "first", "atomic").task(0, range(20))


def _staged(url: str) -> None:
    """Leave a staged write after the driver's death: both tasks have staged their rows, and no row is published."""
    Attempt(url, "first", "staged").task(0, range(20)).task(1, range(20, 40))


def _prepared(url: str) -> None:
    """Leave a write whose driver died after publishing one of the staged chunks."""
    first = Attempt(url, "first", "staged").task(0, range(20)).task(1, range(20, 40))
    move, left = Mover.move, [1]

    def die(self: Mover, number: int, state: ChunkState) -> bool:
        if not left[0]:
            raise _DriverDiedError
        left[0] -= 1
        return move(self, number, state)

    with mock.patch.object(Mover, "move", die):
        try:
            first.commit()
        except _DriverDiedError:
            return
    raise AssertionError("there was only one chunk to publish")


class _DriverDiedError(BaseException):
    """Raised to simulate a driver's death."""


#: Functions that bring a write to each stage.
WRITES: dict[str, Callable[[str], None]] = {
    "committed": _committed,
    "direct": _direct,
    "atomic": _atomic,
    "staged": _staged,
    "prepared": _prepared,
}


def write_write(site: Site, name: str) -> dict[str, Any]:
    """Bring a write to this stage; return the contents of all keys without deadlines."""
    WRITES[name](site.url)
    client, found = site.client, {}
    for key in sorted(client.keys()):
        if client.type(key) == b"stream":
            found[text(key)] = [
                [text(id_), *(text(word) for pair in fields.items() for word in pair)]
                for id_, fields in client.xrange(key)
            ]
        else:
            found[text(key)] = {text(field): text(value) for field, value in sorted(client.hgetall(key).items())}
    return found


def put_write(client: redis.Redis, stored: dict[str, Any]) -> None:
    """Put the keys on a server without keys."""
    for key, content in stored.items():
        if isinstance(content, dict):
            words = [word.encode("latin-1") for pair in content.items() for word in pair]
            client.execute_command("HSET", key.encode("latin-1"), *words)
        else:
            for entry in content:
                client.execute_command("XADD", key.encode("latin-1"), *(word.encode("latin-1") for word in entry))


# --- Data directories of the engine

_RDB = {"appendonly": "no"}
_PSB = {"appendonly": "no", "save_format": "psb"}
#: Directives of an engine, for each format of data.
ENGINES: dict[str, dict[str, str]] = {
    "rdb": _RDB,
    "rdb-version-14": {**_RDB, "rdb_version": "14"},
    "psb": _PSB,
    "psb-uncompressed": _PSB,
    "psb-with-columns": _PSB,
    "log": {},
    "log-after-psb": {},
    # Written by 1.0.0rc1 with 'aof-use-rdb-preamble no'; later releases only read it.
    "log-after-commands": {},
    "segments-on-disk": {"stream_storage": "disk"},
}
#: Formats that today's engine writes. (A base of commands is only loaded.)
WRITTEN = [name for name in ENGINES if name != "log-after-commands"]
#: Formats with all data in a log of commands. They have no pending records of deleted entries, because no command
#: creates such records.
OF_COMMANDS = ("log", "log-after-commands")


def contents(engine: Engine) -> dict[bytes, Any]:
    """Return everything that clients can see of all keys."""
    found: dict[bytes, Any] = _plain(real_files.view(engine.ask))
    return found


def _plain(value: Any) -> Any:
    """Return a value with floats as text, because Python's syntax has no infinity."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return repr(value + 0.0) if isinstance(value, float) else value  # RDB files store -0.0 as 0.0.


def write_engine(directory: Path, name: str) -> dict[bytes, Any]:
    """Fill an engine on an empty directory with every type and shut it down; return its contents."""
    with small_segments():
        engine = Engine(directory, **ENGINES[name])
        ask = engine.ask
        assert {words[0] for words in real_files.fill(ask)} <= {"CONFIG"}
        for number in range(1, 31):
            ask("XADD", "cold", f"{number}-1", "a", number, "b", "v" * 40)
        if name == "segments-on-disk":
            store(engine.core, engine.durability.keeping.segments)
        elif name != "psb-uncompressed":
            freeze(engine.core, as_columns=name == "psb-with-columns")
        if name.startswith(("log-after", "segments")):
            ask("BGREWRITEAOF")
        ask("SET", "last", "written")
        if ENGINES[name].get("appendonly") == "no":
            ask("SAVE")
        found = contents(engine)
        engine.close()
        engine.die()
    return found


def write_contents(directory: Path, found: dict[bytes, Any]) -> None:
    """Write contents.txt."""
    (directory / "contents.txt").write_text(pprint.pformat(found, width=120) + "\n")


def read_contents(directory: Path) -> dict[bytes, Any]:
    """Return the contents in contents.txt."""
    found: dict[bytes, Any] = ast.literal_eval((directory / "contents.txt").read_text())
    return found


# --- Files


def text(value: bytes) -> str:
    """Return bytes as text, with one character per byte."""
    return value.decode("latin-1")


def form(stored: Any) -> Any:
    """Return a stored value without random IDs and times, which differ between runs; an object becomes a
    list of pairs.
    """
    if isinstance(stored, dict):
        return sorted(([form(name), form(value)] for name, value in stored.items()), key=json.dumps)
    if isinstance(stored, list):
        return [form(each) for each in stored]
    if isinstance(stored, str):
        drawn = r"\b([0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{128,})\b"  # IDs, and keys as hexadecimal
        return re.sub(r"\b[0-9]{13}-[0-9]+\b", "TIME", re.sub(drawn, "DRAWN", stored))
    return stored
