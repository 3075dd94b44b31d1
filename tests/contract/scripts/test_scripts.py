"""Lua scripts: replies in both protocols, visible data, allowed commands, and lasting effects."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import over_tcp, since
from tests.harness.replies import ANY, Error
from tests.servers.releases import Newest

Table = list[tuple[str, str, str | None]]


def _table(name: str) -> Table:
    table: Table = json.loads(Path(__file__).with_name(name).read_text())
    return table


#: Each script with its reply in RESP2, and in RESP3 if that differs, as in `redis-server` 7.0.15.
TABLE = _table("script_replies.json")
#: Replies of `redis-server` 8.6 that differ from those of 7.0.15: numbers as text, blocking, new features.
NEWER = _table("script_replies_newer.json")
INCR = "return redis.call('INCR', KEYS[1])"
INCR_SHA = hashlib.sha1(INCR.encode()).hexdigest()
NO_SCRIPT = Newest(
    Error("NOSCRIPT No matching script. Please use EVAL."), valkey={"8.0": Error("NOSCRIPT No matching script.")}
)


def _is_seven(server: Server) -> bool:
    """Return whether a server has the error texts of Redis 7.0, as the engine does; later releases changed some."""
    return server.kind in ("core", "engine") or not server.since("7.2")


def placed(text: str, script: str, line: int = 1) -> Newest:
    """Return the error of a failed script with its position.

    Valkey's error lacks the word Redis, and since 9.1 the SHA-1 too.
    """
    valkey_text, sha = text.replace("Redis ", ""), hashlib.sha1(script.encode()).hexdigest()
    return Newest(
        Error(f"{text} script: {sha}, on @user_script:{line}."),
        valkey={
            "9.1": Error(f"{valkey_text} script: on @user_script:{line}."),
            "8.0": Error(f"{valkey_text} script: {sha}, on @user_script:{line}."),
        },
    )


def test_the_table_of_replies(server: Server) -> None:
    """Scripts reply with the bytes of Redis 7.0, for values of all kinds, errors with positions and Lua's libraries."""
    if not _is_seven(server):
        pytest.skip("the table is that of 7.0")
    assert unlike(server, TABLE) == []


@since("8.6")
def test_the_table_of_newer_replies(server: Server) -> None:
    """Scripts whose reply has changed in Redis give the newer reply."""
    assert unlike(server, NEWER) == []


def unlike(server: Server, table: Table) -> list[tuple[str, str, bytes]]:
    """Return the scripts whose reply differs from the table, with the expected and the actual reply."""
    server.run("SCRIPT FLUSH")
    wrong = []
    for script, in_two, in_three in table:
        server.run("SET", "str", "abc")
        came = server.wire("EVAL", script, "0")
        wanted = in_three if in_three is not None and server.proto == 3 else in_two
        if came != wanted.encode("latin-1"):
            wrong.append((script, wanted, came))
    return wrong


def test_keys_and_arguments(server: Server) -> None:
    """Arguments after the number of keys are KEYS, then ARGV; a wrong number of keys is an error."""
    server.expect(("EVAL", "return {KEYS, ARGV}", 2, "a", "b", "c"), [["a", "b"], ["c"]])
    server.expect(("EVAL", "return {KEYS, ARGV}", 0), [[], []])
    server.expect(("EVAL", "return #ARGV", 1, "k", *map(str, range(500))), 500)
    server.expect(("EVAL", "return #KEYS", 300, *map(str, range(500))), 300)
    server.expect_error(("EVAL", "x", "y"), "ERR value is not an integer or out of range")
    server.expect_error(("EVAL", "x", "-1"), "ERR Number of keys can't be negative")
    server.expect_error(("EVAL", "x", "2", "a"), "ERR Number of keys can't be greater than number of args")


