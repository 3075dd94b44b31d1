"""`pystreams produce`: entries from arguments, files and standard input, and generated entries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest
import redis

from pystreams.streams.transfer import Producer
from streamclient.connection import Connection
from streamclient.errors import PystreamsError, ResponseError
from tests import ROOT, servers
from tests.pystreams.conftest import Cli, on_engine, user
from tests.suite.waiting import wait_for


def _entries(client: redis.Redis, stream: str = "s") -> list[dict[bytes, bytes]]:
    return [fields for _, fields in client.xrange(stream)]


def test_one_entry_from_arguments(cli_of: Cli, client: redis.Redis) -> None:
    """FIELD=VALUE accepts any bytes; other arguments are rejected."""
    assert cli_of.json("produce", "s", "a=1", b"\xff=\xfe=", "empty=") == {"added": 1}
    assert _entries(client) == [{b"a": b"1", b"\xff": b"\xfe=", b"empty": b""}]
    assert "[INVALID_VALUE]" in cli_of.failure("produce", "s", "a", status=2)
    assert cli_of.result("produce", "s").exit_code == 2


@on_engine
@pytest.mark.parametrize(
    ("name", "text", "entries"),
    [
        ("a.csv", '\ufeffx,y\n1,"a ""b"", c"\n2,\n', [{b"x": b"1", b"y": b'a "b", c'}, {b"x": b"2"}]),
        (
            "a.jsonl",
            '{"x": 1, "y": null, "z": {"k": [true]}}\n\n{"_id": "1-1", "x": "é"}\n'
            '{"id": "5-5", "fields": [["a", "b"]]}\n',
            [{b"x": b"1", b"z": b'{"k":[true]}'}, {b"x": "é".encode()}, {b"a": b"b"}],
        ),
    ],
)
def test_rows_from_files(
    cli_of: Cli, client: redis.Redis, tmp_path: Path, name: str, text: str, entries: list[dict[bytes, bytes]]
) -> None:
    """A missing value adds no field, and every entry gets a new ID."""
    file = tmp_path / name
    file.write_text(text)
    assert "Would add" in cli_of("produce", "s", "-f", str(file), "--dry-run")
    assert client.exists("s") == 0
    assert cli_of.json("produce", "s", "-f", str(file)) == {"added": len(entries)}
    assert _entries(client) == entries
    assert client.xrange("s")[0][0] > b"1000000000000"


@on_engine
def test_lines_from_standard_input(cli_of: Cli, client: redis.Redis) -> None:
    words = ("produce", "s", "-f", "-", "--format", "lines")
    assert cli_of.json(*words, stdin=b"one\n\xff\r\nlast") == {"added": 3}
    assert _entries(client) == [{b"line": b"one"}, {b"line": b"\xff"}, {b"line": b"last"}]


@on_engine
def test_json_numbers_keep_their_notation(cli_of: Cli, client: redis.Redis, tmp_path: Path) -> None:
    """Numbers in JSON keep their digits and notation, nested or not."""
    written = ("12.50", "1e400", "-0", "1E5", "0.1000000000000000055511151231257827", "9" * 5000)
    nested = r'[1.50,{"x":1E5,"y":null,"z":true,"w":"é\""}]'
    members = ",".join(f'"{at}": {text}' for at, text in enumerate(written))
    line = f'{{"_id": 1700000000000, {members}, "n": {nested}}}\n'
    file = tmp_path / "n.jsonl"
    file.write_text(line)
    cli_of("produce", "s", "-f", str(file))
    cli_of("import", str(file), "t")
    wanted = {str(at).encode(): text.encode() for at, text in enumerate(written)} | {b"n": nested.encode()}
    assert _entries(client) == [wanted]
    assert client.xrange("t") == [(b"1700000000000-0", wanted)]
    cli_of("produce", "u", "-f", "-", "--format", "jsonl", stdin='{"id": "1-1", "fields": {"a": 1.10, "b": false}}')
    assert _entries(client, "u") == [{b"a": b"1.10", b"b": b"false"}]


@on_engine
def test_generated_entries_keep_to_a_rate(cli_of: Cli, client: redis.Redis) -> None:
    """Generated entries are numbered and keep the rate: at 200 per second, 21 entries take at least 0.1 seconds."""
    begin = time.monotonic()
    assert cli_of.json("produce", "s", "--generate", "21", "--rate", "200", "--payload", "10") == {"added": 21}
    assert time.monotonic() - begin >= 0.1
    found = client.xrange("s")
    assert [int(fields[b"n"]) for _, fields in found] == list(range(1, 22))
    assert len(found[0][1][b"payload"]) == 10
    assert cli_of.json("produce", "t", "--generate", "1000", "--maxlen", "10") == {"added": 1000}
    assert client.xlen("t") < 1000


def test_rows_that_cannot_be_added(cli_of: Cli, client: redis.Redis, tmp_path: Path) -> None:
    """The error names the malformed row, quotes the server's refusal, or exits with 4 for a missing file."""
    client.set("string", 1)
    assert "[NOT_A_STREAM]" in cli_of.failure("produce", "string", "a=1", status=1)
    client.xadd("full", {"a": 1}, id=f"{2**64 - 1}-{2**64 - 1}")
    assert "[ROW_REFUSED]" in cli_of.failure("produce", "full", "a=1", status=1)
    words = ("produce", "s", "-f", "-", "--format")
    assert "[MALFORMED_ROW] Row 2 of standard input" in cli_of.failure(
        *words, "jsonl", stdin='{"a": 1}\n[]\n', status=1
    )
    assert "it has 1 values instead of 2" in cli_of.failure(*words, "csv", stdin="a,b\n1\n", status=1)
    for line, reason in (
        ("{}", "needs one"),
        ('{"a": {"base64": 5}}', "a field's value is a string"),
        ('{"a":' * 100_000, "it is nested too deeply"),
    ):
        assert reason in cli_of.failure(*words, "jsonl", stdin=line + "\n", status=1)
    assert "[FILE_UNUSABLE]" in cli_of.failure("produce", "s", "-f", str(tmp_path / "no.csv"), status=4)
    assert "add --format" in cli_of.failure("produce", "s", "-f", str(tmp_path / "no"), status=2)


