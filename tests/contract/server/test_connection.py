"""Commands about connections and the server: the same replies from the core, the engine over TCP and a real Redis."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import over_tcp, since
from tests.harness.replies import ANY, MODULES, NOT_AN_INTEGER, OK, SYNTAX, Error, Map
from tests.servers.releases import Newest

WRONG_PASSWORD = Error("WRONGPASS invalid username-password pair or user is disabled.")
BAD_NAME = Error("ERR Client names cannot contain spaces, newlines or special characters.")


def arity(name: str) -> Error:
    return Error(f"ERR wrong number of arguments for '{name}' command")


def unknown_subcommand(container: str, word: str, *, known: bool = False) -> Error:
    problem = "unknown subcommand or wrong number of arguments for" if known else "unknown subcommand"
    return Error(f"ERR {problem} '{word}'. Try {container} HELP.")


#: Commands (text divided by blanks, or a tuple) and their replies.
CASES: list[tuple[Any, Any]] = [
    ("PING", "PONG"),
    ("PING a", "a"),
    ("PING a b", arity("ping")),
    ("ECHO", arity("echo")),
    ("ECHO a", "a"),
    ("HELLO 1", Error("NOPROTO unsupported protocol version")),
    ("HELLO x", Error("ERR Protocol version is not an integer or out of range")),
    ("HELLO 2 FOO", Error("ERR Syntax error in HELLO option 'FOO'")),
    ("HELLO 2 SETNAME", Error("ERR Syntax error in HELLO option 'SETNAME'")),
    ("HELLO 2 SETNAME a b", Error("ERR Syntax error in HELLO option 'b'")),
    (("HELLO", "2", "SETNAME", "a b"), BAD_NAME),
    ("HELLO 2 AUTH a", Error("ERR Syntax error in HELLO option 'AUTH'")),
    ("HELLO 2 AUTH a b", WRONG_PASSWORD),
    ("AUTH", arity("auth")),
    (
        "AUTH a",
        Error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
            "configuration is correct?"
        ),
    ),
    ("AUTH a b", WRONG_PASSWORD),
    ("AUTH default a", OK),
    ("AUTH default a b", SYNTAX),
    ("SELECT 1", OK),
    ("SELECT 16", Error("ERR DB index is out of range")),
    ("SELECT -1", Error("ERR DB index is out of range")),
    ("SELECT x", NOT_AN_INTEGER),
    ("SELECT 99999999999", Error("ERR value is out of range, value must between -2147483648 and 2147483647")),
    ("CLIENT", arity("client")),
    ("CLIENT FOO", unknown_subcommand("CLIENT", "FOO")),
    ("CLIENT ID x", arity("client|id")),
    ("CLIENT SETNAME", arity("client|setname")),
    (("CLIENT", "SETNAME", "a b"), BAD_NAME),
    ("CLIENT LIST x", SYNTAX),
    ("CLIENT LIST TYPE x", Error("ERR Unknown client type 'x'")),
    ("CLIENT LIST TYPE normal x", SYNTAX),
    ("CLIENT LIST ID", SYNTAX),
    ("CLIENT LIST ID x", Newest(Error("ERR Invalid client ID"), valkey={"8.1": SYNTAX})),
    ("CLIENT LIST ID 99999", ""),
    ("CLIENT LIST TYPE master", ""),
    ("CLIENT KILL", arity("client|kill")),
    ("CLIENT KILL x", Error("ERR No such client")),
    ("CLIENT KILL ID x", Newest(Error("ERR client-id should be greater than 0"), valkey={"8.1": SYNTAX})),
    ("CLIENT KILL ID 0", Error("ERR client-id should be greater than 0")),
    ("CLIENT KILL ID 0 TYPE", Newest(Error("ERR client-id should be greater than 0"), valkey={"8.1": ANY})),
    ("CLIENT KILL ID 99999", 0),
    ("CLIENT KILL TYPE x", Error("ERR Unknown client type 'x'")),
    ("CLIENT KILL FOO x", SYNTAX),
    ("CLIENT KILL ID 99999 SKIPME maybe", SYNTAX),
    ("CLIENT KILL ID 99999 SKIPME", SYNTAX),
    ("CLIENT KILL USER nobody", Error("ERR No such user 'nobody'")),
    ("CLIENT KILL ADDR 1:2 LADDR 3:4", 0),
    ("CLIENT REPLY x", SYNTAX),
    ("CLIENT REPLY on", OK),
    ("CLIENT UNBLOCK x", NOT_AN_INTEGER),
    ("CLIENT UNBLOCK 99999", 0),
    ("CLIENT UNBLOCK 99999 FOO", Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    ("CLIENT UNBLOCK 99999 ERROR x", Newest(unknown_subcommand("CLIENT", "UNBLOCK", known=True), valkey={"8.1": 0})),
    ("CLIENT PAUSE x", Error("ERR timeout is not an integer or out of range")),
    ("CLIENT PAUSE -1", Error("ERR timeout is negative")),
    ("CLIENT PAUSE 1 FOO", Error("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    ("CLIENT PAUSE 1 WRITE x", Newest(unknown_subcommand("CLIENT", "PAUSE", known=True), valkey={"8.1": OK})),
    ("CLIENT UNPAUSE", OK),
    ("COMMAND FOO", unknown_subcommand("COMMAND", "FOO")),
    ("COMMAND COUNT x", arity("command|count")),
    ("COMMAND INFO nosuch", [None]),
    ("CONFIG GET", arity("config|get")),
    ("CONFIG GET nosuch", Map()),
    ("CONFIG GET TIMEOUT", Map(TIMEOUT="0")),
    ("CONFIG SET timeout", arity("config|set")),
    ("CONFIG SET nosuch 1", Error("ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'")),
    ("CONFIG SET timeout 5 repl-timeout", SYNTAX),
    (
        "CONFIG SET timeout 5 timeout 6",
        Error("ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter"),
    ),
    (
        "CONFIG SET REPL-TIMEOUT x",
        Error(
            "ERR CONFIG SET failed (possibly related to argument 'repl-timeout') - "
            "argument couldn't be parsed into an integer"
        ),
    ),
    ("CONFIG SET slave-read-only yes replica-read-only yes", OK),
    (
        "CONFIG SET timeout x timeout 6",
        Error("ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter"),
    ),
    (
        "CONFIG SET timeout x nosuch 1",
        Error("ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
    ),
    (
        "CONFIG SET timeout 5 repl-timeout x",
        Error(
            "ERR CONFIG SET failed (possibly related to argument 'repl-timeout') - "
            "argument couldn't be parsed into an integer"
        ),
    ),
    ("CONFIG GET timeout", Map(timeout="0")),
    (
        "CONFIG SET databases 3",
        Error("ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config"),
    ),
    ("CONFIG REWRITE", Error("ERR The server is running without a config file")),
    ("TIME x", arity("time")),
    ("SHUTDOWN foo", SYNTAX),
    ("SHUTDOWN nosave save", SYNTAX),
    ("SHUTDOWN abort", Error("ERR No shutdown in progress.")),
    ("WAIT 0 0", 0),
    ("WAIT x 0", NOT_AN_INTEGER),
    ("WAIT 0 -1", Error("ERR timeout is negative")),
    ("INFO nosuch", ""),
    ("INFO cluster", "# Cluster\r\ncluster_enabled:0\r\n"),
    ("RESET x", arity("reset")),
]


def test_each_command_replies_as_redis_does(server: Server) -> None:
    """All cases get their replies, one after the other on one connection."""
    client = server.client()
    for command, reply in CASES:
        client.expect(command, reply)


def test_hello_describes_the_server(server: Server) -> None:
    """HELLO describes the server, and without a version keeps the protocol."""
    client = server.client()
    reply = Map(
        server=Newest("redis", valkey={"8.0": "valkey"}),
        version=ANY,
        proto=server.proto,
        id=ANY,
        mode="standalone",
        role="master",
        modules=MODULES,
    )
    client.expect("HELLO", reply)
    client.expect(f"HELLO {server.proto} SETNAME me", reply)
    client.expect("CLIENT GETNAME", "me")


def test_names_are_set_and_removed(server: Server) -> None:
    """CLIENT LIST and CLIENT INFO show the name set by CLIENT SETNAME; an empty name removes it."""
    client = server.client()
    number = client.run("CLIENT ID")
    client.expect("CLIENT SETNAME worker-1", OK)
    client.expect("CLIENT GETNAME", "worker-1")
    for line in (client.run("CLIENT INFO"), client.run(f"CLIENT LIST ID {number}")):
        assert re.match(rb"id=%d addr=.* name=worker-1 age=0 .* db=0 .*multi=-1 " % number, line)
    client.expect(("CLIENT", "SETNAME", ""), OK)
    client.expect("CLIENT GETNAME", None)


def test_reset_restores_the_initial_state(server: Server) -> None:
    """RESET ends a transaction, and restores database 0, RESP2 and no name."""
    client = server.client()
    for command in ("SELECT 2", "CLIENT SETNAME x", "WATCH k", "MULTI"):
        client.expect(command, OK)
    client.expect("RESET", "RESET")
    client.expect("CLIENT GETNAME", None)
    assert b" db=0 " in client.run("CLIENT INFO")
    assert b" resp=2" in client.run("CLIENT INFO")
    client.expect("EXEC", Error("ERR EXEC without MULTI"))


@since("7.2")
def test_client_setinfo_sets_library_name_and_version(server: Server) -> None:
    """CLIENT INFO shows the name and version set by CLIENT SETINFO, which may not contain blanks."""
    client = server.client()
    client.expect("CLIENT SETINFO lib-name redis-py", OK)
    client.expect("CLIENT SETINFO LIB-VER 8.1", OK)
    assert b" lib-name=redis-py lib-ver=8.1 " in client.run("CLIENT INFO").rstrip() + b" "
    client.expect(
        ("CLIENT", "SETINFO", "lib-name", "a b"),
        Error("ERR lib-name cannot contain spaces, newlines or special characters."),
    )
    client.expect(
        ("CLIENT", "SETINFO", "LIB-Ver", "a b"),
        Error("ERR LIB-Ver cannot contain spaces, newlines or special characters."),
    )
    client.expect("CLIENT SETINFO other x", Error("ERR Unrecognized option 'other'"))


def test_info_has_the_requested_sections(server: Server) -> None:
    """INFO returns the requested sections in its own order, each after its title and separated by an empty line."""
    text: bytes = server.run("INFO replication clients")
    assert text.startswith(b"# Clients\r\nconnected_clients:")
    assert b"\r\n\r\n# Replication\r\nrole:master\r\n" in text
    titles = re.findall(rb"^# (\w+)", server.run("INFO"), re.MULTILINE)
    in_7_0 = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace"
    in_8_0 = in_7_0.replace("Stats Rep", "Threads Stats Rep") + " Keysizes"
    in_8_6 = in_8_0.replace("CPU", "CPU Hotkeys")
    # The engine reports neither I/O threads nor statistics of keys.
    assert b" ".join(titles).decode() == Newest(in_8_6, {"8.0": in_7_0, "8.6": in_8_0}, engine=in_7_0).of(
        server.release
    )
    assert b"# Commandstats\r\ncmdstat_" in server.run("INFO everything")


def test_versions_in_info_are_numbers(server: Server) -> None:
    """Every field of INFO whose name ends in _version has digits and dots only, as clients expect."""
    lines = [line.split(b":", 1) for line in server.run("INFO everything").splitlines() if b":" in line]
    versions = {name.decode(): value for name, value in lines if name.endswith(b"_version")}
    assert "redis_version" in versions
    assert [name for name, value in versions.items() if not re.fullmatch(rb"[0-9.]+", value)] == []


def test_info_counts_keys_per_database(server: Server) -> None:
    """The keyspace section has a line for each database with keys, with the number of keys that expire."""
    server.given("FLUSHALL", "SET a 1", "SET b 1 EX 1000", "XADD s * f v")
    assert b"db0:keys=3,expires=1," in server.run("INFO keyspace")


@pytest.mark.parametrize("name", ["get", "xadd", "xread", "xreadgroup", "mset", "xgroup"])
def test_command_info_has_the_table_s_shape(server: Server, name: str) -> None:
    """COMMAND INFO has ten elements, with the expected arity, key positions and subcommands."""
    (row,) = server.run(f"COMMAND INFO {name}")
    expected = {
        "get": (2, 1, 1, 1),
        "xadd": (-5, 1, 1, 1),
        "xread": (-4, 0, 0, 0),
        "xreadgroup": (-7, 0, 0, 0),
        "mset": (-3, 1, -1, 2),
        "xgroup": (-2, 0, 0, 0),
    }
    assert row[0] == name.encode()
    assert (row[1], *row[3:6]) == expected[name]
    assert len(row) == 10
    assert bool(row[9]) is (name == "xgroup")


def test_config_accepts_patterns_and_several_directives(server: Server) -> None:
    """CONFIG GET accepts several patterns, and CONFIG SET sets several directives and accepts units of sizes."""
    found = server.run("CONFIG GET repl-backlog-* TIMEOUT")
    names = {name.lower() for name in (found if isinstance(found, dict) else found[::2])}
    assert names == {b"repl-backlog-size", b"repl-backlog-ttl", b"timeout"}
    before = server.run("CONFIG GET repl-backlog-ttl")
    server.expect("CONFIG SET repl-backlog-ttl 7 repl-backlog-size 20kb", OK)
    server.expect("CONFIG GET repl-backlog-size", Map({"repl-backlog-size": "20480"}))
    server.expect("CONFIG SET repl-backlog-ttl 3600 repl-backlog-size 1mb", OK)
    assert server.run("CONFIG GET repl-backlog-ttl") == before


def test_time_is_seconds_and_microseconds(server: Server) -> None:
    """TIME returns two numbers as text, the second one below a million."""
    seconds, micros = server.run("TIME")
    assert int(seconds) > 1_600_000_000
    assert 0 <= int(micros) < 1_000_000


@over_tcp
def test_replies_can_be_switched_off(server: Server) -> None:
    """CLIENT REPLY OFF suppresses replies until ON, which replies; SKIP suppresses only the next reply."""
    client = server.client()
    for command in ("CLIENT REPLY OFF", "PING one", "CLIENT REPLY SKIP", "PING two"):
        client.send(command)
    client.expect("CLIENT REPLY ON", OK)
    client.send("CLIENT REPLY SKIP")
    client.send("PING three")
    client.expect("PING four", "four")


@over_tcp
def test_a_skipped_reply_of_a_blocking_command_is_the_only_one(server: Server) -> None:
    """CLIENT REPLY SKIP before a blocking command suppresses its reply, and no later one."""
    client = server.client()
    for command in ("CLIENT REPLY SKIP", "XREAD BLOCK 0 STREAMS s $"):
        client.send(command)
    client.expect_blocked()
    server.given("XADD s 1-1 f v")
    client.expect("PING one", "one")
    for command in ("CLIENT REPLY SKIP", "XREAD BLOCK 10 STREAMS s $"):
        client.send(command)
    client.expect("PING two", "two")


@over_tcp
def test_connections_can_be_killed(server: Server) -> None:
    """CLIENT KILL closes connections by address or by filters, and the caller's own only with SKIPME no."""
    victims = [server.client() for _ in range(3)]
    line: bytes = victims[0].run("CLIENT INFO")
    address = re.search(rb" addr=(\S+)", line)
    assert address is not None
    server.expect(("CLIENT", "KILL", address[1]), OK)
    server.expect(f"CLIENT KILL ID {victims[1].run('CLIENT ID')} TYPE normal", 1)
    for victim in victims[:2]:
        victim.expect_closed()  # type: ignore[attr-defined]
    number = victims[2].run("CLIENT ID")
    victims[2].expect(f"CLIENT KILL ID {number}", 0)
    victims[2].expect(f"CLIENT KILL ID {number} SKIPME no", 1)
    victims[2].expect_closed()  # type: ignore[attr-defined]


