-- bit: bitwise operations on 32-bit integers. The chunk receives `kit` (functions of the sandbox) and returns the
-- library's table.

local kit = ...
local expected = kit.expected
local type, select, tonumber, floor, frexp, huge = type, select, tonumber, math.floor, math.frexp, math.huge
local format = string.format

local function tobit(n)
    -- Adding 1.5 * 2^52 rounds n to an integer, which then occupies the lowest bits of the double.
    n = n + 6755399441055744
    if n >= 4503599627370496 and n < 9007199254740992 then return n % 4294967296 end
    if n ~= n or n == huge or n == -huge then return 0 end
    local mantissa = frexp(n)
    return (mantissa < 0 and -mantissa or mantissa) * 9007199254740992 % 4294967296
end
local function signed(n) return n >= 2147483648 and n - 4294967296 or n end
local function number(value)
    if type(value) == "string" then value = tonumber(value) or value end
    return type(value) == "number" and tobit(value)
end
local function taken(name, n, ...)
    return number((select(n, ...))) or expected(n, name, "number", ...)
end
-- Returns an operation's results for all pairs of bytes.
local function byte_table(one)
    local t = {}
    for a = 0, 255 do
        local row = {}
        for b = 0, 255 do
            local x, y, n, place = a, b, 0, 1
            for _ = 1, 8 do
                if one(x % 2, y % 2) then n = n + place end
                x, y, place = floor(x / 2), floor(y / 2), place * 2
            end
            row[b] = n
        end
        t[a] = row
    end
    return t
end
local function folded(name, one)
    local bytes
    return function(...)
        local a, values = taken(name, 1, ...), { ... }
        -- As in Redis, the later arguments are processed from last to first, so the error names the last invalid one.
        for i = select("#", ...), 2, -1 do
            bytes = bytes or byte_table(one)
            local b = number(values[i]) or expected(i, name, "number", ...)
            a = bytes[a % 256][b % 256]
                + bytes[floor(a / 256) % 256][floor(b / 256) % 256] * 256
                + bytes[floor(a / 65536) % 256][floor(b / 65536) % 256] * 65536
                + bytes[floor(a / 16777216)][floor(b / 16777216)] * 16777216
        end
        return signed(a)
    end
end
local function shifting(name, shift)
    return function(...)
        return signed(shift(taken(name, 1, ...), taken(name, 2, ...) % 32))
    end
end
local function left(a, n) return a * 2 ^ n % 4294967296 end
local function right(a, n) return floor(a / 2 ^ n) end

local library = {
    band = folded("band", function(a, b) return a + b == 2 end),
    bor = folded("bor", function(a, b) return a + b > 0 end),
    bxor = folded("bxor", function(a, b) return a + b == 1 end),
    lshift = shifting("lshift", left),
    rshift = shifting("rshift", right),
    arshift = shifting("arshift", function(a, n)
        if a < 2147483648 then return right(a, n) end
        return right(a, n) + 4294967296 - 2 ^ (32 - n)
    end),
    rol = shifting("rol", function(a, n) return left(a, n) + right(a, 32 - n) end),
    ror = shifting("ror", function(a, n) return right(a, n) + left(a, 32 - n) end),
}
function library.tobit(...) return signed(taken("tobit", 1, ...)) end
function library.bnot(...) return signed(4294967295 - taken("bnot", 1, ...)) end
function library.bswap(...)
    local a = taken("bswap", 1, ...)
    local low = a % 256 * 16777216 + floor(a / 256) % 256 * 65536
    return signed(low + floor(a / 65536) % 256 * 256 + floor(a / 16777216))
end
function library.tohex(...)
    local a = taken("tohex", 1, ...)
    local n = select("#", ...) > 1 and signed(taken("tohex", 2, ...)) or 8
    local form = "%0" .. "8x"
    if n < 0 then n, form = -n, "%08X" end
    if n > 8 then n = 8 end
    if n == 0 then return "" end
    return format(form, a):sub(-n)
end

return library
