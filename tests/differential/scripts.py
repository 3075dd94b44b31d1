"""Random Lua scripts: values of all types, calls of commands, errors, and the libraries.

Their results do not depend on time, on chance, or on the order of a table's keys: a table with words as keys has only
one key.
"""

from __future__ import annotations

import re
from random import Random

from tests.differential.exclusions import NEW


def _parts(text: str) -> list[str]:
    """Split text at two blanks or a line break."""
    return re.split(r"\s{2,}", text.strip())


_ATOMS = _parts(
    r"""
    nil  true  false  0  1  -1  -3.7  1.5  3.999  -0.5  1e10  2^53  100000000000001  'a'  ''  '12'  'x\r\ny'  '\0b'
    KEYS[1]  KEYS[2]  ARGV[1]  ARGV[3]  #KEYS  #ARGV  redis.REPL_ALL  redis.LOG_WARNING  cjson.null
    string.format('%5.1f|%d|%q', 1.25, 7, 'a\nb')  ('abc'):rep(3, 2)  math.pi  math.floor(-1.5)
    ('hello'):sub(2, -2)  tostring(nil)  tostring(1e15)  tostring(0.1)  tonumber('0x1F')  tonumber('z', 36)
    select('#', nil, nil)  unpack({1, 2, 3})  type(redis)  type(nil)  math.max(1, 9, 3)  next({})
    rawequal('a', 'a')  string.char(0, 255)  ('a,b'):find(',')  ('k=v'):match('(%w+)=(%w+)')
    ('aXbX'):gsub('X', '-')  table.concat({1, 2, 'x'}, ':')  bit.tohex(255, -4)  bit.bnot(0)  bit.lshift(1, 33)
    """
)
_SPECIAL = _parts(
    r"""
    {ok = 'FINE'}  {err = 'ERR mine'}  {err = 'bare'}  {ok = 'a\r\nb'}  {double = 1.5}  {double = 1/0}
    {map = {a = 1}}  {map = {}}  {set = {a = true}}  {set = {}}  {big_number = '123456789012345678901234567890'}
    {verbatim_string = {format = 'txt', string = 'text'}}  redis.error_reply('MY error')  redis.error_reply('-X y')
    redis.error_reply('word')  redis.status_reply('GOOD')  redis.error_reply()  redis.sha1hex('a')  {err = 7}
    """
)
_FAILING = _parts(
    r"""
    error('mine')  error({err = 'ERR mine as a table'})  error()  nothing_there  nothing_there()  KEYS.x.y  1 + {}
    'a' + 1  #nil  redis.call()  redis.call({})  redis.sha1hex()  redis.status_reply(1)  cjson.decode('{')
    cjson.decode('[1,]')  cjson.encode(function() end)  struct.unpack('>I4', 'ab')  struct.pack('Q')
    cmsgpack.unpack('\193')  string.rep()  tonumber()  setmetatable(redis, {})  rawset(_G, 'x', 1)
    loadstring('return +')()  loadstring('return 7')()  redis.setresp(4)  redis.nothing  redis.nothing()
    assert(false, 'asserted')  assert(nil)  bit.band()  redis.acl_check_cmd('nothing')
    """
)
#: Numbers and texts for tests of the libraries, and expressions in which {a}, {b} and {c} are such values.
#: (They are not positions for table.insert: at -2^31 Redis moves elements for minutes without replying.)
_ODD = _parts(
    r"""
    0  1  -1  1.5  2.5  -2.5  31  32  33  127  128  255  256  -128  -129  65536  2^31  2^32  -2^31  2^40+5  2^52+1
    -2^53  2^53  1e15  1e17  0.1  1e300  1/0  -1/0  nil  true  false  {}  {1, 2}  {a = 1}  {1, nil, 3}  ''  'a'  'x y'
    '12'  '0x10'  '\1\2'  'i4'  '>I2'  'bhl'  'c0'  's'  '!4d'  '[1,{"a":null}]'  '"\\u00e9"'  '-0.5e1'  '{"a":[]}'
    '\147\1\2\3'  '\129\161a\192'  cjson.null  #ARGV[2]
    """
)
_TRIED = _parts(
    r"""
    bit.band({a}, {b})  bit.bor({a}, {b}, {c})  bit.bxor({a}, {b})  bit.bnot({a})  bit.lshift({a}, {b})
    bit.rshift({a}, {b})  bit.arshift({a}, {b})  bit.rol({a}, {b})  bit.ror({a}, {b})  bit.bswap({a})
    bit.tohex({a}, {b})  bit.tobit({a})  struct.pack({a}, {b}, {c})  struct.unpack({a}, {b})
    struct.unpack({a}, {b}, {c})  struct.size({a})  struct.unpack('>i2', struct.pack('>i2', {a}))
    struct.pack('l', {a})  struct.pack('f', {a})  struct.pack('I3', {a})  cmsgpack.pack({a}, {b})
    cmsgpack.unpack({a})  cmsgpack.unpack_one({a}, {b})  cmsgpack.unpack_limit({a}, {b}, {c})
    cmsgpack.unpack(cmsgpack.pack({a}, {b}))  cjson.encode({a})  cjson.encode({{{a}, {b}}})  cjson.decode({a})
    cjson.encode(cjson.decode({a}))  string.format('%g|%s', {a}, tostring(tonumber({b})))
    ('hello'):sub({a}, {b})  ('a1b2'):byte({a}, {b})  tostring(tonumber({a}))  tonumber({a}, {b})  math.floor({a})
    math.fmod({a}, {b})  select({a}, {b}, {c})  table.concat({{{a}, {b}}}, {c})  table.insert({{1}}, {a})
    table.insert({{1, 2}}, 1, {a})  table.insert({{1}}, 5, {a})  table.remove({{1, 2}}, {a})
    rawequal({a}, {b})  redis.sha1hex({a})  redis.error_reply({a})
    redis.status_reply({a})  redis.setresp({a})
    xpcall(function() error({a}) end, function(e) return e end)  pcall(error, {a})
    load(function() return nil end, {a})  coroutine.wrap(function(x) return x end)({a})
    (function(...) math.randomseed({a}) return math.random(100) end)()  #{a}  -{a}  {a} == {b}  {a} .. {b}  {a} < {b}
    """
)
_CALLS = _parts(
    r"""
    'SET', KEYS[1], '7'  'SET', KEYS[1], ARGV[1]  'GET', KEYS[1]  'GET', KEYS[2]  'INCR', KEYS[1]  'DEL', KEYS[1]
    'DEL', KEYS[2]  'LPUSH', KEYS[1], 'a', 2, 3.5  'LRANGE', KEYS[1], 0, -1  'LPOP', KEYS[1]
    'HSET', KEYS[1], 'f', 1.25  'HGETALL', KEYS[1]  'HGET', KEYS[1], 'none'  'SADD', KEYS[2], 'm'
    'SMEMBERS', KEYS[2]  'SISMEMBER', KEYS[2], 'm'  'ZADD', KEYS[2], 1.5, 'm'  'ZSCORE', KEYS[2], 'm'
    'ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'  'ZINCRBY', KEYS[2], 'inf', 'm'  'XADD', KEYS[1], '5-1', 'f', 'v'
    'XRANGE', KEYS[1], '-', '+'  'XLEN', KEYS[1]  'XACK', KEYS[1], 'g', '5-1'  'XREAD', 'STREAMS', KEYS[1], '0'
    'EXISTS', KEYS[1], KEYS[2]  'TYPE', KEYS[1]
    'EXPIRE', KEYS[1], 100000  'PERSIST', KEYS[1]  'PING'  'ping', 'x'  'ECHO', 'y'  'NOTHING'  'GET'  'GET', 1, 2
    'SUBSCRIBE', 'c'  'MULTI'  'EVAL', 'return 1', 0  'PUBLISH', 'c', 'm'
    'MGET', KEYS[1], KEYS[2]  'STRLEN', KEYS[1]  'APPEND', KEYS[1], 'z'  'SETRANGE', KEYS[1], 3, 'q'
    'GETRANGE', KEYS[1], 0, 1  'SELECT', 1  'HINCRBYFLOAT', KEYS[1], 'f', 0.25  'COMMAND', 'COUNT', 'x'
    'OBJECT', 'FREQ', KEYS[1]  'CONFIG', 'GET', 'maxmemory'  'HELLO', 3  'DUMP', KEYS[3]
    'LMPOP', 1, KEYS[1], 'LEFT'  'ZPOPMIN', KEYS[2]  'SORT', KEYS[1]
    """
)