@on_engine
def test_parquet_is_read_from_files_only(cli_of: Cli, client: redis.Redis, tmp_path: Path) -> None:
    """Parquet on standard input is rejected, and a missing or invalid Parquet file is named."""
    assert "INVALID_VALUE" in cli_of.failure("produce", "s", "-f", "-", "--format", "parquet", status=2)
    missing, other = tmp_path / "missing.parquet", tmp_path / "other.parquet"
    other.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert f"FILE_UNUSABLE] The file {missing}" in cli_of.failure("produce", "s", "-f", str(missing), status=4)
    assert f"of {other} cannot be read" in cli_of.failure("produce", "s", "-f", str(other), status=1)


@on_engine
@pytest.mark.parametrize("rate", ["inf", "nan", "0", "-1"])
def test_an_invalid_rate_is_rejected(cli_of: Cli, rate: str) -> None:
    """A rate that is not positive and finite is rejected."""
    assert "rate" in cli_of.failure("produce", "s", "--generate", "1", "--rate", rate, status=2)


def test_an_interrupted_pipe_ends_quietly(engine_client: redis.Redis, engine_process: servers.Running) -> None:
    """Ctrl-C while standard input is idle exits with 130 and a count, after adding the lines read so far."""
    words = f"-m pystreams --url {engine_process.url} produce s -f - --format lines".split()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *words], env=environment, stdin=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        wait_for(lambda: engine_client.xlen("s") == 1, "the line to be added")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        # The signal may arrive before the reply does.
        assert process.stderr.read() in {
            b"Interrupted after 1 entry.\n",
            b"Interrupted after 0 entries. The server has not confirmed 1 more entry.\n",
        }


def test_an_interrupted_file_is_continued(cli_of: Cli, client: redis.Redis, tmp_path: Path) -> None:
    """A failure names the number of added entries and the `--skip` to continue with, so that no row is added twice."""
    file = tmp_path / "rows.jsonl"
    lines = [json.dumps({"n": number}) for number in range(1200)]
    lines[1100] = "not JSON"
    file.write_text("\n".join(lines))
    error = cli_of.failure("produce", "s", "-f", str(file), status=1)
    assert "Interrupted after 1,000 entries. Continue with --skip 1000." in error
    lines[1100] = json.dumps({"n": 1100})
    file.write_text("\n".join(lines))
    assert cli_of("produce", "s", "-f", str(file), "--skip", "1000") == "Added 200 entries to s.\n"
    assert [int(fields[b"n"]) for _, fields in client.xrange("s")] == [*range(1200)]
    client.set("string", 1)
    refused = cli_of.failure("produce", "string", "-f", str(file), status=1)
    assert "Interrupted after 0 entries. Continue with --skip 0." in refused
    assert "--skip requires --file" in cli_of.failure("produce", "s", "n=1", "--skip", "1", status=2)


def test_a_refused_row_names_the_added_rows_before_and_after_it() -> None:
    """The error counts the added rows, including rows after the refused one, which the server adds from the same
    pipeline.
    """

    class Refusing:
        address = "server"

        def pipeline(self, commands: list[object]) -> list[object]:
            return [b"1-1", ResponseError("ERR too large"), *[b"1-2"] * (len(commands) - 2)]

    producer = Producer(cast("Connection", Refusing()))
    for number in range(5):
        producer.add(("XADD", b"s", b"*", b"n", b"%d" % number))
    with pytest.raises(PystreamsError, match="Rows added: 4, 3 of them after this row"):
        producer.flush()


def test_a_user_without_permission_to_add_gets_its_own_status(
    cli_of: Cli, client: redis.Redis, instance: servers.Running
) -> None:
    """A missing permission exits with 6, unlike a row rejected by the server."""
    with user(client, "~*", "+echo") as url:
        assert "[NOT_PERMITTED]" in cli_of.failure("produce", "s", "n=1", "--url", url, status=6)
