-- Lua's standard functions and libraries in the form offered to scripts.
--
-- The chunk receives `kit` (functions of the sandbox) and returns the table of globals. Functions that bypass
-- metatables are replaced with versions that handle the read-only tables. Functions that load code refuse bytecode, and
-- give the code the sandbox's globals. math.random uses the same generator as Redis, so a script that sets the seed
-- draws the same numbers as in Redis.

local kit = ...
local OUT_OF_MEMORY = "not enough memory"
local where, fail, bad_argument, expected, unfit = kit.where, kit.fail, kit.bad_argument, kit.expected, kit.unfit
local behind, readonly, fixed, sandboxed, READONLY = kit.behind, kit.readonly, kit.fixed, kit.sandboxed, kit.READONLY
local type, select, tonumber, tostring, pairs, next, error = type, select, tonumber, tostring, pairs, next, error
local rawget, rawset, setmetatable, getmt = rawget, rawset, setmetatable, debug.getmetatable
local loadstring, load, collectgarbage = loadstring, load, collectgarbage
local byte, gsub, rep, floor, ceil = string.byte, string.gsub, string.rep, math.floor, math.ceil
local work = kit.work
local find, match, unpack, pcall = string.find, string.match, unpack, pcall
local insert, remove, foreach, foreachi, concat = table.insert, table.remove, table.foreach, table.foreachi,
    table.concat

local function copy(t)
    local c = {}
    for k, v in pairs(t) do c[k] = v end
    return c
end

local base = {}
for _, name in pairs({ "assert", "error", "gcinfo", "rawequal", "select", "tonumber", "tostring", "type",
    "ipairs", "_VERSION" }) do
    base[name] = _G[name]
end

-- Converts the n-th argument to C's int: numbers are truncated, and wrap around if they are too large.
local function whole(n, name, ...)
    local value = tonumber((select(n, ...)))
    if type(value) ~= "number" then expected(n, name, "number", ...) end
    if value ~= value or value >= 9223372036854775808 or value < -9223372036854775808 then return 0 end
    value = (value < 0 and ceil(value) or floor(value)) % 4294967296
    return value >= 2147483648 and value - 4294967296 or value
end

-- Returns the results of a standard function. Its errors name the function and the script's line, as if the script had
-- called it directly.
local function answered(name, ok, ...)
    if ok then return ... end
    local e = ...
    if type(e) ~= "string" or e == OUT_OF_MEMORY then error(e, 0) end
    local n, text = match(e, "^bad argument #(%d+) to '%?' %((.*)%)$")
    if n then bad_argument(tonumber(n), name, text) end
    fail(e)
end

-- -- tables ----------------------------------------------------------------------------------------------------------

local function table_to_read(name, ...)
    local t = ...
    if type(t) ~= "table" then expected(1, name, "table", ...) end
    return behind[t] or t
end
local function check_writable(name, ...)
    local t = ...
    if type(t) ~= "table" then expected(1, name, "table", ...) end
    if behind[t] then error(READONLY, 0) end
end
function base.pairs(...) return pairs(table_to_read("pairs", ...)) end
function base.next(...) return next(table_to_read("next", ...), (select(2, ...))) end
function base.rawget(...)
    local t = table_to_read("rawget", ...)
    if select("#", ...) < 2 then bad_argument(2, "rawget", "value expected") end
    return rawget(t, (select(2, ...)))
end
function base.rawset(...)
    check_writable("rawset", ...)
    local n = select("#", ...)
    if n < 3 then bad_argument(n + 1, "rawset", "value expected") end
    local t, key, value = ...
    return rawset(t, key, value)
end
function base.setmetatable(...)
    local t, mt = ...
    if behind[t] then error(READONLY, 0) end
    if type(t) ~= "table" then expected(1, "setmetatable", "table", ...) end
    if type(mt) ~= "table" and (mt ~= nil or select("#", ...) < 2) then
        bad_argument(2, "setmetatable", "nil or table expected")
    end
    local old = getmt(t)
    if old and rawget(old, "__metatable") ~= nil then fail("cannot change a protected metatable") end
    return setmetatable(t, mt)
end

local safe_table = copy(table)
-- Converts a position as table.insert does, to a 32-bit integer.
local function as_place(number)
    local at = (number < 0 and ceil or floor)(number) % 2 ^ 32
    return at < 2 ^ 31 and at or at - 2 ^ 32