if NEW:
    # In Lua a constant 0 next to a -0 gets its sign, and 7.0 passes "-0" to commands.
    _ODD.append("-0")
    # Before 7.2 blocking commands are rejected. Since then they reply as after a timeout, and numbers are shorter.
    _CALLS += _parts(
        """
        'XREAD', 'BLOCK', 0, 'STREAMS', KEYS[1], '0'  'BLPOP', KEYS[2], 0  'BRPOP', KEYS[1], 1  'BZPOPMIN', KEYS[2], 0
        'BLMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT', 0  'WAIT', 0, 0  'ECHO', 0.1  'ECHO', 1e17  'SET', KEYS[1], 1/3
        """
    )
    _TRIED += ["redis.call('SET', KEYS[1], {a})", "redis.pcall('ECHO', {a})"]


class Scripts:
    """A generator of random scripts."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def command(self) -> list[str]:
        """Return EVAL or a variant with a script, its keys and arguments."""
        name = self._random.choices(["EVAL", "EVAL_RO", "EVALSHA"], [20, 2, 1])[0]
        text = self.script() if name != "EVALSHA" else "0" * 40
        return [name, text, "2", "sk1", "sk2", self._random.choice(["7", "x", ""]), "two"]

    def script(self) -> str:
        """Return a whole script."""
        begin = "redis.setresp(3) " if self._random.random() < 0.2 else ""
        steps = [f"local v{n} = {self._value(2)} " for n in range(self._random.randrange(3))]
        names = [f"v{n}" for n in range(len(steps))]
        shown = self._random.choice(["return {value}", "return {{{value}}}", "local x = {value} return {{type(x), x}}"])
        result = shown.format(value=self._value(3))
        if names and self._random.random() < 0.4:
            result = f"return {{{', '.join(names)}}}"
        return begin + "".join(steps) + result

    def _value(self, depth: int) -> str:
        pick = self._random.choice
        kind = self._random.random()
        if depth == 0 or kind < 0.25:
            return pick(_ATOMS)
        if kind < 0.5:
            return f"redis.{pick(['call', 'pcall', 'pcall'])}({pick(_CALLS)})"
        if kind < 0.58:
            return pick(_SPECIAL)
        if kind < 0.62:
            return pick(_FAILING)
        if kind < 0.7:
            return pick(_TRIED).format(a=pick(_ODD), b=pick(_ODD), c=pick(_ODD))
        inner = self._value(depth - 1)
        if kind < 0.76:
            return f"(function() local ok, e = pcall(function() return {inner} end) return {{ok, type(e), e}} end)()"
        if kind < 0.8:
            return f"cjson.encode({{{inner}}})"
        if kind < 0.83:
            return f"cjson.decode(cjson.encode({{{inner}}}))"
        if kind < 0.86:
            return f"cmsgpack.unpack(cmsgpack.pack({inner}))"
        if kind < 0.88:
            return "struct.unpack('>hIBs', struct.pack('>hIBs', -2, 70000, 255, 'text'))"
        return "{" + ", ".join(self._value(depth - 1) for _ in range(self._random.randrange(4))) + "}"
