-- struct: conversion of values to and from binary strings. The chunk receives `kit` (functions of the
-- sandbox) and returns the library's table.

local kit = ...
local fail, bad_argument, expected, unfit = kit.fail, kit.bad_argument, kit.expected, kit.unfit
local type, select, tonumber, tostring, unpack, error = type, select, tonumber, tostring, unpack, error
local byte, sub, find, match, rep, reverse = string.byte, string.sub, string.find, string.match, string.rep, string.reverse
local concat, floor, ceil, frexp = table.concat, math.floor, math.ceil, math.frexp
local from_halves, halves, float, from_float = kit.numbers.integer, kit.numbers.halves, kit.numbers.float,
    kit.numbers.from_float

local SIZES = { b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, i = 4, I = 4, f = 4, d = 8, x = 1 }
local MAX_ALIGN, MOST_BYTES = 8, 32
local MOST = 2147483647

-- Parses an option of a format; returns its letter, its size, and the position of the next option.
local function option(format, at)
    local letter = sub(format, at, at)
    if letter == "c" or letter == "i" or letter == "I" or letter == "!" then
        -- Only these letters can have a size. Looking for digits after other letters would be slow in long formats.
        local digits = match(format, "^%d+", at + 1) or ""
        local n = digits ~= "" and tonumber(digits)
        if n and n > MOST then fail("integral size overflow") end
        at = at + 1 + #digits
        if letter == "c" then return letter, n or 1, at end
        if letter == "!" then return letter, n or MAX_ALIGN, at end
        n = n or 4
        if n > MOST_BYTES then fail("integral size " .. n .. " is larger than limit of " .. MOST_BYTES) end
        return letter, n, at
    end
    return letter, SIZES[letter] or 0, at + 1
end
local function padding(size, align, position, letter)
    if size == 0 or letter == "c" then return 0 end
    if size > align then size = align end
    if size <= 1 then return 0 end
    return (size - position % size) % size
end
-- Returns the byte order and the alignment after an option that changes one of them.
local function switched(name, letter, size, order, align)
    if letter == ">" then return "big", align end
    if letter == "<" then return "little", align end
    if letter == "!" then
        if frexp(size) ~= 0.5 then fail("alignment " .. size .. " is not a power of 2") end
        return order, size
    end
    if letter == " " then return order, align end
    bad_argument(1, name, "invalid format option '" .. letter .. "'")
end
local function take_number(n, name, value)
    if type(value) == "string" then value = tonumber(value) or value end
    if type(value) ~= "number" then unfit(n, name, "number", value) end
    return value
end
local function integer(value, size)
    value = value < 0 and ceil(value) or floor(value)
    -- As in C, numbers that fit only an unsigned integer wrap around. Numbers above the unsigned range become 0.
    -- Numbers below the signed range and NaN become the minimum.
    if value ~= value or value < -9223372036854775808 then
        value = -9223372036854775808
    elseif value >= 18446744073709551616 then
        value = 0
    elseif value >= 9223372036854775808 then
        value = value - 18446744073709551616
    end
    return from_halves(floor(value / 4294967296), value % 4294967296, size)
end
local function ordered(text, order) return order == "little" and reverse(text) or text end

local library = {}
local function format_of(name, ...)
    local format = ...
    if type(format) == "number" then format = tostring(format) end
    if type(format) ~= "string" then expected(1, name, "string", ...) end
    return format
