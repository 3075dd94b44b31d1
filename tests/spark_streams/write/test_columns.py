"""Rows sent to the engine as columns: the writes that use columns, and equal results."""

from __future__ import annotations

import pyarrow as pa
import pytest
import redis

from spark_streams.config.write import WriteOptions
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import RowEncoder, WriteSchema
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests import servers
from tests.spark_streams.write.test_exactly_once import Task, numbers, table


def calls(client: redis.Redis, name: str) -> int:
    """Return the number of successful calls of a command since CONFIG RESETSTAT."""
    found = client.info("commandstats").get(f"cmdstat_{name}", {})
    return int(found.get("calls", 0)) - int(found.get("failed_calls", 0))


def nulls_at(first: int, end: int, *rows: int) -> pa.RecordBatch:
    """Return rows with a second field, which is null in the given rows."""
    return table(
        first, end, text=pa.array([None if row in rows else f"{row}" * (row % 7) for row in range(first, end)])
    )


def is_engine(request: pytest.FixtureRequest) -> bool:
    """Return whether the test runs on the engine."""
    return bool(request.node.callspec.params["instance"] == "engine")


def test_rows_without_nulls_are_sent_as_columns(
    client: redis.Redis, instance: servers.Running, request: pytest.FixtureRequest
) -> None:
    """A chunk without nulls is one PS.ADD on the engine; with nulls, or on Redis, its rows are XADDs with the same
    result.
    """
    client.config_resetstat()
    Task(instance.url).feed(nulls_at(0, 400, 150)).finish()
    if is_engine(request):
        assert (calls(client, "ps.add"), calls(client, "xadd")) == (3, 100)
    else:
        assert (calls(client, "ps.add"), calls(client, "xadd")) == (0, 400)
    wanted = [{b"n": b"%d" % row, b"text": b"%d" % row * (row % 7)} for row in range(400)]
    del wanted[150][b"text"]
    assert [fields for _, fields in client.xrange("s")] == wanted


@pytest.mark.parametrize("more", [{"chunk_size": 400}, {"chunk_size": 30}, {"mode": "staged"}, {"mode": "atomic"}])
def test_a_replay_does_not_depend_on_how_rows_were_sent(
    client: redis.Redis, instance: servers.Running, more: dict[str, object]
) -> None:
    """A repeated write adds nothing if its rows are divided differently into columns and XADDs."""
    assert Task(instance.url).feed(nulls_at(0, 400, 150)).finish() == 400
    before = client.xrange("s")
    assert Task(instance.url, **more).feed(nulls_at(0, 400, 150)).finish() == 400
    assert client.xrange("s") == before


@pytest.mark.parametrize("rules", ["-ps.add", "-command"])
def test_a_user_without_permission_writes_with_xadd(
    client: redis.Redis, instance: servers.Running, rules: str, request: pytest.FixtureRequest
) -> None:
    """A user without permission for PS.ADD or COMMAND writes with XADD, even if the permission is revoked during the
    write.
    """
    if rules == "-ps.add" and not is_engine(request):
        rules = "-ping"
    client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", "+@all")
    url = instance.url.replace("://", "://job:x@")
    try:
        task = Task(url).feed(table(0, 200))
        client.execute_command("ACL", "SETUSER", "job", rules)
        assert task.feed(table(200, 500)).finish() == 500
        client.config_resetstat()
        Task(url, batch=1).feed(table(500, 700)).finish()
        assert (calls(client, "ps.add"), calls(client, "xadd")) == (0, 200)
    finally:
        client.execute_command("ACL", "DELUSER", "job")
    assert numbers(client) == [*range(700)]


def appended(sender: AtLeastOnceSender, *batches: pa.RecordBatch) -> None:
    """Send rows to the stream `s` in append mode."""
    schema = WriteSchema(tuple(batches[0].schema.names), False, False, False)
    for chunk in RowEncoder(WriteOptions(stream="s", mode="append", chunk_size=100), schema).chunks(iter(batches)):
        sender.submit(chunk)


def test_a_revoked_permission_loses_no_appended_rows(client: redis.Redis, instance: servers.Running) -> None:
    """If the permission for PS.ADD is revoked, rejected chunks are sent with XADD, in order and without duplicates."""
    client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", "+@all")
    connection = Connection(Address(instance.url.replace("://", "://job:x@")))
    try:
        sender = AtLeastOnceSender(connection, WriteOptions(stream="s", mode="append", chunk_size=100))
        appended(sender, table(0, 250))
        client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", "+xadd", "+xtrim", "+echo")
        appended(sender, table(250, 700))
        sender.finish()
    finally:
        connection.close()
        client.execute_command("ACL", "DELUSER", "job")
    assert numbers(client) == [*range(700)]
