"""`pystreams tail` and `pystreams consume`: existing entries and new ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from pystreams.streams import entries
from pystreams.testing import schema_registry
from spark_streams.errors import PystreamsError
from streamclient.connection import Connection
from streamwire.stream_id import ZERO
from tests import ROOT, servers
from tests.pystreams.conftest import Cli, on_engine
from tests.servers import topologies
from tests.suite import tools
from tests.suite.waiting import wait_for


@pytest.fixture
def streams(client: redis.Redis) -> redis.Redis:
    """`a` with the entries 1, 3, 5, ..., 39 and `b` with 2 and 4; the field `n` holds the number."""
    for number in range(1, 40, 2):
        client.xadd("a", {"n": number, "city": "bonn" if number % 4 == 1 else "köln"}, id=f"{number}-0")
    for number in (2, 4):
        client.xadd("b", {"n": number, b"\xff": b"\x1b[2J"}, id=f"{number}-0")
    return client


def _ids(text: str) -> list[int]:
    return [int(json.loads(line)["id"].split("-")[0]) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("a",), [21, 23, 25, 27, 29, 31, 33, 35, 37, 39]),
        (("a", "--from", "-2"), [37, 39]),
        (("a", "b", "--from", "start", "-n", "5"), [1, 2, 3, 4, 5]),
        (("?", "--from", "(36-0"), [37, 39]),
        (("a", "--from", "37"), [37, 39]),
        (("a", "--from", "1h"), []),
        (("a", "--from", "start", "--where", "n > 30 and city == 'bonn'"), [33, 37]),
        (("b", "--from", "start", "--where", "n in (4, 5)"), [4]),
        (("x*",), []),
    ],
)
def test_entries_are_shown_from_a_position(
    cli_of: Cli, streams: redis.Redis, words: tuple[str, ...], ids: list[int]
) -> None:
    """`tail` starts at any position, filters by condition, and merges several streams in the order of entry IDs."""
    assert _ids(cli_of("tail", *words, "--json")) == ids


@on_engine
def test_output_formats(cli_of: Cli, streams: redis.Redis) -> None:
    """`tail` prints text, CSV and JSON. Bytes that are not UTF-8 are escaped in text and base64 in JSON."""
    assert cli_of("tail", "a", "--from", "-1") == "39-0  n=39  city=köln\n"
    assert cli_of("tail", "a", "b", "--from", "-1", "--where", "n > 0").splitlines()[1] == "39-0  a  n=39  city=köln"
    assert cli_of("tail", "a", "--from", "-1", "-o", "csv") == "_id,_ms,_seq,n,city,_other\n39-0,39,0,39,köln,\n"
    assert cli_of("tail", "a", "-n", "2", "-o", "csv") == cli_of("tail", "a", "--from", "-2", "-o", "csv")
    assert "\\xff=\\x1b[2J" in cli_of("tail", "b")
    assert json.loads(cli_of("tail", "b", "--from", "-1", "-o", "json"))["fields"] == [
        ["n", "4"],
        [{"base64": "/w=="}, "\x1b[2J"],
    ]


@on_engine
def test_unknown_fields_in_conditions_are_reported(cli_of: Cli, client: redis.Redis) -> None:
    """A condition on a field that no entry has causes a warning. Members of values can be used with `--decode`."""
    client.xadd("s", {"doc": '{"a": 3, "card": {"number": "41", "x.y": 1}}', "n": 1}, id="1-0")
    client.xadd("s", {"doc": '{"a": 4}', "n": 2}, id="2-0")
    found = cli_of.result("tail", "s", "--where", "doc.a == 3 or nosuch == 1 or n == 2", "--json")
    assert _ids(found.stdout) == [2]
    assert "none of 2 entries has the field doc.a; members of values require --decode" in found.stderr
    assert "none of 2 entries has the field nosuch" in found.stderr
    for condition in (
        "doc.a == 3",
        "a == 3",
        "doc.card.number == '41'",
        "card.number == 41",
        "field('doc.card.number') == 41",
        "field('doc').card.number in (41, 42)",
        "field('doc.card.x.y') == 1",
        "doc.card and n == 1",
    ):
        found = cli_of.result("tail", "s", "--decode", "auto", "--where", condition, "--json")
        assert (_ids(found.stdout), found.stderr) == ([1], "")
    assert cli_of("tail", "s", "--decode", "auto", "--where", "doc.a.b or doc.card.number.x or doc.card.nothing") == ""


@on_engine
def test_a_condition_searches_the_whole_stream(cli_of: Cli, client: redis.Redis) -> None:
    """Without `--from`, `tail --where` shows the last matching entries of each stream, however far back they are."""
    for number in range(1, 3001):
        client.xadd("long", {"n": number}, id=f"{number}-0")
        if number % 500 == 0:
            client.xadd("other", {"n": number}, id=f"{number}-1")
    assert _ids(cli_of("tail", "long", "--where", "n in (7, 2000)", "--json")) == [7, 2000]
    assert _ids(cli_of("tail", "long", "--where", "n < 1000", "-n", "2", "--json")) == [998, 999]
    assert _ids(cli_of("tail", "long", "other", "--where", "n <= 500", "-n", "1", "--json")) == [500, 500]
    assert len(cli_of("tail", "long", "--where", "n > 0", "--json").splitlines()) == 10
    found = cli_of.result("tail", "long", "--where", "m == 1")
    assert (found.stdout, found.stderr) == ("", "warning: none of 3,000 entries has the field m\n")


@on_engine
def test_numbers_in_conditions_are_exact(cli_of: Cli, client: redis.Redis) -> None:
    """Numbers are compared digit by digit, and only decimal numbers are numbers."""
    values = ("9007199254740993", "9007199254740992", "0.10", "1_000", "nan", "inf", "1e400", "1000", "0x10")
    for number, value in enumerate(values, 1):
        client.xadd("s", {"n": value}, id=f"{number}-0")

    def found(condition: str) -> list[int]:
        return _ids(cli_of("tail", "s", "--where", condition, "--json"))

    assert found("n == 9007199254740993") == [1]
    assert found("n == 9007199254740992.0") == [2]
    assert found("n == 0.1") == [3]
    assert found("n == 1000") == [8]
    assert found("n > -1e999") == [1, 2, 3, 7, 8]
    assert found("n >= 1e400") == [7]
    assert found("n == 'nan' or n == '1_000'") == [4, 5]
    for condition in ("n == 1_000", "n == 0x10", "n > 1e99999999999999999999", "n == 5j"):
        assert "[INVALID_VALUE] --where" in cli_of.failure("tail", "s", "--where", condition, status=2)


@on_engine
def test_invalid_conditions_and_missing_streams_are_errors(cli_of: Cli, streams: redis.Redis) -> None:
    assert "[NO_SUCH_STREAM]" in cli_of.failure("tail", "nope", status=4)
    for condition in ("n = 5", "__import__('os')", "n().real > 1", "n >", "[1]", "lambda: 1", "n ** 9 > 1"):
        assert "[INVALID_VALUE] --where" in cli_of.failure("tail", "a", "--where", condition, status=2)


@contextmanager
def _started(*words: str, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command as a separate process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSTREAMS_URL": url, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-m", "pystreams", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.redis
def test_following_survives_a_restart_of_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`tail -f` continues after a restart of the server, with no entry missing or duplicated. Ctrl-C ends it."""
    directory = tmp_path_factory.mktemp("tail")
    with (
        servers.redis("--appendonly", "yes", "--appendfsync", "always") as first,
        redis.Redis(port=first.port) as client,
        _started("tail", "s", "-f", "-o", "json", "--option", "retryTimeoutMs=0", url=first.url) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        client.xadd("s", {"n": 1}, id="1-0")
        assert json.loads(process.stdout.readline())["id"] == "1-0"
        client.close()
        servers.stop(first.process)
        flags = ["--port", str(first.port), "--dir", str(first.directory), "--appendonly", "yes"]
        command = [*servers.tied_to_us([tools.needed("redis-server")]), *flags]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=directory) as again:
            try:
                wait_for(lambda: _answers(client), "the server to be back")
                client.xadd("s", {"n": 2}, id="2-0")
                assert json.loads(process.stdout.readline())["id"] == "2-0"
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 130
                errors = process.stderr.read()
                assert (b"Waiting for it" in errors, b"Traceback" in errors) == (True, False)
            finally:
                servers.stop(again)


