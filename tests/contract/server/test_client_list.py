"""CLIENT LIST and CLIENT INFO: the core, the engine and a real Redis give the same facts about a client."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import over_tcp, since
from tests.harness.replies import OK
from tests.servers.releases import Newest


def test_the_fields_of_each_release(server: Server) -> None:
    """CLIENT INFO has the fields of the release, in the same order."""
    in_7_0 = (
        "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll "
        "omem tot-mem events cmd user redir resp"
    )
    in_7_4 = in_7_0.replace("multi qbuf", "multi watch qbuf") + " lib-name lib-ver"
    in_8_6 = in_7_4 + " io-thread tot-net-in tot-net-out tot-cmds"
    in_valkey_8_0 = in_7_4 + " tot-net-in tot-net-out tot-cmds"
    fields = Newest(
        in_8_6,
        before={"7.2": in_7_0, "7.4": in_7_0 + " lib-name lib-ver", "8.0": in_7_4, "8.6": in_7_4 + " io-thread"},
        valkey={"8.1": in_valkey_8_0.replace("flags db", "flags capa db"), "8.0": in_valkey_8_0},
    )
    line: bytes = server.client().run("CLIENT INFO")
    names = " ".join(word.partition("=")[0] for word in line.decode().split())
    assert names == fields.of(server.release)


def fields_of(server: Server, number: int) -> dict[str, str]:
    """Return a client's fields in CLIENT LIST."""
    line: bytes = server.run(f"CLIENT LIST ID {number}")
    return dict(word.split("=", 1) for word in line.decode().split())  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("PING", "ping"),
        ("SET a 1", "set"),
        ("GET", "get"),
        ("XGROUP HELP", "xgroup|help"),
        ("XGROUP", "xgroup"),
        ("XGROUP NOTHING", "NULL"),
        ("NOTHING", "NULL"),
    ],
)
@pytest.mark.parametrize("queued", [False, True])
def test_client_list_names_the_last_command(server: Server, line: str, name: str, queued: bool) -> None:
    """``cmd`` is the last command that ran, was rejected or was queued, and NULL for an unknown command."""
    client = server.client()
    number = client.run("CLIENT ID")
    if queued:
        client.run("MULTI")
    client.run(line)
    assert fields_of(server, number)["cmd"] == name


def test_client_list_has_the_size_of_a_waiting_command(server: Server) -> None:
    """``argv-mem`` is the size of the arguments of the command that a client waits in or runs, and otherwise 0."""
    client = server.client()
    number = client.run("CLIENT ID")
    client.send("XREAD BLOCK 0 STREAMS s 0")
    client.expect_blocked()
    assert fields_of(server, number)["argv-mem"] == "20"
    assert b" argv-mem=10 " in server.run("CLIENT INFO")
    server.given("XADD s 1-1 f v")
    client.receive()
    assert fields_of(server, number)["argv-mem"] == "0"


@over_tcp
@since("8.6", valkey="8.0")
def test_client_list_counts_bytes_and_commands(server: Server) -> None:
    """``tot-cmds`` counts commands that have run, those of a transaction at EXEC; ``tot-net-`` fields count bytes."""
    client = server.client()
    number = client.run("CLIENT ID")
    before = fields_of(server, number)

    def counted() -> int:
        return int(fields_of(server, number)["tot-cmds"]) - int(before["tot-cmds"])

    for line in ("GET", "NOTHING", "MULTI", "SET a 1", "INCR a"):
        client.run(line)
    assert counted() == 1
    client.run("EXEC")
    assert counted() == 4
    client.send("XREAD BLOCK 0 STREAMS s $")
    client.expect_blocked()
    assert counted() == 4
    server.run("XADD s 1-1 f v")
    client.receive()
    assert counted() == 5
    asked = b"*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n"
    before = fields_of(server, number)
    client.run("ECHO abc")
    after = fields_of(server, number)
    assert [int(after[name]) - int(before[name]) for name in ("tot-net-in", "tot-net-out")] == [len(asked), 9]


def test_client_list_shows_the_state_of_a_client(server: Server) -> None:
    """CLIENT LIST shows flags, database, subscriptions and queued commands."""
    client = server.client()
    number = client.run("CLIENT ID")

    def fields() -> dict[str, str]:
        return fields_of(server, number)

    client.expect("SELECT 3", OK)
    assert (fields()["db"], fields()["flags"], fields()["cmd"]) == ("3", "N", "select")
    client.expect("MULTI", OK)
    client.expect("PING", "QUEUED")
    assert (fields()["multi"], fields()["flags"]) == ("1", "x")
    client.expect("DISCARD", OK)
    client.expect("SUBSCRIBE c", ["subscribe", "c", 1])
    assert (fields()["sub"], fields()["flags"]) == ("1", "P")
    assert server.run("CLIENT LIST TYPE pubsub").startswith(b"id=%d " % number)
