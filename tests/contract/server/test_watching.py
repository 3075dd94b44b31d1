"""Observing a server: MONITOR, SLOWLOG, LATENCY, MEMORY, INFO's command statistics, DEBUG."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import over_tcp, since
from tests.harness.replies import MODULES, Error
from tests.servers.releases import Newest

LINE = re.compile(rb"(\d{10})\.\d{6} \[(\d+) (\S*)\] (.*)", re.DOTALL)


def shown(client: Any) -> tuple[bytes, bytes]:
    """Return the database and the arguments in the next line of a monitor."""
    found = LINE.fullmatch(client.receive())
    assert found is not None
    return found[2], found[4]


def pairs(reply: Any) -> dict[bytes, Any]:
    """Return the reply of a map as a dict in both protocols."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def test_a_monitor_sees_every_command_once_it_has_run(server: Server) -> None:
    """MONITOR shows commands quoted, with their database; rejected and administrative commands are not shown."""
    watcher = server.client()
    watcher.expect("MONITOR", "OK")
    for command in ("SET a 1", "GET a", "SELECT 3", "SELECT 0", ("SET", "k", 'a\n"\\\x01')):
        server.run(*(command if isinstance(command, tuple) else (command,)))
    server.run("NONSENSE")
    server.run("GET")
    server.run("CONFIG GET port")
    server.run("INCR k")
    quoted = b'"SET" "k" "a\\n\\"\\\\\\x01"'
    expected = [
        (b"0", b'"SET" "a" "1"'),
        (b"0", b'"GET" "a"'),
        (b"3", b'"SELECT" "3"'),
        (b"0", b'"SELECT" "0"'),
        # Valkey 8.1 leaves out the backslash before a quote and a backslash.
        (b"0", server.newest(quoted, before={}, valkey={"9.0": quoted, "8.1": b'"SET" "k" "a\\n"\\\\x01"'})),
        (b"0", b'"INCR" "k"'),
    ]
    assert [shown(watcher) for _ in expected] == expected
    watcher.expect_nothing()


def test_monitor_is_rejected_in_a_transaction(server: Server) -> None:
    """MONITOR in a transaction is an error; the other commands run."""
    refused = Error("ERR MONITOR isn't allowed for DENY BLOCKING client")
    server.given("MULTI", "MONITOR", "PING")
    server.expect("EXEC", [refused, "PONG"])


def test_a_monitor_sees_a_transaction_when_it_runs(server: Server) -> None:
    """MONITOR shows MULTI at once, queued commands at EXEC, and EXEC after them."""
    watcher = server.client()
    watcher.expect("MONITOR", "OK")
    for command in ("MULTI", "XADD s 1-1 f v", "XLEN s", "EXEC"):
        server.run(command)
    expected = [b'"MULTI"', b'"XADD" "s" "1-1" "f" "v"', b'"XLEN" "s"', b'"EXEC"']
    assert [shown(watcher)[1] for _ in expected] == expected


def test_a_monitor_sees_each_xadd_of_a_pipeline(server: Server) -> None:
    """MONITOR shows the XADDs of a pipeline one by one, in order."""
    watcher = server.client()
    watcher.expect("MONITOR", "OK")
    for number in range(1, 200):
        server.main.send(f"XADD s {number}-1 field value")
    for number in range(1, 200):
        server.main.expect_reply(f"{number}-1")
    assert [shown(watcher)[1] for _ in range(1, 200)] == [
        b'"XADD" "s" "%d-1" "field" "value"' % number for number in range(1, 200)
    ]


def test_a_monitor_sees_no_passwords(server: Server) -> None:
    """MONITOR hides the arguments of AUTH."""
    watcher = server.client()
    watcher.expect("MONITOR", "OK")
    server.run("AUTH", "default", "wrong secret")
    assert shown(watcher)[1] == b'"AUTH" "(redacted)" "(redacted)"'