@since("7.4")
def test_scripts_of_eval_are_evicted(server: Server) -> None:
    """The 500 most recently used scripts of EVAL are kept; scripts of SCRIPT LOAD are never evicted."""
    server.run("SCRIPT FLUSH")
    server.run("EVAL", INCR, 1, "n")
    first = server.run("SCRIPT", "LOAD", "return 'loaded'").decode()
    again = hashlib.sha1(b"return 0").hexdigest()
    for number in range(499):
        server.expect(("EVAL", f"return {number}", 0), number)
    server.expect(("SCRIPT", "EXISTS", INCR_SHA, again), [1, 1])
    server.expect(("EVALSHA", INCR_SHA, 1, "n"), 2)
    server.expect(("EVAL", "return 'one more'", 0), "one more")
    server.expect(("SCRIPT", "EXISTS", INCR_SHA, again, first), [1, 0, 1])
    server.run("SCRIPT FLUSH")


def test_the_cache_of_scripts(server: Server) -> None:
    """EVALSHA runs scripts of SCRIPT LOAD or EVAL, until SCRIPT FLUSH."""
    server.run("SCRIPT FLUSH")
    server.expect(("EVALSHA", INCR_SHA, 1, "n"), NO_SCRIPT)
    server.expect(("SCRIPT", "LOAD", INCR), INCR_SHA)
    server.expect(("EVALSHA", INCR_SHA.upper(), 1, "n"), 1)
    server.expect(("SCRIPT", "EXISTS", INCR_SHA, "x", INCR_SHA.upper()), [1, 0, 1])
    server.expect("SCRIPT FLUSH ASYNC", "OK")
    server.expect(("EVALSHA_RO", INCR_SHA, 1, "n"), NO_SCRIPT)
    server.expect(("EVAL", INCR, 1, "n"), 2)
    server.expect(("EVALSHA", INCR_SHA, 1, "n"), 3)
    server.expect_error(
        ("SCRIPT", "LOAD", "return )"),
        "ERR Error compiling script (new function): user_script:1: unexpected symbol near ')'",
    )