end
-- If the position is below this number, elements are moved in Lua: in C, where no hook runs, the move could take
-- minutes.
local FAR_BELOW = -10000
-- Moving one element counts as much work as processing this many bytes of a long string.
local ELEMENT = 16
local function insert_far_below(t, at, value)
    for i = #t + 1, at + 1, -1 do rawset(t, i, rawget(t, i - 1)) end
    rawset(t, at, value)
end
function safe_table.insert(...)
    local n = select("#", ...)
    check_writable("insert", ...)
    if n == 3 then
        local t, at, value = ...
        if not tonumber(at) then unfit(2, "insert", "number", at) end
        at = as_place(tonumber(at))
        if at < FAR_BELOW then return insert_far_below(t, at, value) end
        work((#t - at) * ELEMENT)
    elseif n ~= 2 then
        fail("wrong number of arguments to 'insert'")
    end
    return insert(...)
end
function safe_table.remove(...)
    check_writable("remove", ...)
    local t, at = ...
    if at ~= nil then
        if not tonumber(at) then unfit(2, "remove", "number", at) end
        work((#t - tonumber(at)) * ELEMENT)
    end
    return remove(...)
end
function safe_table.concat(...)
    local t = ...
    if type(t) == "table" then work(#t * ELEMENT) end
    return answered("concat", pcall(concat, ...))
end
function safe_table.setn(...)
    check_writable("setn", ...)
    fail("'setn' is obsolete")
end
for name, f in pairs({ foreach = foreach, foreachi = foreachi }) do
    safe_table[name] = function(...)
        local t = table_to_read(name, ...)
        local call = (select(2, ...))
        if type(call) ~= "function" then expected(2, name, "function", ...) end
        return f(t, call)
    end
end
base.table = readonly(safe_table)

-- Maximum number of results of a call in Lua. Lua's unpack counts results as C's int; if that overflowed, unpack would
-- write past the end of the stack.
local MOST_RESULTS = 8000
function base.unpack(...)
    local t, from, to = ...
    if type(t) == "table" and (from ~= nil or to ~= nil) then
        from = from == nil and 1 or whole(2, "unpack", ...)
        to = to == nil and #t or whole(3, "unpack", ...)
        if to - from >= MOST_RESULTS then fail("too many results to unpack") end
    end
    return answered("unpack", pcall(unpack, ...))
end

-- -- code ------------------------------------------------------------------------------------------------------------

-- Bytecode is replaced with the invalid source REFUSED. In Lua's error, char(1) is then changed to char(27), the first
-- byte of bytecode.
local REFUSED, NAMED, BYTECODE = "\1", "'char%(1%)'$", "'char(27)'"
local function loaded(is_bytecode, chunk, e)
    if chunk then return sandboxed(chunk) end
    if is_bytecode and type(e) == "string" then e = gsub(e, NAMED, BYTECODE) end
    return nil, fixed(e)
end
local function check_name(name, f)
    if name ~= nil and type(name) ~= "string" and type(name) ~= "number" then unfit(2, f, "string", name) end
end
-- Returns a chunk's name up to its first zero byte, as Lua uses it. Lua would cut a longer name into a string that the
-- garbage collector may free while the chunk is read. Callers keep a reference to this string.
local function up_to_zero(name) return (gsub(tostring(name), "%z.*", "")) end
function base.loadstring(...)
    local text, name = ...
    if type(text) == "number" then text = tostring(text) end
    if type(text) ~= "string" then expected(1, "loadstring", "string", ...) end
    check_name(name, "loadstring")
    local is_bytecode = byte(text) == 27
    local kept = up_to_zero(name or text)
    work(#text)
    local chunk, e = loadstring(is_bytecode and REFUSED or text, kept)
    return loaded(is_bytecode, chunk, e)
end
function base.load(...)
    local reader, name = ...
    if type(reader) ~= "function" then expected(1, "load", "function", ...) end
    check_name(name, "load")
    local is_first, is_bytecode, kept = true, false, up_to_zero(name or "=(load)")
    local chunk, e = load(function()
        local part = reader()
        if is_first then
            is_first = false
            is_bytecode = type(part) == "string" and byte(part) == 27
            if is_bytecode then return REFUSED end
        end
        return part
    end, kept)
    return loaded(is_bytecode, chunk, e)
end

-- -- memory ----------------------------------------------------------------------------------------------------------

function base.collectgarbage(...)
    local option, n = ...
    if option ~= nil and type(option) ~= "string" and type(option) ~= "number" then
        unfit(1, "collectgarbage", "string", option)
    end
    if n ~= nil and not tonumber(n) then unfit(2, "collectgarbage", "number", n) end
    if option == nil or option == "collect" or option == "step" then return collectgarbage(option or "collect", n) end
    if option == "count" then return collectgarbage("count") end
    if option == "stop" or option == "restart" then return 0 end
    if option == "setpause" or option == "setstepmul" then return 200 end
    bad_argument(1, "collectgarbage", "invalid option '" .. option .. "'")
end

-- -- strings, numbers, time ------------------------------------------------------------------------------------------

local safe_string = copy(string)
function safe_string.rep(...)
    local text, n = ...
    if type(text) == "number" then text = tostring(text) end
    if type(text) ~= "string" then expected(1, "rep", "string", ...) end
    n = tonumber(n)
    if not n then expected(2, "rep", "number", ...) end
    work(n * #text)
    return rep(text, n)
end
for _, name in pairs({ "lower", "upper", "reverse" }) do
    local made = safe_string[name]
    safe_string[name] = function(...)
        local text = ...
        if type(text) ~= "string" then return answered(name, pcall(made, ...)) end
        work(#text)
        return (made(text))
    end
end
-- Longer patterns with special characters are refused: matching is recursive in C for each item of a pattern, and could
-- overflow the C stack.
local LONG_PATTERN, SPECIAL = 10000, "[%^%$%*%+%?%.%(%[%%%-]"
local is_text = { string = true, number = true }
-- Wraps a function that gsub calls for replacements. Its own errors keep their position. Invalid results are reported
-- at the call of gsub.
local function replacing(f)
    local place = where(2)
    return function(...)
        local value = f(...)
        if value and not is_text[type(value)] then
            error(place .. "invalid replacement value (a " .. type(value) .. ")", 0)
        end
        return value
    end
end
for _, name in pairs({ "find", "match", "gmatch", "gfind", "gsub" }) do
    local search = safe_string[name]
    safe_string[name] = function(...)
        local text, pattern, third, plain = ...
        if not is_text[type(text)] then expected(1, name, "string", ...) end
        if not is_text[type(pattern)] then expected(2, name, "string", ...) end
        if type(pattern) == "string" and #pattern > LONG_PATTERN
            and not (name == "find" and (plain or not find(pattern, SPECIAL))) then
            fail("pattern too complex")
        end
        if type(text) == "string" then work(#text) end
        if name == "gsub" and type(third) == "function" then
            return search(text, pattern, replacing(third), select(4, ...))
        end
        return answered(name, pcall(search, ...))
    end
end
base.string = readonly(safe_string)
getmt("").__index = safe_string
getmt("").__metatable = readonly({ __index = base.string })

-- POSIX's lrand48: the 48-bit state, in two halves, is multiplied by 0x5DEECE66D and increased by 11. A result is its
-- upper 31 bits.
local HALF = 16777216
local high, low = 1193131, 13447950
function kit.chance() return high, low end
function kit.draw_from(one, other) high, low = one, other end
local function seed(n)
    high, low = floor(n / 256), n % 256 * 65536 + 13070
end
local function drawn()
    local product = low * 15525485 + 11
    high = (high * 15525485 + low * 1502 + floor(product / HALF)) % HALF
    low = product % HALF
    return floor((high * HALF + low) / 131072) % 2147483647 / 2147483647
end
local safe_math = copy(math)
function safe_math.random(...)
    local n, number = select("#", ...), drawn()
    if n == 0 then return number end
    if n > 2 then fail("wrong number of arguments") end
    local from, to = 1, whole(1, "random", ...)
    if n == 2 then from, to = to, whole(2, "random", ...) end
    if from > to then bad_argument(n, "random", "interval is empty") end
    return floor(number * (to - from + 1)) + from
end
function safe_math.randomseed(...) seed(whole(1, "randomseed", ...) % 4294967296) end
base.math = readonly(safe_math)

base.os = readonly({ clock = os.clock })

return base
