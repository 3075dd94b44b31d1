"""Properties of streams, read without transferring entries."""

from __future__ import annotations

import pytest
import redis

from pystreams.connect import Wanted, connect
from pystreams.streams import dead_letters, inventory
from pystreams.streams import group_states as groups
from pystreams.streams.inventory import Stream, parsed
from streamclient.connection import Connection
from streamclient.errors import ResponseError
from tests import servers
from tests.pystreams.conftest import user

_LARGE = b"x" * 300_000


def _streams(client: redis.Redis) -> list[bytes]:
    """Create a stream of each kind and return the keys: small, large, without the last or first entry, empty, missing,
    of another type.
    """
    for name in ("small", "large", "no-last", "no-first", "empty"):
        for number in (1, 2, 3):
            client.xadd(name, {"n": _LARGE if name == "large" else b"1"}, id=f"{number}-0")
        client.xgroup_create(name, "g", "1-0")
    client.xdel("no-last", "3-0")
    client.xdel("no-first", "1-0")
    client.xdel("empty", "1-0", "2-0", "3-0")
    client.set("text", 1)
    return [b"small", b"large", b"no-last", b"no-first", b"empty", b"gone", b"text"]


def _properties(connection: Connection, names: list[bytes]) -> list[Stream | str]:
    replies = inventory.states(connection, names)
    return [
        str(reply).split()[0] if isinstance(reply, ResponseError) else parsed(name, reply)
        for name, reply in zip(names, replies, strict=True)
    ]


@pytest.mark.parametrize(
    "rules", ["+@all", "+@all -eval -ps.nth", "+@all -eval -command -memory", "+@all -xinfo|groups"]
)
def test_all_methods_return_the_same(client: redis.Redis, instance: servers.Running, rules: str) -> None:
    """XINFO STREAM, the script and the engine's own command return the same properties, on the first call and later."""
    names = _streams(client)
    wanted: list[Stream | str] = []
    with redis.Redis(host=instance.host, port=instance.port, protocol=2) as plain:
        plain.set_response_callback("XINFO STREAM", lambda reply, **_: reply)
        for name in names:
            try:
                wanted.append(parsed(name, plain.execute_command("XINFO STREAM", name)))
            except redis.ResponseError as refusal:
                wanted.append("WRONGTYPE" if "wrong kind" in str(refusal) else "ERR")
    unknown = "-eval" if "engine_name" in client.info("server") else "-ps.nth"
    rules = rules.replace(unknown, "")
    with user(client, "~*", *rules.split(), name="asker") as url:
        connection = connect(Wanted(url), "")
        assert [_properties(connection, names) for _ in range(3)] == [wanted] * 3
        connection.close()


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_properties_are_read_without_transferring_large_entries(client: redis.Redis, connection: Connection) -> None:
    """On the engine, reading the properties of forty streams transfers no large entry, not even the first time."""
    with client.pipeline(transaction=False) as pipe:
        for number in range(40):
            for entry in (1, 2, 3):
                pipe.xadd(f"s{number}", {"f": _LARGE}, id=f"{entry}-0")
            pipe.xgroup_create(f"s{number}", "g", "1-0")
        pipe.execute()
    names = sorted(inventory.scan(connection))
    before = client.info("stats")["total_net_output_bytes"]
    for _ in range(2):
        streams = list(inventory.read_streams(connection, names))
        assert {(each.length, str(each.first_id), str(each.last_entry)) for each in streams} == {(3, "1-0", "3-0")}
        found = groups.detailed(connection, groups.groups_of(connection, streams, 5000))
        assert {group.behind_ms is not None for group in found} == {True}
    assert client.info("stats")["total_net_output_bytes"] - before < 100_000


def test_replies_with_entries_are_limited_in_bytes(client: redis.Redis, connection: Connection) -> None:
    """Replies are limited in bytes when the last entry of each stream is read to find dead letters."""
    with client.pipeline(transaction=False) as pipe:
        for number in range(100):
            pipe.xadd(f"s{number:03}", {"f": _LARGE})
        pipe.execute()
    names = [b"s%03d" % number for number in range(100)]
    pages: list[int] = []
    asked = connection.pipeline
    connection.pipeline = lambda commands: pages.append(len(commands)) or asked(commands)  # type: ignore[method-assign,func-returns-value]
    assert list(dead_letters.holders(connection, names)) == []
    assert sum(pages) == 100
    assert max(pages) * len(_LARGE) <= 2 * inventory.REPLY_BYTES
