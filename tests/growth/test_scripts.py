"""Growth of functions for scripts: the cost of each is proportional to the size of its arguments."""

from __future__ import annotations

import gc
import time

import pytest

from engine.core.dispatch import Core
from engine.settings.config import Config
from engine.wire.encode import encoded

NOW_US = 1_700_000_000_000_000
#: Sizes of texts and tables, and numbers of arguments and results, for which Lua's stack has 8,000 slots.
_SMALL, _LARGE, _FEW_WORDS, _MANY_WORDS = 10_000, 40_000, 1_900, 7_600
#: Seconds below which a result is accepted, and maximum growth for four times the size (quadratic: 16).
_FAST, _GROWTH = 0.1, 8

#: Start of each script: ``n``, ``x(text)`` for a text n times; an array and a map of n elements if it needs them.
_BEGIN = """
local n = tonumber(ARGV[1])
local function x(text) return string.rep(text, n) end
local long, list, map = x'1', {}, {}
"""
_LIST, _MAP = "for i = 1, n do list[i] = i end ", "for i = 1, n do map['k' .. i] = i end "

#: Scripts by the name of the function that they call.
SCRIPTS: dict[str, list[str]] = {
    "cjson.decode": [
        "cjson.decode(x'1')",
        "cjson.decode('[-' .. x'1' .. ']')",
        "cjson.decode('0.' .. x'1')",
        "cjson.decode('1e' .. x'1')",
        "cjson.decode('1e-' .. x'1')",
        "cjson.decode('1.' .. x'1' .. 'e5')",
        "cjson.decode(x'1' .. '.')",
        "cjson.decode(x'1' .. 'e')",
        "cjson.decode(x'1' .. 'x')",
        "cjson.decode('0x' .. x'f')",
        "cjson.decode('0x1p' .. x'1')",
        "cjson.decode('nan(' .. x'a')",
        "cjson.decode('[' .. x'nan,' .. '1]')",
        "cjson.decode(x' ' .. '1')",
        "cjson.decode('1' .. x' ')",
        "cjson.decode(x' ')",
        "cjson.decode('\"' .. x'a' .. '\"')",
        "cjson.decode('\"' .. x'a')",
        "cjson.decode('\"' .. x'\\\\n' .. '\"')",
        "cjson.decode('\"' .. x'\\\\u00e4' .. '\"')",
        "cjson.decode('\"' .. x'\\\\ud83d\\\\ude00' .. '\"')",
        "cjson.decode('\"' .. x'\\\\u00e4')",
        "cjson.decode('\"' .. x'\\\\x')",
        "cjson.decode('[' .. x'1,' .. '1]')",
        "cjson.decode('[' .. x'\"a\",' .. '1]')",
        "cjson.decode('[' .. x'true,' .. 'null]')",
        "cjson.decode('[' .. x'[],' .. '{}]')",
        "cjson.decode('[' .. x'1,')",
        "cjson.decode('{' .. x'\"a\":1,' .. '\"b\":2}')",
        "cjson.decode('{' .. x'\"a\":1,')",
        "cjson.decode(x'[')",
        "cjson.decode(x'{\"a\":')",
        "cjson.decode(x'\\0')",
        "cjson.decode('[1' .. x'\\0')",
    ],
    "cjson.encode": [
        "cjson.encode(list)",
        "cjson.encode(map)",
        "cjson.encode(long)",
        "cjson.encode(x'\\1')",
        "cjson.encode({[n] = 1})",
        "cjson.encode({a = list, b = map, c = print})",
        "local t = {} for i = 1, 900 do t = {t, long} end cjson.encode(t)",
        "list[n] = cjson.encode cjson.encode(list)",
    ],
    "cmsgpack.pack": [
        "cmsgpack.pack(list)",
        "cmsgpack.pack(map)",
        "cmsgpack.pack(long)",
        "list[1] = nil cmsgpack.pack(list)",
        "cmsgpack.pack(unpack(list))",
    ],
    "cmsgpack.unpack": [
        "cmsgpack.unpack(cmsgpack.pack(list))",
        "cmsgpack.unpack(cmsgpack.pack(map))",
        "cmsgpack.unpack(cmsgpack.pack(long))",
        "cmsgpack.unpack(x'a')",
        "cmsgpack.unpack(x'\\145')",
        "cmsgpack.unpack(x'\\220\\255\\255')",
        "cmsgpack.unpack(x'\\129a')",
    ],
    "cmsgpack.unpack_one": ["local at, text = 0, x'a' while at ~= -1 do at = cmsgpack.unpack_one(text, at) end"],
    "cmsgpack.unpack_limit": [
        "local at, text = 0, x'a' while at ~= -1 do at = cmsgpack.unpack_limit(text, 7, at) end",
        "cmsgpack.unpack_limit(x'a', n, 0)",
    ],
    "struct.pack": [
        "struct.pack(x'b', unpack(list))",
        "struct.pack(x'x')",
        "struct.pack(x'!4')",
        "struct.pack(x'>')",
        "struct.pack('i' .. long, 1)",
        "struct.pack(long, 1)",
        "struct.pack('s', long)",
        "struct.pack('c0', long)",
        "struct.pack(x'!8bi8', unpack(list))",
    ],
    "struct.unpack": [
        "struct.unpack(x'b', long)",
        "struct.unpack(x's', x'\\0')",
        "struct.unpack(x's', long)",
        "struct.unpack(x'x', long)",
        "struct.unpack(x'Bc0', x'\\1a')",
        "struct.unpack('i' .. long, long)",
        "struct.unpack('s', long .. '\\0')",
        "struct.unpack(x'i8', x'12345678')",
    ],
    "struct.size": ["struct.size(x'b')", "struct.size(x'!2')", "struct.size('c' .. long)", "struct.size(long)"],
    **{f"bit.{name}": [f"bit.{name}(unpack(list))"] for name in ("band", "bor", "bxor")},
    **{
        f"bit.{name}": [f"for i = 1, n do bit.{name}(i, i) end"]
        for name in ("lshift", "rshift", "arshift", "rol", "ror")
    },
    **{
        f"bit.{name}": [f"for i = 1, n do bit.{name}(i) end", f"bit.{name}(long)"]
        for name in ("tobit", "bnot", "bswap", "tohex")
    },
    "string.byte": ["string.byte(long, 1, n)"],
    "string.char": ["for i = 1, n do list[i] = i % 256 end string.char(unpack(list))"],
    "string.dump": ["string.dump(loadstring('return ' .. x'1+' .. '1'))"],
    "string.find": [
        "string.find(long, '2', 1, true)",
        "string.find(long, '2')",
        "string.find(long, '%D')",
        "string.find(long, '^1*2')",
        "string.find(long, '^1-2')",
        "string.find(x'(', '^%b()')",
        "string.find('', x'a', 1, true)",
        "string.find('', x'%a')",
    ],
    "string.format": ["string.format('%s', long)", "string.format('%q', long)", "string.format(x'%d', unpack(list))"],
    "string.gfind": ["for _ in string.gfind(long, '1') do end"],
    "string.gmatch": ["for _ in string.gmatch(long, '1') do end"],
    "string.gsub": [
        "string.gsub(long, '1', '22')",
        "string.gsub(long, '1', map)",
        "string.gsub(long, '.', string.upper)",
    ],
    "string.len": ["string.len(long)"],
    "string.lower": ["string.lower(long)", "string.lower(n)"],
    "string.match": ["string.match(long, '^(.*)$')", "string.match(long, '^(%d+)2')"],
    "string.rep": ["string.rep(long, 3)", "string.rep('', n)"],
    "string.reverse": ["string.reverse(long)"],
    "string.sub": ["for i = 1, 1000 do string.sub(long, i) end"],
    "string.upper": ["string.upper(long)"],
    "table.concat": ["table.concat(list, long:sub(1, 10))", "list[n] = {} table.concat(list)"],
    "table.foreach": ["table.foreach(map, function() end)"],
    "table.foreachi": ["table.foreachi(list, function() end)"],
    "table.getn": ["for i = 1, n do table.getn(list) end"],
    "table.insert": [
        "for i = 1, n do table.insert(list, i) end",
        "table.insert(list, 1, 0)",
        "table.insert({}, -n, 0)",
    ],
    "table.maxn": ["table.maxn(list)", "table.maxn(map)"],
    "table.remove": ["for i = 1, n do table.remove(list) end", "table.remove(list, 1)"],
    "table.setn": ["table.setn(list, n)"],
    "table.sort": ["table.sort(list)", "table.sort(list, function(a, b) return a > b end)"],
    "redis.call": [
        "redis.call('RPUSH', KEYS[1] or 'k', unpack(list)) return redis.call('LRANGE', 'k', 0, -1)",
        "redis.call('SET', 'k', long) return redis.call('GET', 'k')",
        "for i = 1, n do redis.call('INCR', 'k') end",
        "redis.call('XADD', 'x', '*', unpack(list)) return redis.call('XRANGE', 'x', '-', '+')",
        "redis.setresp(3) redis.call('HSET', 'h', unpack(list)) return redis.call('HGETALL', 'h')",
    ],
    "redis.pcall": ["redis.pcall('MGET', unpack(list))", "redis.pcall(long)", "for i = 1, n do redis.pcall('GET') end"],
    "redis.error_reply": ["return redis.error_reply(long)", "error(redis.error_reply(x'\\r\\n'))"],
    "redis.status_reply": ["return redis.status_reply(x'\\r\\n')"],
    "redis.sha1hex": ["redis.sha1hex(long)"],
    "redis.log": ["redis.log(redis.LOG_DEBUG, long)", "redis.log(redis.LOG_DEBUG, unpack(list))"],
    "redis.setresp": ["for i = 1, n do redis.setresp(2 + i % 2) end"],
    "redis.set_repl": ["for i = 1, n do redis.set_repl(redis.REPL_ALL) end"],
    "redis.acl_check_cmd": ["redis.acl_check_cmd('MGET', unpack(list))"],
    **{f"redis.{name}": [f"redis.{name}(unpack(list))"] for name in ("replicate_commands", "breakpoint", "debug")},
    "assert": ["assert(false, long)"],
    "collectgarbage": ["collectgarbage()"],
    "error": ["error(long)", "error({err = long})", "error(x'\\r\\n')"],
    "getmetatable": ["for i = 1, n do getmetatable(list) end"],
    "ipairs": ["for _ in ipairs(list) do end"],
    "load": ["local i = 0 load(function() i = i + 1 return i ~= n and 'x=1 ' or nil end)"],
    "loadstring": ["loadstring('return ' .. x'1+' .. '1')", "loadstring('return 1', long)", "loadstring(x'(')"],
    "next": ["local k repeat k = next(map, k) until not k"],
    "pairs": ["for _ in pairs(map) do end"],
    "pcall": ["pcall(error, long)", "for i = 1, n do pcall(error, 'x') end"],
    "rawequal": ["rawequal(long, long .. '1')"],
    "rawget": ["for i = 1, n do rawget(list, i) end"],
    "rawset": ["for i = 1, n do rawset(list, i, 0) end"],
    "select": ["select('#', unpack(list))"],
    "setmetatable": ["for i = 1, n do setmetatable(list, {}) end"],
    "tonumber": ["tonumber(long)", "tonumber('0.' .. long)", "tonumber(long .. 'x')", "tonumber(long, 2)"],
    "tostring": ["tostring(long)"],
    "type": ["type(long)"],
    "unpack": ["unpack(list)"],
    "xpcall": ["xpcall(function() error(long) end, function(e) return e end)"],
    "math.random": ["for i = 1, n do math.random(i) end"],
    "coroutine.wrap": [
        "local f = coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) for i = 1, n do f() end"
    ],
    "return": [
        "return list",
        "return {list, list}",
        "return long",
        "return {err = long}",
        "return {double = 1.5, list}",
    ],
}


