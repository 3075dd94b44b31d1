"""`pystreams ls` and `info`: the streams of a server."""

from __future__ import annotations

import json

import redis

from tests import servers
from tests.pystreams.conftest import Cli, user

_ODD = b"\xff\x1b["


def _fill(client: redis.Redis) -> None:
    client.set("no stream", "1")
    for number in range(1, 6):
        client.xadd("orders", {"item": number}, id=f"{number * 1000}-0")
    client.xdel("orders", "3000-0")
    client.xadd(_ODD, {b"\xfe": b"\x1b[2J"})
    client.xgroup_create("orders", "billing", 0)
    client.xgroup_create("orders", "audit", "$")
    client.xreadgroup("billing", "c1", {"orders": ">"}, count=2)


def test_all_streams_are_listed_and_nothing_else(cli_of: Cli, client: redis.Redis) -> None:
    """`ls` lists streams with binary names, escaped, and no keys of other types."""
    _fill(client)
    found = cli_of.json("ls")
    assert [stream["stream"] for stream in found["streams"]] == ["orders", {"base64": "/xtb"}]
    orders = found["streams"][0]
    assert (orders["length"], orders["removed"], orders["gaps"], orders["groups"]) == (4, 1, True, 2)
    assert (orders["first_id"], orders["last_id"], orders["rate"]) == ("1000-0", "5000-0", None)
    assert orders["bytes"] > 0
    text = cli_of("ls")
    assert "\\xff\\x1b[" in text
    assert "\x1b" not in text


def test_a_limit_says_that_there_are_more(cli_of: Cli, client: redis.Redis) -> None:
    """`--limit` sets `more` if streams are left out, and with `--sort` shows the largest of all streams."""
    for number in range(1, 8):
        for _ in range(number):
            client.xadd(f"s{number}", {"f": "v"})
    assert (len((few := cli_of.json("ls", "--limit", "3"))["streams"]), few["more"]) == (3, True)
    most = cli_of.json("ls", "s*", "--limit", "2", "--sort", "length")
    assert [stream["stream"] for stream in most["streams"]] == ["s7", "s6"]
    assert not cli_of.json("ls", "--limit", "0")["more"]
    assert cli_of.json("ls", "x*") == {"streams": [], "more": False}


def test_the_average_rate_includes_idle_time(cli_of: Cli, client: redis.Redis) -> None:
    """The average rate includes the time since the last entry."""
    now = int(client.time()[0]) * 1000
    for number in range(100):
        client.xadd("idle", {"n": number}, id=f"{now - 1_000_000_000 + number}-0")
    (found,) = cli_of.json("ls")["streams"]
    assert found["rate"] == 0.0001
    assert "0.36/h" in cli_of("ls")


def test_one_stream_is_described(cli_of: Cli, client: redis.Redis) -> None:
    """`info` shows gaps, removed entries, and the groups with their pending entries."""
    _fill(client)
    found = cli_of.json("info", "orders")
    assert (found["added"], found["max_deleted_id"], found["gaps"]) == (5, "3000-0", True)
    assert {group["group"]: group["pending"] for group in found["groups"]} == {"audit": 0, "billing": 2}
    assert "removed       1, with gaps between the remaining entries (last gap at 3000-0)" in cli_of("info", "orders")
    assert cli_of.json("info", _ODD)["length"] == 1


def test_missing_streams_and_other_keys_have_different_statuses(cli_of: Cli, client: redis.Redis) -> None:
    """The exit status is 4 for a missing stream and 1 for a key of another type."""
    _fill(client)
    assert "[NO_SUCH_STREAM] There is no stream 'nope'" in cli_of.failure("info", "nope", status=4)
    assert "[NOT_A_STREAM]" in cli_of.failure("info", "no stream", status=1)


def test_streams_that_a_user_may_not_read_are_left_out_with_a_warning(
    cli_of: Cli, client: redis.Redis, instance: servers.Running
) -> None:
    """Commands leave out forbidden streams with a warning. A forbidden stream that is named, or in a `--fail-...`
    check, is an error.
    """
    for name in ("open:1", "secret:1", "open:2"):
        client.xadd(name, {"n": 1})
        client.xgroup_create(name, "g", "0")
    with user(client, "~open:*", "+@all") as url:
        as_user = ("--url", url)
        for order in ((), ("--sort", "length"), ("--sort", "bytes")):
            result = cli_of.result("ls", *order, "--json", *as_user)
            assert result.exit_code == 0, result.output
            assert {each["stream"] for each in json.loads(result.stdout)["streams"]} == {"open:1", "open:2"}
            assert "not included, because this user may not read them: secret:1" in result.stderr
        assert len(json.loads(cli_of.result("ls", "--limit", "2", "--json", *as_user).stdout)["streams"]) == 2
        result = cli_of.result("ls", "--limit", "1", "--json", *as_user)
        shown = json.loads(result.stdout)
        assert (len(shown["streams"]), shown["more"]) == (1, True)
        assert "No readable stream matches secret:*." in cli_of.result("ls", "secret:*", *as_user).stderr
        assert "[NOT_PERMITTED]" in cli_of.failure("ls", "secret:1", *as_user, status=6)
        for words, listed in ((("groups", "lag"), "open:1"), (("groups", "ls"), "open:1"), (("dlq", "ls"), "")):
            result = cli_of.result(*words, *as_user)
            assert result.exit_code == 0, result.output
            assert listed in result.stdout
            assert "secret:1" not in result.stdout
            assert "not included, because this user may not read them: secret:1" in result.stderr
        assert "[NOT_PERMITTED]" in cli_of.failure("info", "secret:1", *as_user, status=6)
        lines = cli_of.result("metrics", "--once", *as_user).stdout.splitlines()
        assert {"pystreams_exporter_streams 2.0", "pystreams_exporter_streams_left_out 1.0"} <= set(lines)
        for words in (("secret:1",), ("*", "--fail-above", "5")):
            assert "[NOT_PERMITTED]" in cli_of.failure("groups", "lag", *words, *as_user, status=6)
