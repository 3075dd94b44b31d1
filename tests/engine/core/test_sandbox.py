"""Sandbox of scripts: each script tries, and fails, to reach, change or exhaust something outside the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError, Raw
from engine.core.scripting import interpreter
from engine.settings.config import Config
from engine.wire.encode import encoded

NOW_US = 1_700_000_000_000_000


@pytest.fixture
def core() -> Core:
    return Core(Config(), lambda n: 0)


def run(core: Core, script: str, *words: str) -> Any:
    session = core.open_session(NOW_US)
    return core.execute(session, [b"EVAL", script.encode("latin-1"), b"0", *(word.encode() for word in words)], NOW_US)


#: A script that walks through everything reachable and returns the forbidden types that it finds.
WALK = """
local seen, found = {}, {}
local function walk(value, path)
    local kind = type(value)
    if kind == 'userdata' and value ~= cjson.null then found[#found + 1] = path end
    if kind == 'thread' then found[#found + 1] = path end
    if (kind == 'table' or kind == 'string') and not seen[value] then
        seen[value] = true
        local mt = getmetatable(value)
        if mt ~= nil then walk(mt, path .. '<mt>') end
        if kind == 'table' then
            for k, v in pairs(value) do walk(k, path .. '.k') walk(v, path .. '.' .. tostring(k)) end
        end
    end
end
walk(_G, '_G') walk('', 'string') walk(cjson.null, 'null')
for _, f in pairs({redis.call, redis.pcall, cjson.decode, cjson.encode, cmsgpack.unpack, struct.unpack, loadstring}) do
    walk({pcall(f)}, 'error') walk({pcall(f, {})}, 'error') walk({pcall(f, 'x', 'y', {})}, 'error')
    local co = coroutine.create(function(...) return f(...) end)
    walk({coroutine.resume(co, {})}, 'resumed')
    walk({xpcall(function() f({}) end, function(e) walk(e, 'handler') return e end)}, 'xpcall')
    walk({load(function() f({}) end)}, 'load')
end
return found
"""


def test_only_lua_values_are_reachable(core: Core) -> None:
    """A script can reach no object of Python or of the interpreter, not even through errors."""
    assert encoded(run(core, WALK)) == b"*0\r\n"


@pytest.mark.parametrize(
    "name",
    [
        *("python", "debug", "io", "require", "module", "package", "dofile", "loadfile", "getfenv", "setfenv"),
        *("newproxy", "print", "lupa", "host", "arg", "_LOADED"),
    ],
)
def test_names_that_do_not_exist(core: Core, name: str) -> None:
    """None of these names exists as a global, in the raw table of globals, or in loaded code."""
    reply = run(core, f"return {name}")
    assert isinstance(reply, CommandError)
    assert f"nonexistent global variable '{name}'".encode() in reply.text
    assert run(core, f"return rawget(_G, '{name}')") is None
    assert run(core, f"local f = loadstring('return {name}') return type(select(2, pcall(f)))") == b"string"


def test_os_has_only_the_processor_time(core: Core) -> None:
    """``os`` has one function, clock, and none can be added."""
    assert run(core, "local n = '' for k in pairs(os) do n = n .. ' ' .. k end return n") == b" clock"
    assert run(core, "return type(os.clock())") == b"number"
    assert isinstance(run(core, "os.execute = 1"), CommandError)


@pytest.mark.parametrize(
    "script",
    [
        "foo = 1",
        "_G.foo = 1",
        "rawset(_G, 'foo', 1)",
        "redis.call = nil",
        "rawset(redis, 'call', nil)",
        "string.rep = nil",
        "('').rep.x = 1",
        "getmetatable('').__index = {}",
        "getmetatable('').__index.rep = 1",
        "getmetatable(_G).__index = nil",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "table.insert(redis, 1)",
        "table.insert(_G, 1, 1)",
        "table.remove(string, 1) table.insert(string, 1)",
        "table.setn(string, 5)",
        "cjson.null.x = 1",
        "KEYS = 1",
        "coroutine.wrap(function() foo = 1 end)()",
        "loadstring('foo = 1')()",
        "load(coroutine.wrap(function() coroutine.yield('foo = ') coroutine.yield('1') end))()",
    ],
)
def test_shared_tables_cannot_be_changed(core: Core, script: str) -> None:
    """A script cannot change the globals and libraries of the next script."""
    assert isinstance(run(core, script), CommandError)
    shared = "return {type(redis.call), ('x'):rep(2), rawget(_G, 'foo') == nil and 1 or 0, #string, #redis}"
    assert encoded(run(core, shared)) == b"*5\r\n$8\r\nfunction\r\n$2\r\nxx\r\n:1\r\n:0\r\n:0\r\n"


def test_bytecode_is_not_loaded(core: Core) -> None:
    """Bytecode is rejected by loadstring, by load in pieces of any size, and as a script."""
    for script in (
        "return loadstring(string.dump(function() return 1 end))",
        "local s = string.dump(function() return 1 end) local i = 0 "
        "return load(function() i = i + 1 return i <= #s and s:sub(i, i) or nil end)",
        "local s = string.dump(function() return 1 end) return load(function() local t = s s = nil return t end)",
    ):
        assert run(core, script) is None
    assert isinstance(run(core, "\x1bLua"), CommandError)


@pytest.mark.parametrize(
    "script",
    [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2 ^ 30)",
        "local t = {} while true do t[#t + 1] = ('x'):rep(3000) .. #t end",
        "local t = {} while true do pcall(function() while true do t[#t + 1] = ('x'):rep(1000) .. #t end end) end",
        "local t = {} while true do local ok, r = pcall(redis.call, 'GET', 'big') t[#t + 1] = {r .. #t, ok} end",
        "local t = {} for i = 1, 1e9 do t[i] = redis.pcall('LRANGE', 'list', 0, -1) end",
        "local t = {} while true do pcall(redis.call, t, t, t, {}) t[#t + 1] = ('x'):rep(9000) .. #t end",
        "local f f = function() return {f()} end f()",
        "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
        "return table.concat({('x'):rep(2 ^ 20), ('x'):rep(2 ^ 22)}, ('y'):rep(2 ^ 23))",
    ],
)
def test_memory_is_limited(core: Core, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A script that exceeds the memory limit ends even if it catches errors, and the next script is not affected."""
    monkeypatch.setattr(interpreter, "MEMORY_LIMIT", 8 << 20)
    session = core.open_session(NOW_US)
    core.execute(session, [b"SET", b"big", b"x" * 300_000], NOW_US)
    core.execute(session, [b"RPUSH", b"list", *(b"element %d" % n for n in range(500))], NOW_US)
    reply = run(core, script)
    assert isinstance(reply, CommandError)
    assert b"not enough memory" in reply.text or b"stack overflow" in reply.text
    assert core.scripts.interpreter_memory < 5 << 20
    assert run(core, "return redis.call('GET', 'big'):sub(1, 2)") == b"xx"
    assert isinstance(run(core, "return {1, 'a'}"), Raw)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("return {unpack({1, 2, 3}, -2, 2147483647)}", "too many results to unpack"),
        ("return {unpack({1, 2, 3}, 0, 2147483647)}", "too many results to unpack"),
        ("return {unpack({1, 2, 3}, -2147483648)}", "too many results to unpack"),
        ("return {unpack({1, 2, 3}, -2147483648, 2147483647)}", "too many results to unpack"),
        ("return string.find(('a'):rep(300000), ('a?'):rep(300000))", "pattern too complex"),
        ("return ('a'):rep(300000):gsub(('a?'):rep(300000), '')", "pattern too complex"),
        ("return ('a'):rep(300000):match(('a?'):rep(300000))", "pattern too complex"),
        ("return ('a'):rep(300000):gmatch(('a?'):rep(300000))()", "pattern too complex"),
    ],
)
def test_overrunning_the_stack_of_lua_is_an_error(core: Core, script: str, error: str) -> None:
    """A range of more results than a C int can count, or a pattern that is too complex, is an error and no crash."""
    reply = run(core, script)
    assert isinstance(reply, CommandError)
    assert reply.text.decode().startswith(f"ERR user_script:1: {error} script: ")