@over_tcp
def test_quit_replies_and_closes(server: Server) -> None:
    """The reply to QUIT is the last one of a pipeline."""
    client = server.client()
    client.send_bytes(b"PING\r\nQUIT\r\nPING\r\n")  # type: ignore[attr-defined]
    client.expect_reply("PONG")
    client.expect_reply(OK)
    client.expect_closed()  # type: ignore[attr-defined]


@over_tcp
def test_a_pause_holds_commands_back(server: Server) -> None:
    """CLIENT PAUSE WRITE runs reads and holds writes back until UNPAUSE, including those of the pausing client."""
    client = server.client()
    server.expect("CLIENT PAUSE 100000 WRITE", OK)
    client.expect("GET k", None)
    client.send("SET k v")
    client.send("GET k")
    client.expect_blocked()
    server.expect("GET k", None)
    server.expect("CLIENT UNPAUSE", OK)
    client.expect_reply(OK)
    client.expect_reply("v")


@over_tcp
def test_a_pause_of_writes_holds_messages(server: Server) -> None:
    """Messages wait for the end of CLIENT PAUSE WRITE, also within MULTI."""
    alone, within = server.client(), server.client()
    within.expect("MULTI", OK)
    server.expect("CLIENT PAUSE 100000 WRITE", OK)
    alone.send("PUBLISH channel message")
    alone.expect_blocked()
    within.send("PUBLISH channel message")
    within.expect_blocked()
    server.expect("CLIENT UNPAUSE", OK)
    alone.expect_reply(0)
    within.expect_reply("QUEUED")
    within.expect("EXEC", [0])


@over_tcp
def test_a_pause_times_out(server: Server) -> None:
    """CLIENT PAUSE holds all commands back for its duration, and then they run."""
    client = server.client()
    server.expect("CLIENT PAUSE 50", OK)
    client.send("INCR n")
    client.expect_reply(1)
