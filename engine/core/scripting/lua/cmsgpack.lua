-- cmsgpack: MessagePack for scripts. The chunk receives `kit` (functions of the sandbox) and returns the
-- library's table.

local kit = ...
local fail, bad_argument, expected, behind = kit.fail, kit.bad_argument, kit.expected, kit.behind
local type, next, select, rawget, pcall, error = type, next, select, rawget, pcall, error
local tostring, tonumber, unpack = tostring, tonumber, unpack
local byte, char, find, sub = string.byte, string.char, string.find, string.sub
local concat, floor = table.concat, math.floor
local from_halves, float, from_float = kit.numbers.integer, kit.numbers.float, kit.numbers.from_float

local MAX_NESTING = 16

local function big_endian(n, width) return from_halves(floor(n / 4294967296), n % 4294967296, width) end

-- -- packing ----------------------------------------------------------------------------------------------------------

local pack
local function integer(n)
    if n >= 0 then
        if n <= 127 then return char(n) end
        if n <= 255 then return "\204" .. char(n) end
        if n <= 65535 then return "\205" .. big_endian(n, 2) end
        if n <= 4294967295 then return "\206" .. big_endian(n, 4) end
        return "\207" .. big_endian(n, 8)
    end
    if n >= -32 then return char(n + 256) end
    if n >= -128 then return "\208" .. big_endian(n, 1) end
    if n >= -32768 then return "\209" .. big_endian(n, 2) end
    if n >= -2147483648 then return "\210" .. big_endian(n, 4) end
    return "\211" .. big_endian(n, 8)
end
local function header(n, fix, most, two, four)
    if n <= most then return char(fix + n) end
    if n <= 65535 then return char(two) .. big_endian(n, 2) end
    return char(four) .. big_endian(n, 4)
end
local function is_array(t)
    local count, longest = 0, 0
    for k in next, t do
        if type(k) ~= "number" or k <= 0 or floor(k) ~= k then return nil end
        if k > longest then longest = k end
        count = count + 1
    end
    if longest == count then return count end
end
function pack(out, v, level)
    local kind = type(v)
    local n = #out
    if kind == "string" then
        local size = #v
        if size < 32 then out[n + 1] = char(160 + size)
        elseif size <= 255 then out[n + 1] = "\217" .. char(size)
        elseif size <= 65535 then out[n + 1] = "\218" .. big_endian(size, 2)
        else out[n + 1] = "\219" .. big_endian(size, 4) end
        out[n + 2] = v
    elseif kind == "number" then
        if v == floor(v) and v >= -9223372036854775808 and v < 9223372036854775808 then
            out[n + 1] = integer(v)
        else
            local short, exact = float(v, 4)
            out[n + 1] = exact and v == v and "\202" .. short or "\203" .. float(v, 8)
        end
    elseif kind == "boolean" then
        out[n + 1] = v and "\195" or "\194"
    elseif kind == "table" and level < MAX_NESTING then
        v = behind[v] or v
        local size = is_array(v)
        if size then
            out[n + 1] = header(size, 144, 15, 220, 221)
            for i = 1, size do pack(out, rawget(v, i), level + 1) end
        else
            local pairs_count = 0
            for _ in next, v do pairs_count = pairs_count + 1 end
            out[n + 1] = header(pairs_count, 128, 15, 222, 223)
            for k, item in next, v do
                pack(out, k, level + 1)
                pack(out, item, level + 1)
            end
        end
    else
        out[n + 1] = "\192"
    end
end

local library = { _NAME = "cmsgpack", _VERSION = "lua-cmsgpack 0.4.0",
    _COPYRIGHT = "Copyright (C) 2012, Salvatore Sanfilippo",
    _DESCRIPTION = "MessagePack C implementation for Lua" }
function library.pack(...)
    local count = select("#", ...)
    if count == 0 then bad_argument(0, "pack", "MessagePack pack needs input.") end
    local out, values = {}, { ... }
    for i = 1, count do pack(out, values[i], 0) end
    return concat(out)
end

-- -- unpacking --------------------------------------------------------------------------------------------------------

