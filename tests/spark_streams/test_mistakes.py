"""Users' mistakes: the first line of Spark's output names the cause and the remedy.

This module is long because it is one table (`MISTAKES`) with the helpers of its rows.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
import redis
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader
from pyspark.util import handle_worker_exception

from spark_streams.source import PystreamsDataSource
from streamclient import pool
from streamclient.config import connect
from streamclient.errors import LinkError
from tests import servers
from tests.spark_streams.driver import schema_of

SCHEMA = "station string, n int"


def shown(action: Callable[[], Any]) -> list[str]:
    """Return the lines that Spark prints for the action's exception, after Spark's own prefix."""
    out = BytesIO()
    try:
        action()
    except BaseException as problem:  # noqa: BLE001 - Spark shows whatever it is
        handle_worker_exception(problem, out)
    status, length = struct.unpack("!ii", out.getvalue()[:8])
    assert status == -2
    return out.getvalue()[8 : 8 + length].decode().rstrip().split("\n")


@dataclass
class Actions:
    """A server with a stream `s`, and Spark's calls for users' actions."""

    url: str
    client: redis.Redis

    def source(self, **options: Any) -> PystreamsDataSource:
        """Return the data source with these options, as Spark passes them."""
        given = {"url": self.url, "retryTimeoutMs": "300", **options}
        return PystreamsDataSource(
            CaseInsensitiveDict({name.replace("__", "."): str(value) for name, value in given.items()})
        )

    def batch(self, schema: str = SCHEMA, **options: Any) -> list[dict[str, Any]]:
        """Return the rows of a batch read."""
        source = self.source(**options)
        source.schema()
        return _rows(source.reader(schema_of(schema)))

    def reader(self, schema: str = SCHEMA, **options: Any) -> DataSourceStreamReader:
        """Return the reader of a streaming read."""
        return self.source(**options).streamReader(schema_of(schema))

    def trigger(self, reader: DataSourceStreamReader, start: Any = None) -> Any:
        """Run a micro-batch; return the offset at its end."""
        start = reader.initialOffset() if start is None else start
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        for part in reader.partitions(start, end):
            list(reader.read(part))
        return end


def _rows(reader: DataSourceReader) -> list[dict[str, Any]]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def site_of_mistakes(engine_process: servers.Running) -> Iterator[Actions]:
    """A server with several users who lack permissions, such as `poor`."""
    with redis.Redis(host=engine_process.host, port=engine_process.port, protocol=2) as client:
        client.flushall()
        client.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~*", "+xinfo|stream", "+echo")
        client.execute_command("ACL", "SETUSER", "mute", "on", ">pw", "~*", "+@all", "-echo")
        client.execute_command("ACL", "SETUSER", "near", "on", ">pw", "~s", "+@all")
        for n in range(3):
            client.xadd("s", {"station": "ewr", "n": n})
        yield Actions(engine_process.url, client)
        pool.close_all()
        client.execute_command("ACL", "DELUSER", "poor", "mute", "near")
        client.flushall()


@pytest.fixture
def actions(site_of_mistakes: Actions, monkeypatch: pytest.MonkeyPatch) -> Actions:
    monkeypatch.delenv(connect.URL, raising=False)
    return site_of_mistakes


def _with_scheme(actions: Actions, scheme: str) -> str:
    return actions.url.replace("redis", scheme, 1)


MISTAKES: dict[str, tuple[Callable[[Actions], Any], str, str]] = {
    # the mistake: (the user's action, pattern of the cause, pattern of the remedy)
    "a wrong password": (
        lambda actions: actions.batch(stream="s", user="poor", password="wrong"),
        r"\[LOGIN_REFUSED\] redis://\S+ refused the login with user 'poor': invalid username-password pair",
        r"Correct the options 'user' and 'password'",
    ),
    "a cluster's URL for a single server": (
        lambda actions: actions.batch(stream="s", url=_with_scheme(actions, "redis+cluster")),
        r"\[NOT_A_CLUSTER\] redis\+cluster://\S+ names a cluster, but the server is not part of a cluster",
        r"Set the option 'url' to redis://127",
    ),
    "Sentinels' URL for a single server": (
        lambda actions: actions.batch(stream="s", url=_with_scheme(actions, "redis+sentinel") + "/master"),
        r"\[NOT_A_SENTINEL\] .* names Sentinels, but the server is not a Sentinel",
        r"Set the option 'url' to redis://127\S+ to connect to that server, or name the Sentinels' port",
    ),
    "TLS to a plain port": (
        lambda actions: actions.batch(stream="s", url=_with_scheme(actions, "rediss")),
        r"\[TLS_NOT_SPOKEN\] rediss://\S+ names a server with TLS, but the server does not use TLS",
        r"Set the option 'url' to redis://127",
    ),
    "a URL without a scheme": (
        lambda actions: actions.batch(stream="s", url="localhost:6379"),
        r"\[INVALID_OPTION\] Option 'url' is '\(not shown\)', but it has no scheme",
        r"write redis:// before host and port",
    ),
    "commands that the user may not run": (
        lambda actions: actions.batch(stream="s", user="poor", password="pw"),
        r"\[NOT_PERMITTED\] redis://\S+ does not allow the user 'poor' to run XRANGE: NOPERM",
        r"All required permissions: ACL SETUSER poor ~s \+echo \+xinfo\|stream \+xrange \+ping \(",
    ),
    "ECHO, which the user may not run": (
        lambda actions: actions.batch(stream="s", user="mute", password="pw"),
        r"\[NOT_PERMITTED\] redis://\S+ does not allow the user 'mute' to run ECHO: NOPERM",
        r"All required permissions: ACL SETUSER mute ~s \+echo \+xinfo\|stream \+xrange \+ping \(",
    ),
    "one stream of many that the user may not read": (
        lambda actions: actions.batch(streams="s,other", user="near", password="pw"),
        r"\[NOT_PERMITTED\] redis://\S+ does not allow the user 'near' to run PS\.STATE with the key 'other': NOPERM",
        r"All required permissions: ACL SETUSER near ~s ~other \+echo",
    ),
    "a database that the server does not have": (
        lambda actions: actions.batch(stream="s", url=f"{actions.url}/99"),
        r"\[SERVER_REFUSED\] redis://\S+/99 refused SELECT 99: .*out of range",
        r"The option 'url' names the server",
    ),
    "a missing file of certificates": (
        lambda actions: actions.batch(stream="s", url=_with_scheme(actions, "rediss"), tls__caFile="/no/such.crt"),
        r"\[INVALID_OPTION\] Option 'tls.caFile' is '/no/such.crt', but there is no such file",
        r"Correct the option",
    ),
    "a list as the name of one stream": (
        lambda actions: actions.batch(stream="s,t"),
        r"\[STREAM_MISSING\] There is no stream 's,t' at",
        r"To read several streams, set the option 'streams'",
    ),
    "a misspelt column, which requireFields makes an error": (
        lambda actions: actions.batch("statoin string, n int", stream="s", requireFields="true"),
        r"\[FIELDS_MISSING\] There is no value for 'statoin' in any of the \d rows .*have the fields 'n', 'station'",
        r"Correct the column's name \(the nearest field: 'station'\)",
    ),
    "a column of a type that no value fits, which requireFields makes an error": (
        lambda actions: actions.batch("station int, n int", stream="s", requireFields="true"),
        r"\[FIELDS_UNREADABLE\] The entries of 's' have the fields 'station', but in all \d rows .* do not fit",
        r"Correct the column's type\. To see the values, read the column as a string",
    ),
    "a table of Spark's catalog": (
        lambda actions: actions.source(stream="s", provider="pystreams", owner="root", option__stream="s").schema(),
        r"\[TABLE_NOT_KEPT\] A table of Spark's catalog cannot read a stream",
        r"Use CREATE TEMPORARY VIEW name USING pystreams OPTIONS",
    ),
    "a group that does not exist to start from": (
        lambda actions: actions.batch(stream="s", group="none", startingOffsets="group"),
        r"\[NOTHING_FROM_GROUP\] The stream 's' has no consumer group 'none' to start from",
        r"Create the group, or set startingOffsets to a value other than 'group'",
    ),
}


@pytest.fixture(autouse=True)
def _shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable Spark's simplified tracebacks, which omit causes."""
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_line_names_cause_and_remedy(actions: Actions, mistake: str) -> None:
    """Spark's output for a mistake starts and ends with the connector's message, which names cause and remedy."""
    action, cause, remedy = MISTAKES[mistake]
    lines = shown(lambda: action(actions))
    assert lines[0].startswith("pystreams: [")
    assert lines[-1].partition(": ")[2] == lines[0].partition(": ")[2]
    for words in (cause, remedy):
        assert re.search(words, lines[0]), lines[0]