end
function library.pack(...)
    local format = format_of("pack", ...)
    local out, values, total, argument = {}, { ... }, 0, 1
    local order, align = "little", 1
    local at = 1
    while at <= #format and byte(format, at) ~= 0 do
        local letter, size, behind = option(format, at)
        at = behind
        local pad = padding(size, align, total, letter)
        if letter == "!" or letter == ">" or letter == "<" or letter == " " then pad = 0 end
        if pad > 0 then out[#out + 1] = rep("\0", pad) total = total + pad end
        if find(letter, "[bBhHlLTiI]") then
            argument = argument + 1
            out[#out + 1] = ordered(integer(take_number(argument, "pack", values[argument]), size), order)
        elseif letter == "x" then
            out[#out + 1] = "\0"
        elseif letter == "f" or letter == "d" then
            argument = argument + 1
            out[#out + 1] = ordered(float(take_number(argument, "pack", values[argument]), size), order)
        elseif letter == "c" or letter == "s" then
            argument = argument + 1
            local text = values[argument]
            if type(text) == "number" then text = tostring(text) end
            if type(text) ~= "string" then unfit(argument, "pack", "string", text) end
            if letter == "s" then
                out[#out + 1] = text .. "\0"
                size = #text + 1
            else
                if size == 0 then size = #text end
                if #text < size then bad_argument(argument + 1, "pack", "string too short") end
                out[#out + 1] = sub(text, 1, size)
            end
        else
            order, align = switched("pack", letter, size, order, align)
            size = 0
        end
        total = total + size
    end
    return concat(out)
end
function library.unpack(...)
    local format, data, start = format_of("unpack", ...), select(2, ...)
    if type(data) == "number" then data = tostring(data) end
    if type(data) ~= "string" then expected(2, "unpack", "string", ...) end
    local from = start == nil and 1 or take_number(3, "unpack", start)
    if not (from > -2 ^ 63 and from < 2 ^ 63) then from = -2 ^ 63 end -- as x86 converts it to an integer
    local position = (from < 0 and ceil or floor)(from) - 1
    if position == -1 then bad_argument(3, "unpack", "offset must be 1 or greater") end
    -- An empty format reads nothing, so any offset is valid.
    if position < -1 and format ~= "" then bad_argument(2, "unpack", "data string too short") end
    local out, n = {}, 0
    local order, align = "little", 1
    local at = 1
    while at <= #format and byte(format, at) ~= 0 do
        local letter, size, behind = option(format, at)
        at = behind
        local is_switch = letter == "!" or letter == ">" or letter == "<" or letter == " "
        if not is_switch then position = position + padding(size, align, position, letter) end
        if not is_switch and position + size > #data then bad_argument(2, "unpack", "data string too short") end
        if find(letter, "[bBhHlLTiI]") then
            local high, low = halves(ordered(sub(data, position + 1, position + size), order))
            if find(letter, "[bhlTi]") and letter ~= "T" then
                local width = size < 8 and size or 8
                if width <= 4 then
                    if low >= 256 ^ width / 2 then low = low - 256 ^ width end
                elseif high >= 256 ^ (width - 4) / 2 then
                    high = high - 256 ^ (width - 4)
                end
            end
            n = n + 1
            out[n] = high * 4294967296 + low
        elseif letter == "f" or letter == "d" then
            n = n + 1
            local high, low = halves(ordered(sub(data, position + 1, position + size), order))
            out[n] = from_float(high, low, size)
        elseif letter == "c" then
            if size == 0 then
                if n == 0 or type(out[n]) ~= "number" then fail("format 'c0' needs a previous size") end
                size = out[n]
                out[n] = nil
                n = n - 1
                if size < 0 or position + size > #data then bad_argument(2, "unpack", "data string too short") end
            end
            n = n + 1
            out[n] = sub(data, position + 1, position + size)
        elseif letter == "s" then
            local stop = find(data, "\0", position + 1, true)
            if not stop then fail("unfinished string in data") end
            n = n + 1
            out[n] = sub(data, position + 1, stop - 1)
            size = stop - position
        elseif letter ~= "x" then
            order, align = switched("unpack", letter, size, order, align)
            size = 0
        end
        position = position + size
    end
    out[n + 1] = position + 1
    return unpack(out, 1, n + 1)
end
function library.size(...)
    local format = format_of("size", ...)
    local order, align, total = "little", 1, 0
    local at = 1
    while at <= #format and byte(format, at) ~= 0 do
        local letter, size, behind = option(format, at)
        at = behind
        if letter == "s" then bad_argument(1, "size", "option 's' has no fixed size") end
        if letter == "c" and size == 0 then bad_argument(1, "size", "option 'c0' has no fixed size") end
        if SIZES[letter] or letter == "c" then
            total = total + padding(size, align, total, letter) + size
        elseif find(letter, "%W") then
            order, align = switched("size", letter, size, order, align)
        end
    end
    return total
end

return library