local MISSING, BAD = "Missing bytes in input.", "Bad data format in input."
local s
local value
local function unsigned(at, width)
    if at + width - 1 > #s then error({ MISSING }) end
    if width == 1 then return byte(s, at) end
    if width == 2 then
        local a, b = byte(s, at, at + 1)
        return a * 256 + b
    end
    local a, b, c, d = byte(s, at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
end
local function signed(at, width)
    if width == 8 then
        if at + 7 > #s then error({ MISSING }) end
        local high, low = unsigned(at, 4), unsigned(at + 4, 4)
        if high >= 2147483648 then
            high = high - 4294967296
        end
        return high * 4294967296 + low
    end
    local n = unsigned(at, width)
    return n >= 256 ^ width / 2 and n - 256 ^ width or n
end
local function text(at, size)
    if at + size - 1 > #s then error({ MISSING }) end
    return sub(s, at, at + size - 1), at + size
end
local function array(at, size)
    local t = {}
    for i = 1, size do t[i], at = value(at) end
    return t, at
end
local function map(at, size)
    local t = {}
    for _ = 1, size do
        local k, v
        k, at = value(at)
        v, at = value(at)
        if k == nil or k ~= k then error("table index is " .. (k == nil and "nil" or "NaN"), 0) end
        t[k] = v
    end
    return t, at
end
function value(at)
    local c = byte(s, at)
    if not c then error({ MISSING }) end
    at = at + 1
    if c < 128 then return c, at end
    if c >= 224 then return c - 256, at end
    if c < 144 then return map(at, c - 128) end
    if c < 160 then return array(at, c - 144) end
    if c < 192 then return text(at, c - 160) end
    if c == 192 then return nil, at end
    if c == 194 then return false, at end
    if c == 195 then return true, at end
    if c == 202 then return from_float(0, unsigned(at, 4), 4), at + 4 end
    if c == 203 then
        if at + 7 > #s then error({ MISSING }) end
        return from_float(unsigned(at, 4), unsigned(at + 4, 4), 8), at + 8
    end
    if c == 204 then return unsigned(at, 1), at + 1 end
    if c == 205 then return unsigned(at, 2), at + 2 end
    if c == 206 then return unsigned(at, 4), at + 4 end
    if c == 207 then return signed(at, 8), at + 8 end
    if c == 208 then return signed(at, 1), at + 1 end
    if c == 209 then return signed(at, 2), at + 2 end
    if c == 210 then return signed(at, 4), at + 4 end
    if c == 211 then return signed(at, 8), at + 8 end
    if c == 217 then return text(at + 1, unsigned(at, 1)) end
    if c == 218 then return text(at + 2, unsigned(at, 2)) end
    if c == 219 then return text(at + 4, unsigned(at, 4)) end
    if c == 220 then return array(at + 2, unsigned(at, 2)) end
    if c == 221 then return array(at + 4, unsigned(at, 4)) end
    if c == 222 then return map(at + 2, unsigned(at, 2)) end
    if c == 223 then return map(at + 4, unsigned(at, 4)) end
    error({ BAD })
end
local function several(at, limit)
    local values, n = {}, 0
    while at <= #s and (not limit or n < limit) do
        n = n + 1
        values[n], at = value(at)
    end
    return values, n, at
end
-- Converts a number to the int that C would print.
local function shown(n)
    n = n % 4294967296
    return n >= 2147483648 and n - 4294967296 or n
end
-- Unpacks up to `limit` values (nil: all) from `offset`. Returns the values, their number, and the offset after them
-- (-1 at the end of the input).
local function checked(limit, offset, name, ...)
    local input = ...
    if type(input) == "number" then input = tostring(input) end
    if type(input) ~= "string" then expected(1, name, "string", ...) end
    if offset < 0 or limit and limit < 0 then
        fail("Invalid request to unpack with offset of " .. shown(offset) .. " and limit of " .. #input .. ".")
    end
    if offset > #input then
        fail("Start offset " .. shown(offset) .. " greater than input length " .. #input .. ".")
    end
    s = input
    local ok, values, n, at = pcall(several, offset + 1, limit)
    s = nil
    if not ok then
        if type(values) == "table" and type(values[1]) == "string" then fail(values[1]) end
        if type(values) == "string" and find(values, "stack overflow", 1, true) then
            fail("stack overflow (in function mp_decode_to_lua_array)")
        end
        error(values, 0)
    end
    return values, n, at > #input and -1 or at - 1
end
local function whole(name, n, otherwise, ...)
    local value = (select(n, ...))
    if value == nil and otherwise then return otherwise end
    if type(value) == "string" then value = tonumber(value) or value end
    if type(value) ~= "number" then expected(n, name, "number", ...) end
    if value ~= value or value >= 9223372036854775808 or value < -9223372036854775808 then
        return -9223372036854775808
    end
    return value < 0 and -floor(-value) or floor(value)
end
function library.unpack(...)
    local values, n = checked(nil, 0, "unpack", ...)
    return unpack(values, 1, n)
end
function library.unpack_one(...)
    local values, n, at = checked(1, whole("unpack_one", 2, 0, ...), "unpack_one", ...)
    return at, unpack(values, 1, n)
end
function library.unpack_limit(...)
    local limit, offset = whole("unpack_limit", 2, nil, ...), whole("unpack_limit", 3, 0, ...)
    if limit == 0 and offset == 0 then return library.unpack(...) end
    local values, n, at = checked(limit, offset, "unpack_limit", ...)
    return at, unpack(values, 1, n)
end

return library