def test_a_misspelt_column_is_warned_of(actions: Actions, caplog: pytest.LogCaptureFixture) -> None:
    """A column that is null in every row of a query's first batch, or of a batch read, causes one warning."""
    reader = actions.reader("staton string, n int", stream="s", startingOffsets="earliest")
    end = actions.trigger(reader)
    assert re.search(r"There is no value for 'staton' .* of 's'.*the nearest field: 'station'", caplog.text)
    actions.batch("staton string, n int", stream="s")
    assert caplog.text.count("FIELDS_MISSING") == 1
    strict = actions.reader(stream="s", startingOffsets="earliest", requireFields="true")
    actions.trigger(strict)
    actions.client.xadd("s", {"other": "x"})
    actions.trigger(strict, end)  # a later batch may lack fields


def test_a_column_may_occur_twice(actions: Actions) -> None:
    """A schema may contain the same field twice, with different types."""
    assert (
        len(actions.batch("n int, n string, staton string", stream="s")) == len(actions.batch("n int", stream="s")) > 0
    )


def test_a_missing_stream_may_be_allowed(actions: Actions, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnMissingStream=false, a missing stream has no rows; a streaming query reports that it waits for the
    stream. A query that will fail does not report that it waits.
    """
    assert actions.batch(stream="none", failOnMissingStream="false") == []
    assert actions.batch(streamPattern="none:*", failOnMissingStream="false") == []
    actions.reader(stream="none", failOnMissingStream="true").initialOffset()
    assert not caplog.text
    actions.reader(stream="none").initialOffset()
    assert "The stream none does not exist yet. The query waits for it." in caplog.text


def test_a_connection_that_breaks_midway(actions: Actions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection error within a generator is shown as the connector's message."""
    source = actions.source(stream="s")
    reader = source.reader(schema_of(SCHEMA))
    part = reader.partitions()[0]

    def batches(*_: Any) -> Iterator[Any]:
        yield from ()
        raise LinkError("Connection reset by peer.")

    monkeypatch.setattr(type(part), "batches", batches)
    lines = shown(lambda: list(reader.read(part)))
    assert lines[0].startswith("pystreams: [CONNECTION_BROKEN] ")
    assert "Connection reset by peer. Check that the server is running" in lines[0]


def test_a_node_of_a_cluster_named_as_a_single_server() -> None:
    """A cluster node given as a single server is an error that names the cluster's URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def answer() -> None:
            client, _ = listening.accept()
            with client:
                while client.recv(65536):
                    client.sendall(b"-MOVED 1 127.0.0.1:1\r\n" * 2)

        thread = threading.Thread(target=answer)
        thread.start()
        actions = Actions(f"redis://127.0.0.1:{listening.getsockname()[1]}", redis.Redis())
        lines = shown(lambda: actions.batch(stream="s"))
        pool.close_all()
        thread.join(30)
    assert re.search(r"\[CLUSTER_NODE\] .*node of a cluster: MOVED.*'url' to redis\+cluster://127", lines[0]), lines[0]