def test_read_only_scripts(server: Server) -> None:
    """EVAL_RO, and a script with no-writes, reject write commands."""
    refused = "ERR Write commands are not allowed from read-only scripts."
    server.expect(("EVAL_RO", INCR, 1, "n"), placed(refused, INCR))
    declared = f"#!lua flags=no-writes\n{INCR}"
    server.expect(("EVAL", declared, 1, "n"), placed(refused, declared, 2))
    server.expect(("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, "n"), None)
    server.expect_error(
        ("EVAL_RO", f"#!lua\n{INCR}", 1, "n"), "ERR Can not execute a script with write flag using *_ro command."
    )


def test_a_failing_script_keeps_its_writes(server: Server) -> None:
    """A script's writes before its error stay."""
    script = "redis.call('SET', KEYS[1], '1') redis.call('NONSENSE')"
    server.expect(("EVAL", script, 1, "k"), placed("ERR Unknown Redis command called from script", script))
    server.expect("GET k", "1")


def test_scripts_in_transactions(server: Server) -> None:
    """A queued EVAL runs in order, and its error is one of EXEC's replies; WATCH detects changes by scripts."""
    server.expect("MULTI", "OK")
    server.expect(("EVAL", INCR, 1, "n"), "QUEUED")
    server.expect(("EVAL", "return redis.error_reply('MY no')", 0), "QUEUED")
    server.expect("INCR n", "QUEUED")
    server.expect("EXEC", [1, Error("MY no"), 2])
    other = server.client()
    other.expect("WATCH n", "OK")
    server.expect(("EVAL", INCR, 1, "n"), 3)
    other.run("MULTI")
    other.run("GET n")
    other.expect("EXEC", None)


def test_entries_in_scripts(server: Server) -> None:
    """A script returns the entries of XRANGE, with any bytes, and a deleted entry without fields."""
    for number, text in enumerate((b"", b"a\r\nb", b"\r\n$1\r\nx", b"x\r\n*2\r\n$3\r\n1-1", b"y" * 2000), 1):
        server.run("XADD", "s", f"{number}-1", "field", text, text, b"value")
    entries = server.run("XRANGE", "s", "-", "+")
    assert server.run("EVAL", "return redis.call('XRANGE', KEYS[1], '-', '+')", "1", "s") == entries
    assert server.run("EVAL", "return redis.call('XRANGE', KEYS[1], '5', '+')", "1", "s") == entries[4:]
    server.run("XGROUP", "CREATE", "s", "g", "0")
    server.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    server.run("XDEL", "s", "2-1")
    script = "return redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', KEYS[1], '0')[1][2]"
    assert server.run("EVAL", script, "1", "s") == [*entries[:1], [b"2-1", None], *entries[2:]]


def test_a_script_wakes_blocked_clients(server: Server) -> None:
    """A client that waits for a list or stream gets what a script adds to it, after the script has ended."""
    list_reader, stream_reader = server.client(), server.client()
    list_reader.send("BLPOP l 0")
    stream_reader.send("XREAD BLOCK 0 STREAMS s $")
    list_reader.expect_blocked()
    stream_reader.expect_blocked()
    script = "redis.call('RPUSH','l','a','b') redis.call('LPOP','l') redis.call('XADD','s','1-1','f','v') return 1"
    server.expect(("EVAL", script, 0), 1)
    assert list_reader.receive() == [b"l", b"b"]
    assert stream_reader.receive() is not None


def test_a_script_has_its_own_database_and_protocol(server: Server) -> None:
    """SELECT and setresp in a script do not apply after the script."""
    server.expect(("EVAL", "redis.call('SELECT', 3) redis.call('SET','in3','x') redis.setresp(3) return 1", 0), 1)
    server.expect("GET in3", None)
    server.expect(("EVAL", "return redis.call('GET','in3')", 0), None)
    server.expect(("EVAL", "redis.call('SELECT', 3) return redis.call('DEL','in3')", 0), 1)
    server.expect(("EVAL", "return type(redis.call('GET','in3'))", 0), "boolean")


def test_a_script_has_the_permissions_of_its_user(server: Server) -> None:
    """Each call is checked against the caller's permissions, and ACL LOG reports that it came from a script."""
    server.expect("ACL SETUSER lua on nopass ~k* +@all -get", "OK")
    user = server.client()
    user.expect("AUTH lua x", "OK")
    key = "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
    command = "ERR The user executing the script can't run this command or subcommand"
    for script, text in (
        ("return redis.call('SET','other','1')", key),
        ("return redis.call('GET','k')", command),
    ):
        reply = user.run("EVAL", script, 0)
        assert isinstance(reply, Error)
        if _is_seven(server):
            assert reply == placed(text, script).of(server.release)
    user.expect(("EVAL", "return redis.call('SET','k','1')", 0), "OK")
    user.expect(("EVAL", "return redis.acl_check_cmd('SET','other','1')", 0), None)
    user.expect(("EVAL", "return redis.acl_check_cmd('SET','k','1')", 0), 1)
    entry = server.run("ACL LOG")[0]
    for option in (("BY", "other*"), ("BY", "nosort", "GET", "other")):
        script = f"return redis.call('SORT', 'klist', {', '.join(map(repr, option))})"
        denied = f"ERR {'GET' if 'GET' in option else 'BY'} option of SORT denied due to insufficient ACL permissions."
        assert user.run("EVAL", script, 0).text.startswith(denied)
    about = entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2], strict=True))
    assert about[b"context"] == b"lua"
    server.expect("ACL DELUSER lua", 1)


def test_the_keys_of_a_script(server: Server) -> None:
    """COMMAND GETKEYS finds the keys of EVAL from their number."""
    server.expect(("COMMAND", "GETKEYS", "EVAL", "x", 2, "a", "b", "c"), ["a", "b"])