def _blocked(client: redis.Redis) -> bool:
    return bool(client.info("clients")["blocked_clients"])


@pytest.mark.redis
def test_following_survives_a_failover() -> None:
    """`consume -f` follows Sentinel to the new master after a planned failover."""
    with topologies.watched() as watched:
        with watched.client() as client:
            client.xgroup_create("s", "g", 0, mkstream=True)
        words = ("consume", "s", "-g", "g", "-c", "c", "-f", "--ack", "-o", "json", "--timeout", "1s")
        with _started(*words, url=watched.url) as process:
            assert process.stdout is not None
            with watched.client() as client:
                wait_for(lambda: _blocked(client), "the command to wait for entries")
            watched.failover()
            with watched.client() as client:
                client.xadd("s", {"n": 1}, id="1-0")
                assert json.loads(process.stdout.readline())["id"] == "1-0"


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@on_engine
def test_a_closed_pipe_ends_the_command_quietly(instance: servers.Running, client: redis.Redis) -> None:
    """`tail` exits with 0 and without a message when the reader closes the pipe, as in `pystreams
    tail ... | head -1`.
    """
    with client.pipeline() as pipe:
        for number in range(1, 6001):
            pipe.xadd("s", {"n": number, "text": "x" * 100}, id=f"{number}-0")
        pipe.execute()
    with _started("tail", "s", "--from", "start", url=instance.url) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"1-0")
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


