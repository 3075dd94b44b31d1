"""`pystreams batches`: what interrupted batches have written, and taking it back so that a fixed query can continue."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
import redis

from spark_streams.errors import WriteError
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.withdrawal import OutdatedError, look, withdraw
from tests import servers
from tests.pystreams.conftest import Cli
from tests.servers import topologies
from tests.spark_streams.write.test_attempts import QUERY, Attempt, numbers


def other_writer(client: redis.Redis, stream: str = "s") -> None:
    client.xadd(stream, {"n": -1, "by": "another program"})


def interrupted(url: str, client: redis.Redis, mode: str = "exactlyOnce") -> None:
    """Leave batch 0 after its driver's death: partition 0 has written 12 rows in 3 transactions, between entries of
    another writer; partition 1 has written 4 rows to another stream.
    """
    attempt = Attempt(url, "old", mode)
    sender = attempt.sender(0)
    for chunk in attempt.chunks(range(12)):
        sender.submit(chunk)
        sender.settle()
        other_writer(client)
    attempt.task_rows += sender.finish()
    attempt.task(1, range(20, 24), stream="t")


def fixed(url: str, mode: str = "exactlyOnce") -> Attempt:
    """Return an attempt of the fixed query, whose tasks have ended."""
    return Attempt(url, uuid.uuid4().hex, mode).task(0, range(100, 107)).task(1, range(200, 203), stream="t")


def rows(client: redis.Redis, stream: str = "s") -> list[int]:
    return [n for n in numbers(client, stream) if n >= 0]


def test_a_fixed_query_writes_a_removed_batch(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """The error names the command, which removes exactly the rows of the batch; the fixed query then writes its own."""
    interrupted(instance.url, client)
    client.xgroup_create("s", "readers", 0)
    client.xreadgroup("readers", "c", {"s": ">"}, count=3)
    with pytest.raises(WriteError, match="REPLAY_DIFFERS") as refusal:
        fixed(instance.url).commit()
    line = f"pystreams batches rm {QUERY} 0 --url {instance.url}"
    assert line in str(refusal.value)
    words = line.split()[1:]
    listed = cli_of.json("batches", "ls")
    assert listed == {"batches": [{"name": QUERY, "batch": 0, "rows": 16, "streams": 2}]}
    shown = cli_of.json("batches", "show", QUERY, "0")
    assert [(each["stream"], each["partition"], each["rows"], each["found"]) for each in shown["streams"]] == [
        ("s", 0, 12, 12),
        ("t", 1, 4, 4),
    ]
    before = client.xrange("s")
    result = cli_of.result(*words, "--dry-run")
    assert result.stdout.splitlines()[-1].startswith(f"Would remove 16 rows of batch 0 of {QUERY}")
    assert "readers has already read 3 rows of s." in result.stderr
    assert "[NOT_CONFIRMED]" in cli_of.failure(*words, status=2)
    assert client.xrange("s") == before
    assert cli_of.json(*words, "--yes")["removed"] == 16
    assert (numbers(client), numbers(client, "t")) == ([-1, -1, -1], [])
    assert cli_of(*words, "--yes") == f"Batch 0 of {QUERY} has written nothing.\n"
    fixed(instance.url).commit()
    assert (rows(client), rows(client, "t")) == ([*range(100, 107)], [*range(200, 203)])
    (note,) = cli_of.json("batches", "show", QUERY, "0")["withdrawn"]
    assert (note["batch"], note["rows"], note["removed"]) == (0, 16, 16)
    assert "[BATCH_COMPLETE]" in cli_of.failure(*words, "--yes", status=1)
    Attempt(instance.url, "next", batch=1).task(0, [7]).commit()
    assert numbers(client)[-1] == 7
    fields = [field for field in client.hkeys(f"pystreams:fence:{{s}}:s:{QUERY}:0") if field.startswith(b"chunk:")]
    assert fields == [b"chunk:1"]  # the transactions of the batch before are gone
    assert cli_of.json("batches", "ls") == {"batches": []}
    assert "[NO_SUCH_BATCH]" in cli_of.failure(*words, "--yes", status=4)


def test_kept_rows_are_no_longer_counted(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """After `keep`, the streams have the old rows and all rows of the fixed query. `rm` then removes only new rows."""
    interrupted(instance.url, client)
    assert cli_of.json("batches", "keep", QUERY, "0", "--yes")["removed"] == 0
    attempt = Attempt(instance.url, "same").task(0, range(12))
    attempt.commit()
    assert rows(client) == [*range(12), *range(12)]
    assert cli_of.json("batches", "rm", QUERY, "0", "--committed", "--yes")["removed"] == 12
    assert rows(client) == [*range(12)]
    fixed(instance.url).commit()
    assert rows(client) == [*range(12), *range(100, 107)]


@pytest.mark.parametrize("mode", ["exactlyOnce", "atomic", "staged"])
def test_a_complete_batch_that_is_repeated(
    cli_of: Cli, client: redis.Redis, instance: servers.Running, mode: str
) -> None:
    """If the driver dies after the commit, the error of the repeated batch names the option that removes its rows."""
    Attempt(instance.url, "old", mode).task(0, range(12)).task(1, range(20, 24), stream="t").commit()
    if mode != "staged":  # a repetition in this mode is ignored
        with pytest.raises(WriteError, match=f"batches rm {QUERY} 0 --url {instance.url} --committed"):
            fixed(instance.url, mode).commit()
    assert cli_of.json("batches", "rm", QUERY, "0", "--committed", "--yes")["removed"] == 16
    fixed(instance.url, mode).commit()
    assert (rows(client), rows(client, "t")) == ([*range(100, 107)], [*range(200, 203)])


def test_trimmed_rows_are_reported(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """A transaction of which some entries were trimmed is not found; the others are removed."""
    interrupted(instance.url, client)
    client.xtrim("s", minid=client.xrange("s")[2][0], approximate=False)
    result = cli_of.result("batches", "rm", QUERY, "0", "--yes")
    assert "5 rows cannot be removed" in result.stderr
    assert rows(client) == [2, 3, 4]


def test_a_running_query_is_fenced(client: redis.Redis, instance: servers.Running) -> None:
    """If the query has written more since the plan was made, nothing is removed; afterwards it can write no more."""
    running, user = Attempt(instance.url, "running"), Attempt(instance.url, "user").connection
    first, second = running.sender(0), running.sender(1)
    (chunk,) = running.chunks([1])
    first.submit(chunk)
    first.settle()
    plan = look(user, QUERY, 0)
    second.submit(chunk)
    second.settle()
    with pytest.raises(OutdatedError, match="batch 0"):
        withdraw(user, plan, removes=True, at="now")
    assert numbers(client) == [1, 1]
    withdraw(user, look(user, QUERY, 0), removes=True, at="now")
    assert numbers(client) == []
    first.submit(chunk)
    with pytest.raises(WriteError, match="ATTEMPT_REPLACED"):
        first.settle()
    fixed(instance.url).commit()
    assert rows(client) == [*range(100, 107)]


@pytest.mark.parametrize("form", ["1-0", "1", "*", None])
def test_rows_with_their_own_ids_are_found(client: redis.Redis, instance: servers.Running, form: str | None) -> None:
    """Rows are found whichever form their column `_id` has."""
    table = pa.RecordBatch.from_pydict({"_id": pa.array([form], pa.string()), "n": [1]})
    attempt = Attempt(instance.url, "own")
    ((encoded,),) = RowEncoder(attempt.options, WriteSchema(("n",), False, True, False)).chunks(iter([table]))
    sender = attempt.sender(0)
    sender.submit([encoded])
    sender.finish()
    (found,) = look(attempt.connection, QUERY, 0).written
    assert [*found.ids] == [entry for entry, _ in client.xrange("s")]


def test_many_streams_of_a_cluster(cluster: topologies.Cluster, tmp_path: Path) -> None:
    """A batch is found and removed in all slots of a cluster."""
    cli = Cli(cluster.url, tmp_path)
    names = [f"many-{number}" for number in range(12)]
    attempt = Attempt(cluster.url, "old")
    for partition, name in enumerate(names):
        attempt.task(partition, range(7), stream=name)
    assert cli.json("batches", "ls")["batches"] == [{"name": QUERY, "batch": 0, "rows": 84, "streams": 12}]
    assert cli.json("batches", "rm", QUERY, "0", "--yes")["removed"] == 84
    again = Attempt(cluster.url, "fixed").task(0, [1], stream=names[0])
    again.commit()
    with cluster.client() as client:
        assert [client.xlen(name) for name in names] == [1, *[0] * 11]