def test_calls_of_scripts_are_counted(server: Server) -> None:
    """INFO commandstats counts EVAL and the commands that its script calls; a failed call counts once as failed."""
    server.run("CONFIG RESETSTAT")
    server.run("EVAL", "redis.call('SET','a','b') redis.pcall('NONSENSE') return redis.call('INCR','a')", 0)
    found = server.run("INFO commandstats").decode()
    for line in ("cmdstat_set:calls=1", "cmdstat_incr:calls=1", "cmdstat_eval:calls=1"):
        assert line in found
    assert "failed_calls=1" in next(row for row in found.splitlines() if row.startswith("cmdstat_incr"))


@since("8.6")
@pytest.mark.parametrize(
    ("script", "errors", "failed"),
    [
        ("return redis.error_reply('MY no')", {"MY": 1}, 1),
        ("return {err='oneword'}", {"ERR": 1}, 1),
        ("return {err='a#b:c d'}", {"a_b_c": 1}, 1),
        ("error({err='MY no'})", {"MY": 1}, 1),
        ("error('no')", {"ERR": 1}, 1),
        ("return redis.call('GET')", {"ERR": 1}, 1),
        ("return redis.pcall('GET')", {"ERR": 1}, 1),
        ("error(redis.pcall('GET'))", {"ERR": 1}, 1),
        ("return redis.call()", {"ERR": 1}, 1),
        ("return redis.sha1hex()", {"ERR": 1}, 1),
        ("redis.pcall('GET') return 1", {"ERR": 1}, 0),
        ("return {redis.error_reply('MY no'), {{err='MY no'}}}", {"MY": 2}, 1),
        ("return {redis.pcall('GET'), redis.pcall('GET')}", {"ERR": 2}, 2),
        ("return {redis.pcall('GET'), redis.error_reply('MY no')}", {"ERR": 1, "MY": 1}, 2),
        ("redis.setresp(3) return {map={a=redis.error_reply('MY no')}}", {"MY": 1}, 1),
        ("error({err='MY no', ignore_error_stats_update=true})", {}, 1),
        ("error({err='MY no', ignore_error_stats_update=1})", {"MY": 1}, 1),
    ],
)
def test_errors_of_scripts_are_counted_once(server: Server, script: str, errors: dict[str, int], failed: int) -> None:
    """Each error of a script or of its calls is counted once, also within a reply, and EVAL as failed."""
    server.run("CONFIG RESETSTAT")
    server.run("EVAL", script, 0)
    rows = [row.partition(":") for row in server.run("INFO errorstats commandstats stats").decode().splitlines()]
    found = {name: values for name, _, values in rows}
    counts = {name: values for name, values in found.items() if name.startswith("errorstat_")}
    assert counts == {f"errorstat_{code}": f"count={count}" for code, count in errors.items()}
    assert found["total_error_replies"] == str(sum(errors.values()))
    assert found["cmdstat_eval"].endswith(f"rejected_calls=0,failed_calls={failed}")
    rejected = script.count("('GET')")
    assert found.get("cmdstat_get", "").endswith(f"rejected_calls={rejected},failed_calls=0" if rejected else "")


@since("8.6")
def test_too_many_codes_of_errors_are_not_counted(server: Server) -> None:
    """After errors with more than 128 codes, INFO shows no counts by code until CONFIG RESETSTAT."""
    server.run("CONFIG RESETSTAT")
    for number in range(128):
        server.run("EVAL", f"return redis.error_reply('CODE{number} no')", 0)
    assert server.run("INFO errorstats").count(b"errorstat_CODE") == 128
    for script in ("return redis.error_reply('MORE no')", "return redis.error_reply('CODE1 no')"):
        server.run("EVAL", script, 0)
        assert server.run("INFO errorstats").split()[2:] == [b"errorstat_ERRORSTATS_DISABLED:count=1"]
    assert b"total_error_replies:130\r\n" in server.run("INFO stats")
    server.run("CONFIG RESETSTAT")
    server.run("GET")
    assert b"errorstat_ERR:count=1" in server.run("INFO errorstats")