def test_a_consumer_gets_new_entries_and_may_acknowledge_them(cli_of: Cli, streams: redis.Redis) -> None:
    """A consumer without a given name is removed if it acknowledges its entries; otherwise a note counts them."""
    assert "[NO_SUCH_GROUP]" in cli_of.failure("consume", "a", "-g", "g", status=4)
    streams.xgroup_create("a", "g", 0)
    assert _ids(cli_of("consume", "a", "-g", "g", "--ack", "-n", "3", "--json")) == [1, 3, 5]
    assert streams.xinfo_consumers("a", "g") == []
    result = cli_of.result("consume", "a", "-g", "g", "-n", "2", "-o", "csv")
    assert ([line[:4] for line in result.stdout.splitlines()[1:]], ": 2 entries.\n" in result.stderr) == (
        ["7-0,", "9-0,"],
        True,
    )


def test_a_named_consumer_gets_its_pending_entries_first(cli_of: Cli, streams: redis.Redis) -> None:
    streams.xgroup_create("a", "g", 0)
    cli_of("consume", "a", "-g", "g", "-c", "me", "-n", "2")
    assert _ids(cli_of("consume", "a", "-g", "g", "-c", "me", "-n", "4", "--ack", "--json")) == [1, 3, 5, 7]
    assert streams.xpending("a", "g")["pending"] == 0


def test_following_a_key_of_another_type_names_the_key(client: redis.Redis, connection: Connection) -> None:
    """Following a key that is not a stream fails with an error that names the key."""
    client.set("odd", "text")
    with pytest.raises(PystreamsError, match="The key 'odd' at"):
        next(entries.follow(connection, {b"odd": ZERO}, print))


ORDER = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]}'
)


@on_engine
def test_values_are_decoded(cli_of: Cli, client: redis.Redis, tmp_path: Path) -> None:
    """Values are decoded with a registry, a schema file, or without a schema, and conditions can use their members."""
    client.xadd("s", {"value": b"\0\0\0\0\1\x54\x06ann", "n": "1"}, id="1-0")
    client.xadd("s", {"value": b"\0\0\0\0\1\x02\x06bob", "n": '{"a": [2]}'}, id="2-0")
    client.xadd("s", {"value": b"\xff"}, id="3-0")
    with schema_registry() as registry:
        registry.add("s-value", ORDER)
        by_registry = ("tail", "s", "--decode", "auto", "--registry", registry.url)
        assert cli_of(*by_registry, "--from", "start", "-n", "2") == (
            '1-0  value={"id":42,"who":"ann"}  n=1\n2-0  value={"id":1,"who":"bob"}  n={"a":[2]}\n'
        )
        assert [json.loads(line)["fields"] for line in cli_of(*by_registry, "-o", "json").splitlines()] == [
            {"value": {"id": 42, "who": "ann"}, "n": "1"},
            {"value": {"id": 1, "who": "bob"}, "n": {"a": [2]}},
            {"value": {"base64": "/w=="}},
        ]
        assert _ids(cli_of(*by_registry, "--where", "id > 10 and who == 'ann'", "--json")) == [1]
        assert _ids(cli_of(*by_registry, "--where", "value.id > 10 and value.who == 'ann'", "--json")) == [1]
    assert "[REGISTRY_UNREACHABLE]" in cli_of.failure(*by_registry[:-1], "http://127.0.0.1:1", status=5)
    assert "[SCHEMA_MISSING]" in cli_of.failure("tail", "s", "--decode", "avro", status=2)
    assert "require --decode" in cli_of.failure("tail", "s", "--schema", "order.avsc", status=2)
    assert "--registry" in cli_of.failure("tail", "s", "--decode", "avro", "--registry", "nowhere", status=2)
    (tmp_path / "order.avsc").write_text(ORDER)
    client.xadd("plain", {"a": b"\x54\x06ann", "b": b"\xff"}, id="1-0")
    words = ("--decode", "avro", "--schema", str(tmp_path / "order.avsc"))
    assert cli_of("tail", "plain", *words) == '1-0  a={"id":42,"who":"ann"}  b=\\xff\n'