#: Library functions that only change a setting or create a library.
_SETTINGS = {
    "cjson.new",
    "cjson.encode_max_depth",
    "cjson.decode_max_depth",
    "cjson.encode_number_precision",
    "cjson.encode_keep_buffer",
    "cjson.encode_sparse_array",
    "cjson.encode_invalid_numbers",
    "cjson.decode_invalid_numbers",
    "cjson.decode_array_with_array_mt",
}


def _cost(script: str, n: int) -> float:
    """Return the seconds that a script takes in a new interpreter, including its reply.

    Garbage collection is off meanwhile, because it would visit all objects of the test run.
    """
    core = Core(Config(), lambda most: 0)
    session = core.open_session(NOW_US)
    core.execute(session, [b"EVAL", b"return 1", b"0"], NOW_US)
    text = _BEGIN + (_LIST if "list" in script else "") + (_MAP if "map" in script else "") + script
    gc.disable()
    try:
        began = time.process_time()
        encoded(core.execute(session, [b"EVAL", text.encode("latin-1"), b"0", b"%d" % n], NOW_US), 2)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("name", "script"), [(name, script) for name, scripts in SCRIPTS.items() for script in scripts]
)
def test_the_cost_is_proportional_to_the_size(name: str, script: str) -> None:
    """A function with arguments four times as large takes less than eight times as long."""
    few, many = (_FEW_WORDS, _MANY_WORDS) if "unpack(list)" in script else (_SMALL, _LARGE)
    long = _cost(script, many)
    if long > _FAST:
        short = min(_cost(script, few) for _ in range(3))
        long = min(long, *(_cost(script, many) for _ in range(4)))
        assert long < _GROWTH * short, f"{few:,}: {short * 1000:.1f} ms, {many:,}: {long * 1000:.1f} ms"


def test_all_functions_are_measured() -> None:
    """Every function of every library for scripts is in the table."""
    walk = """
    local found = {}
    for _, name in pairs({'cjson', 'cmsgpack', 'struct', 'bit', 'string', 'table', 'redis'}) do
        for key, value in pairs(_G[name]) do
            if type(value) == 'function' then found[#found + 1] = name .. '.' .. key end
        end
    end
    return found
    """
    core = Core(Config(), lambda most: 0)
    functions = core.execute(core.open_session(NOW_US), [b"EVAL", walk.encode(), b"0"], NOW_US)
    names = {word for word in encoded(functions, 2).decode().split() if "." in word}
    assert "cjson.decode" in names
    assert not names - _SETTINGS - set(SCRIPTS)