@over_tcp
def test_monitor_shows_the_calls_of_scripts(server: Server) -> None:
    """MONITOR shows calls of scripts with `lua` in place of an address."""
    watcher = server.client()
    watcher.expect("MONITOR", "OK")
    server.run("EVAL", "return redis.call('SET','a','b')", 0)
    lines = [watcher.receive(), watcher.receive()]
    assert any(b'lua] "SET" "a" "b"' in line or b'lua] "set" "a" "b"' in line for line in lines)


# -- functions --------------------------------------------------------------------------------------------------------

LIBRARY = """#!lua name=mylib
local count = 0
redis.register_function('counted', function(keys, args) count = count + 1 return count end)
redis.register_function{function_name='reads', callback=function(keys) return redis.call('GET', keys[1]) end,
    flags={'no-writes'}, description='gets'}
redis.register_function('writes', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function('fails', function() return redis.call('NONSENSE') end)
redis.register_function('decodes', function(keys, args)
    local text = args[1]
    return cjson.decode(text)
end)
"""


@pytest.fixture
def library(server: Server) -> Server:
    """Return a server whose only library is LIBRARY."""
    server.run("FUNCTION FLUSH")
    server.expect(("FUNCTION", "LOAD", LIBRARY), "mylib")
    return server


def test_functions(library: Server) -> None:
    """FCALL runs a function by its name, and the library keeps its variables between calls.

    FCALL_RO runs only functions that do not write.
    """
    library.expect("FCALL counted 0", 1)
    library.expect("FCALL counted 0", 2)
    library.expect("FCALL writes 1 k v", "OK")
    library.expect("FCALL_RO reads 1 k", "v")
    library.expect_error("FCALL_RO writes 1 k v", "ERR Can not execute a script with write flag using *_ro command.")
    library.expect_error("FCALL none 0", "ERR Function not found")
    library.expect_error("FCALL reads x", "ERR Bad number of keys provided")
    fails = "ERR Unknown Redis command called from script script: fails, on @user_function:7."
    valkey_text = fails.replace("Redis ", "")
    valkey = {"9.1": Error(valkey_text.replace("fails, ", "")), "8.0": Error(valkey_text)}
    library.expect("FCALL fails 0", Newest(Error(fails), valkey=valkey))
    decoded = library.run("FCALL decodes 0 x")
    assert decoded.text.startswith("ERR user_function:10: Expected value but found invalid token at character 1")
    library.run("FUNCTION FLUSH")


def _by_name(reply: Any) -> dict[bytes, Any]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def test_an_empty_description_is_text(server: Server) -> None:
    """FUNCTION LIST shows an empty description as empty text, and nil for a function without a description."""
    server.run("FUNCTION FLUSH")
    for argument, shown in (("description='', ", b""), ("", None)):
        named = f"{argument}function_name='f', callback=function() end"
        server.run("FUNCTION", "LOAD", "REPLACE", f"#!lua name=l\nredis.register_function{{{named}}}")
        [about] = server.run("FUNCTION LIST")
        [function] = _by_name(about)[b"functions"]
        assert _by_name(function)[b"description"] == shown


def test_libraries(library: Server) -> None:
    """Only LOAD with REPLACE replaces a library; names of libraries and functions are unique."""
    library.expect_error(("FUNCTION", "LOAD", LIBRARY), "ERR Library 'mylib' already exists")
    library.expect(("FUNCTION", "LOAD", "REPLACE", LIBRARY), "mylib")
    library.expect("FCALL counted 0", 1)
    other = "#!lua name=other\nredis.register_function('counted', function() end)"
    library.expect_error(("FUNCTION", "LOAD", other), "ERR Function counted already exists")
    [about] = library.run("FUNCTION LIST LIBRARYNAME my* WITHCODE")
    assert _by_name(about)[b"library_code"] == LIBRARY.encode()
    assert len(_by_name(about)[b"functions"]) == 5
    library.expect("FUNCTION DELETE mylib", "OK")
    library.expect_error("FCALL counted 0", "ERR Function not found")
    library.expect_error("FUNCTION DELETE mylib", "ERR Library not found")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x", "ERR Missing library metadata"),
        ("#!lua name=a", "ERR Invalid library metadata"),
        ("#!lua\nreturn 1", "ERR Library name was not given"),
        ("#!lua name=a name=b\n", "ERR Invalid metadata value, name argument was given multiple times"),
        ("#!lua name=a foo=b\n", "ERR Invalid metadata value given: foo=b"),
        ("#!py name=a\n", "ERR Engine 'py' not found"),
        ("#!lua name=a\n", "ERR No functions registered"),
        (
            "#!lua name=a\nlocal x = string.rep('x', 2)",
            "ERR Error registering functions: ERR user_function:2: "
            "Script attempted to access nonexistent global variable 'string'",
        ),
        ("#!lua name=a\nreturn 1 end", "ERR Error compiling function: user_function:2: '<eof>' expected near 'end'"),
    ],
)
def test_invalid_libraries(library: Server, code: str, error: str) -> None:
    """A library's first line and code are checked before anything changes."""
    library.expect_error(("FUNCTION", "LOAD", code), error)
    library.expect(("FUNCTION", "STATS"), ANY)
    library.expect("FCALL counted 0", 1)
    library.run("FUNCTION FLUSH")