def test_a_monitor_cannot_run_data_commands(server: Server) -> None:
    """A monitor may not use data commands; RESET makes it a normal client again."""
    watcher = server.client()
    watcher.expect("MONITOR", "OK")
    watcher.expect_error("GET a", "ERR Replica can't interact with the keyspace")
    watcher.send("RESET")
    assert watcher.receive() == b"RESET"
    watcher.proto = 2
    watcher.expect("GET a", None)
    server.run("SET a 1")
    watcher.expect_nothing()


# -- SLOWLOG ----------------------------------------------------------------------------------------------------------


def test_the_slow_log_keeps_the_latest_commands(server: Server) -> None:
    """SLOWLOG shortens arguments, numbers its entries in order, and has up to slowlog-max-len of them."""
    server.config("slowlog-max-len", 3)
    server.config("slowlog-log-slower-than", 0)
    server.given("SLOWLOG RESET", ("SET", "k", "x" * 200), ("DEL", *[f"k{n}" for n in range(40)]))
    entries = server.run("SLOWLOG GET")
    assert [len(entry) for entry in entries] == [6] * 3
    assert entries[0][3][:2] == [b"DEL", b"k0"]
    assert entries[0][3][31] == b"... (10 more arguments)"
    assert entries[1][3] == [b"SET", b"k", b"x" * 128 + b"... (72 more bytes)"]
    assert abs(entries[0][1] - server.now // 1000) < 60
    assert entries[0][2] >= 0
    assert entries[0][0] == entries[1][0] + 1
    server.expect("SLOWLOG LEN", 3)
    server.expect("SLOWLOG GET 0", [])
    assert len(server.run("SLOWLOG GET -1")) == 3
    server.config("slowlog-log-slower-than", -1)
    server.given("SLOWLOG RESET")
    server.expect("SLOWLOG LEN", 0)
    for wrong in ("SLOWLOG GET -2", "SLOWLOG GET x"):
        server.expect_error(wrong, "ERR count should be greater than or equal to -1")
    server.expect_error("SLOWLOG NONSENSE", "ERR unknown subcommand 'NONSENSE'. Try SLOWLOG HELP.")


def test_the_slow_log_has_the_commands_of_a_transaction(server: Server) -> None:
    """The slow log has the transaction's commands, not EXEC."""
    server.config("slowlog-log-slower-than", 0)
    server.given("SLOWLOG RESET", "MULTI", "SET a 1", "EXEC")
    words = [entry[3] for entry in server.run("SLOWLOG GET")]
    assert [b"SET", b"a", b"1"] in words
    assert [b"EXEC"] not in words


@since("8.6")
def test_the_slow_log_hides_the_arguments_of_acl_commands(server: Server) -> None:
    """The arguments of ACL SETUSER, GETUSER and DELUSER are redacted."""
    server.config("slowlog-log-slower-than", 0)
    server.given("SLOWLOG RESET", "ACL SETUSER u on", "ACL GETUSER u", "ACL DELUSER u v")
    hidden = b"(redacted)"
    shown = [entry[3] for entry in server.run("SLOWLOG GET 3")]
    assert shown == [[b"ACL", name, *[hidden] * n] for name, n in ((b"DELUSER", 2), (b"GETUSER", 1), (b"SETUSER", 2))]


# -- LATENCY ----------------------------------------------------------------------------------------------------------


@over_tcp
def test_a_slow_command_is_an_event(server: Server) -> None:
    """A command above latency-monitor-threshold is in LATENCY LATEST and in the slow log."""
    server.config("latency-monitor-threshold", 20)
    server.config("slowlog-log-slower-than", 20000)
    server.given("LATENCY RESET", "SLOWLOG RESET", "DEBUG SLEEP 0.03")
    (event,) = server.run("LATENCY LATEST")[:1]
    assert event[0] == b"command"
    assert 20 <= event[2] <= event[3] < 1000
    assert [entry[3] for entry in server.run("SLOWLOG GET")] == [[b"DEBUG", b"SLEEP", b"0.03"]]
    assert server.run("SLOWLOG GET")[0][2] >= 30_000
    server.expect("LATENCY RESET nothing command", 1)
    server.expect("LATENCY LATEST", [])


def test_histograms_count_calls(server: Server) -> None:
    """LATENCY HISTOGRAM is cumulative, so its last number counts all calls; commands without calls are left out."""
    server.given("CONFIG RESETSTAT", "SET a 1", "SET a 2", "XADD s * f v", "XINFO STREAM s")
    histograms = pairs(server.run("LATENCY HISTOGRAM set xadd xinfo xlen nonsense"))
    assert set(histograms) == {b"set", b"xadd", b"xinfo|stream"}
    histogram = pairs(histograms[b"set"])
    assert histogram[b"calls"] == 2
    assert list(pairs(histogram[b"histogram_usec"]).values())[-1] == 2


# -- MEMORY -----------------------------------------------------------------------------------------------------------


def test_memory_usage_grows_with_a_stream(server: Server) -> None:
    """MEMORY USAGE grows with entries and with pending entries, and is nil for a missing key."""
    server.expect("MEMORY USAGE s", None)
    server.given("XADD s 1-1 f v")
    sizes = [server.run("MEMORY USAGE s")]
    server.given(*[("XADD", "s", f"{n}-1", "field", "v" * 100) for n in range(2, 300)])
    sizes.append(server.run("MEMORY USAGE s"))
    server.given("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    sizes.append(server.run("MEMORY USAGE s"))
    assert sizes[1] > sizes[0] + 298 * 100
    assert sizes[2] > sizes[1] + 299 * 16
    for samples in (0, 5):
        assert server.run(f"MEMORY USAGE s SAMPLES {samples}") > 0
    server.expect_error("MEMORY USAGE s SAMPLES -1", "ERR syntax error")
    server.expect_error("MEMORY USAGE s NONSENSE", "ERR syntax error")


CONTAINERS = [
    *("ACL", "CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY"),
    *("MODULE", "PUBSUB", "SLOWLOG", "XGROUP", "XINFO"),
]


def test_help(server: Server) -> None:
    """HELP is an array of simple strings: the first one has the command's syntax, the last ones describe HELP."""
    for name in CONTAINERS:
        lines = server.run(f"{name} HELP")
        assert lines[0] == f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".encode()
        about = server.newest(b"    Print this help.", before={"7.2": b"    Prints this help."})
        assert lines[-2:] == [b"HELP", about], name
        assert server.wire(name, "HELP").splitlines()[1].startswith(b"+")


# -- DEBUG ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def debugged(server: Server) -> Server:
    """Return a server that allows DEBUG."""
    if server.kind == "core":
        server.core.config.put("enable-debug-command", b"yes")  # type: ignore[attr-defined]
    return server


def test_subcommands_of_debug(debugged: Server) -> None:
    """DEBUG SLEEP ignores impossible durations, and unknown subcommands are rejected as by Redis."""
    server = debugged
    for seconds in ("-1", "inf", "nan", "1e300", "x"):
        server.expect(f"DEBUG SLEEP {seconds}", "OK")
    for wrong in ("DEBUG NONSENSE", "DEBUG SLEEP"):
        word = wrong.split()[1]
        text = f"ERR unknown subcommand or wrong number of arguments for '{word}'. Try DEBUG HELP."
        server.expect_error(wrong, text)


# -- a server that stands alone ---------------------------------------------------------------------------------------


def test_a_standalone_server(server: Server) -> None:
    """A server without replication and cluster mode answers the commands about these, and about modules."""
    server.expect("ROLE", ["master", 0, []])
    server.expect("REPLICAOF NO ONE", "OK")
    server.expect_error("REPLICAOF somewhere nonsense", "ERR Invalid master port")
    alone = Error("ERR This instance has cluster support disabled")
    for command in ("CLUSTER INFO", "CLUSTER SLOTS"):
        server.expect(command, alone)
    for command in ("READONLY", "READWRITE"):
        server.expect(command, Newest(alone, valkey={"8.0": "OK"}))
    server.expect("MODULE LIST", MODULES)
