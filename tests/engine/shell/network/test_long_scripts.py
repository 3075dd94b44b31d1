"""Slow scripts: replies to other clients meanwhile, stopping the scripts, and their effects."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests import servers
from tests.servers.connection import Connection, wait_until_blocked
from tests.suite.waiting import DEADLINE, wait_for

BUSY = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
KILLED = "ERR Script killed by user with SCRIPT KILL..."
FOREVER = "while true do end"
#: A script that runs for more than a second, so that other clients get replies meanwhile even on a busy machine.
LONG = "local n = 0 for i = 1, 6e7 do n = n + 1 end"


@pytest.fixture(scope="module")
def engine() -> Iterator[servers.Running]:
    with servers.engine("--busy-reply-threshold", "20", "--appendonly", "yes", "--appendfsync", "no") as running:
        yield running


@pytest.fixture
def other(engine: servers.Running) -> Iterator[Connection]:
    with Connection(engine) as connection:
        yield connection


@pytest.fixture
def caller(engine: servers.Running) -> Iterator[Connection]:
    with Connection(engine) as connection:
        yield connection


def wait_until_busy(other: Connection, error: str = "BUSY") -> None:
    wait_for(lambda: str(other.run("PING")).startswith(error), "a script that takes long")


def text(reply: Any) -> str:
    return str(reply)


def test_other_clients_are_rejected_until_a_script_is_killed(caller: Connection, other: Connection) -> None:
    """During a slow script most commands are rejected; SCRIPT KILL stops it, and its caller gets an error."""
    caller.send("EVAL", FOREVER, 0)
    wait_until_busy(other)
    assert text(other.run("GET", "a")) == BUSY
    assert text(other.run("SCRIPT", "EXISTS", "x")) == BUSY
    assert text(other.run("FUNCTION", "KILL")) == BUSY
    assert text(other.run("SHUTDOWN")) == BUSY
    assert other.run("MULTI") == b"OK"
    assert text(other.run("SET", "a", "b")) == BUSY
    assert text(other.run("EXEC")).startswith("EXECABORT Transaction discarded because of")
    assert other.run("SCRIPT", "KILL") == b"OK"
    assert text(caller.receive()).startswith(KILLED)
    assert text(other.run("SCRIPT", "KILL")) == "NOTBUSY No scripts in execution right now."
    assert other.run("PING") == b"PONG"


@pytest.mark.parametrize(
    "script",
    [
        f"while true do pcall(function() {FOREVER} end) end",
        f"while true do coroutine.wrap(function() {FOREVER} end)() end",
        f"while true do xpcall(function() {FOREVER} end, function() {FOREVER} end) end",
        f"local t = setmetatable({{}}, {{__index = function() {FOREVER} end}}) while true do pcall(next, t, t.x) end",
        "local function f() return f() end f()",
        "while true do coroutine.wrap(function() for i = 1, 4e3 do end end)() end",
        "local function f(n) for i = 1, 1e3 do coroutine.wrap(function() if n > 0 then f(n - 1) end "
        "for i = 1, 4e3 do end end)() end end f(3)",
        "return load(function() return ' ' end)",
        "while true do local text = ('x'):rep(1e6) end",
        "table.insert({1}, -2 ^ 31, 'x')",
        # Few instructions that each take long: C functions and long strings.
        "while true do cjson.decode(('1'):rep(3e7)) end",
        "local long = ('1'):rep(3e7) while true do redis.sha1hex(long) end",
        "local long = ('1'):rep(3e7) while true do local text = long .. 'x' end",
        "local long = ('1'):rep(3e7) while true do local text = long:upper() end",
        "while true do redis.call('PING') end",
        "while true do redis.call('TIME') end",
        "while true do redis.pcall('NONSENSE') end",
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
    ],
)
def test_every_script_can_be_stopped(caller: Connection, other: Connection, script: str) -> None:
    """A script that catches all errors can be stopped, and so can the conversion of its reply."""
    caller.send("EVAL", script, 0)
    wait_until_busy(other)
    assert other.run("SCRIPT", "KILL") == b"OK"
    assert text(caller.receive()).startswith("ERR Script killed")
    assert other.run("PING") == b"PONG"


def test_a_script_that_wrote_cannot_be_killed(engine: servers.Running, caller: Connection, other: Connection) -> None:
    """A script that has written cannot be killed; its effects become visible together, after its end."""
    with Connection(engine) as listener, Connection(engine) as waiter:
        listener.run("SUBSCRIBE", "c")
        waiter.send("BLPOP", "l", 0)
        wait_until_blocked(other, 1)
        script = f"redis.call('RPUSH','l','x') redis.call('PUBLISH','c','m') {LONG} return redis.call('DEL','l')"
        caller.send("EVAL", script, 0)
        wait_until_busy(other)
        for container in ("SCRIPT", "FUNCTION"):
            assert text(other.run(container, "KILL")).startswith("UNKILLABLE")
        assert caller.receive() == 1
        assert listener.receive() == [b"message", b"c", b"m"]
        caller.run("RPUSH", "l", "y")
        assert waiter.receive() == [b"l", b"y"]


def test_a_script_in_a_transaction_can_be_killed(caller: Connection, other: Connection) -> None:
    """EXEC waits for its script; after the script is killed, the rest of the transaction runs."""
    for words in (("MULTI",), ("INCR", "t"), ("EVAL_RO", FOREVER, 0), ("INCR", "t")):
        caller.run(*words)
    caller.send("EXEC")
    wait_until_busy(other)
    assert other.run("SCRIPT", "KILL") == b"OK"
    first, error, second = caller.receive()
    assert (first, second) == (1, 2)
    assert text(error).startswith(KILLED)


def test_function_kill_stops_a_function(caller: Connection, other: Connection) -> None:
    """FUNCTION KILL stops a function, SCRIPT KILL does not, and FUNCTION STATS shows which one runs."""
    other.run("FUNCTION", "LOAD", f"#!lua name=long\nredis.register_function('endless', function() {FOREVER} end)")
    caller.send("FCALL", "endless", 0)
    wait_until_busy(other)
    assert "FUNCTION KILL" in text(other.run("SCRIPT", "KILL"))
    stats = other.run("FUNCTION", "STATS")
    assert stats[1][:4] == [b"name", b"endless", b"command", [b"FCALL", b"endless", b"0"]]
    assert other.run("FUNCTION", "KILL") == b"OK"
    assert text(caller.receive()).startswith(KILLED)
    assert text(other.run("FUNCTION", "LOAD", f"#!lua name=l2\n{FOREVER}")).endswith("ERR FUNCTION LOAD timeout")


def test_a_disconnected_client_s_script_can_be_killed(engine: servers.Running, other: Connection) -> None:
    """The script of a disconnected client can be stopped like any other."""
    with Connection(engine) as caller:
        caller.send("EVAL", FOREVER, 0)
        wait_until_busy(other)
    assert text(other.run("PING")) == BUSY
    assert other.run("SCRIPT", "KILL") == b"OK"
    assert other.run("PING") == b"PONG"


def test_expiry_and_timeouts_wait_for_the_script(engine: servers.Running, caller: Connection) -> None:
    """A key that is due during a script exists until the script ends; a blocked client still times out afterwards."""
    with Connection(engine) as waiter:
        caller.run("SET", "e", "1", "PX", "600")
        waiter.send("BLPOP", "nothing", "0.9")
        wait_until_blocked(caller, 1)
        caller.send("EVAL", f"local before = redis.call('GET','e') {LONG} return {{before, redis.call('GET','e')}}", 0)
        assert caller.receive() == [b"1", b"1"]
        assert waiter.receive() is None
        wait_for(lambda: caller.run("EXISTS", "e") == 0, "a key that expires")


@pytest.mark.parametrize("way", ["term", "nosave"])
def test_shutdown_during_a_script(way: str) -> None:
    """SIGTERM stops a script that has not written and then the server; SHUTDOWN NOSAVE stops the server at once."""
    flags = ("--busy-reply-threshold", "20")
    with servers.engine(*flags) as running, Connection(running) as other, Connection(running) as caller:
        caller.send("EVAL", FOREVER if way == "term" else f"redis.call('SET','a','b') {FOREVER}", 0)
        wait_until_busy(other)
        if way == "term":
            running.process.send_signal(signal.SIGTERM)
        else:
            other.send("SHUTDOWN", "NOSAVE")
        assert running.process.wait(DEADLINE) == 0