def test_a_function_cannot_register_functions(library: Server) -> None:
    """A function that calls register_function when it runs gets an error."""
    code = """#!lua name=kept
local kept = redis
kept.register_function('later', function() kept.register_function('more', function() end) end)"""
    library.expect(("FUNCTION", "LOAD", code), "kept")
    refusal = "ERR redis.register_function can only be called on FUNCTION LOAD command"
    redis_text = f"{refusal} script: later, on @user_function:3."
    valkey_text = redis_text.replace("redis.", "server.")
    valkey = {"9.1": Error(valkey_text.replace("later, ", "")), "8.0": Error(valkey_text)}
    library.expect("FCALL later 0", Newest(Error(redis_text), valkey=valkey))
    library.run("FUNCTION FLUSH")


def test_libraries_are_dumped_and_restored(library: Server) -> None:
    """FUNCTION RESTORE loads the output of FUNCTION DUMP with each policy, and rejects a damaged payload."""
    payload = library.run("FUNCTION DUMP")
    library.expect_error(("FUNCTION", "RESTORE", payload), "ERR Library mylib already exists")
    library.expect(("FUNCTION", "RESTORE", payload, "REPLACE"), "OK")
    library.run("FUNCTION FLUSH")
    library.expect(("FUNCTION", "RESTORE", payload), "OK")
    library.expect("FCALL counted 0", 1)
    library.expect(("FUNCTION", "RESTORE", payload, "FLUSH"), "OK")
    for words in (("FUNCTION", "RESTORE", payload, "FLUSH", "APPEND"), ("FUNCTION", "FLUSH", "SYNC", "SYNC")):
        library.expect_error(
            words, f"ERR unknown subcommand or wrong number of arguments for '{words[1]}'. Try FUNCTION HELP."
        )
    library.expect_error(("FUNCTION", "RESTORE", b"x" + payload), "ERR DUMP payload version or checksum are wrong")
    library.run("FUNCTION FLUSH")


@since("7.0")
def test_scripts_and_functions_share_a_random_generator(server: Server) -> None:
    """A seed set by a script also applies to functions, and a function's draws affect the next script."""
    code = "#!lua name=dice\nredis.register_function('roll', function() return math.random(1000000) end)"
    server.expect(("FUNCTION", "LOAD", code), "dice")
    seed, roll = ("EVAL", "math.randomseed(7)", "0"), ("EVAL", "return math.random(1000000)", "0")
    server.run(*seed)
    drawn = [server.run(*roll) for _ in range(6)]
    assert len(set(drawn)) == 6
    server.run(*seed)
    mixed = [server.run(*roll), server.run("FCALL roll 0"), server.run("FCALL roll 0"), server.run(*roll)]
    server.run("SCRIPT FLUSH")
    mixed.append(server.run(*roll))
    server.run("FUNCTION FLUSH")
    mixed.append(server.run(*roll))
    assert mixed == drawn