@pytest.mark.parametrize(
    ("script", "reply"),
    [
        ("return {unpack({1, 2, 3}, 2)}", b"*2\r\n:2\r\n:3\r\n"),
        ("return {unpack({1, 2, 3}, 1, -1)}", b"*0\r\n"),
        ("return {unpack({1, 2, 3}, '2', 2.9)}", b"*1\r\n:2\r\n"),
        ("return select('#', unpack({}, 1, 7000))", b":7000\r\n"),
        ("return {('a.'):rep(20000):find(('a.'):rep(20000), 1, true)}", b"*2\r\n:1\r\n:40000\r\n"),
        ("return {('ab'):rep(20000):find(('ab'):rep(20000))}", b"*2\r\n:1\r\n:40000\r\n"),
        ("return {('a'):rep(5000):find(('a?'):rep(5000))}", b"*2\r\n:1\r\n:5000\r\n"),
        ("return {('abc'):gsub('b', {b = 'x'})}", b"*2\r\n$3\r\naxc\r\n:1\r\n"),
    ],
)
def test_large_ranges_and_patterns_work_as_in_lua(core: Core, script: str, reply: bytes) -> None:
    """Ranges, patterns and texts within the limits of Lua give Lua's results."""
    assert encoded(run(core, script)) == reply
