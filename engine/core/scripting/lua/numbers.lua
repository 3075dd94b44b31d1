-- numbers: conversion of numbers to and from big-endian bytes, for cmsgpack and struct.
--
-- The chunk returns a table of functions. A double cannot hold every 64-bit integer exactly, so integers are passed as
-- two 32-bit halves: `high`, which may be negative (two's complement), and `low`, from 0 to 2^32 - 1.

local byte, char, rep, sub = string.byte, string.char, string.rep, string.sub
local floor, frexp, ldexp, huge = math.floor, math.frexp, math.ldexp, math.huge

local WORD = 4294967296
-- By width in bytes: bits of the mantissa, the stored exponent of infinity, and the bias.
local MANTISSA, TOP, BIAS = { [4] = 23, [8] = 52 }, { [4] = 255, [8] = 2047 }, { [4] = 127, [8] = 1023 }

local function word(n)
    return char(floor(n / 16777216) % 256, floor(n / 65536) % 256, floor(n / 256) % 256, n % 256)
end

-- Returns the lowest `size` bytes of an integer. If `size` exceeds eight, zeros are added in front,
-- even for a negative integer.
local function integer(high, low, size)
    if size == 1 then return char(low % 256) end
    if size == 2 then return char(floor(low / 256) % 256, low % 256) end
    if size == 4 then return word(low) end
    local eight = word(high) .. word(low)
    return size <= 8 and sub(eight, 9 - size) or rep("\0", size - 8) .. eight
end

-- Returns the halves of the unsigned integer in the last eight bytes of a string.
local function halves(text)
    local high, low, size = 0, 0, #text
    for at = size > 8 and size - 7 or 1, size - 4 do high = high * 256 + byte(text, at) end
    for at = size > 4 and size - 3 or 1, size do low = low * 256 + byte(text, at) end
    return high, low
end

-- Returns the bytes of a number as a double (width 8) or float (width 4), rounded if necessary, and whether they are
-- exact.
local function float(n, width)
    local mantissa, top = MANTISSA[width], TOP[width]
    local sign, e, m, exact = 0, top, 0, true
    if n < 0 or (n == 0 and 1 / n < 0) then sign, n = 1, -n end
    if n ~= n then
        sign, m = 1, 2 ^ (mantissa - 1)
    elseif n == 0 then
        e = 0
    elseif n ~= huge then
        local fraction, power = frexp(n)
        e = power + BIAS[width] - 1
        if e <= 0 then
            m, e = ldexp(fraction, mantissa + e), 0
        else
            m = (fraction * 2 - 1) * 2 ^ mantissa
        end
        local whole = floor(m)
        local rest = m - whole
        exact = rest == 0
        if rest > 0.5 or (rest == 0.5 and whole % 2 == 1) then whole = whole + 1 end
        m = whole
        if m >= 2 ^ mantissa then m, e = m - 2 ^ mantissa, e + 1 end
        if e >= top then e, m, exact = top, 0, false end
    end
    local head = sign * (top + 1) + e
    if width == 4 then return word(head * 8388608 + m), exact end
    return word(head * 1048576 + floor(m / WORD)) .. word(m % WORD), exact
end

-- Returns the number with the bytes in these halves. The bytes of a float (width 4) are in `low`.
local function from_float(high, low, width)
    local mantissa, top = MANTISSA[width], TOP[width]
    if width == 4 then high = low end
    local sign = high >= 2147483648 and -1 or 1
    high = high % 2147483648
    local e, m
    if width == 4 then
        e, m = floor(high / 8388608), high % 8388608
    else
        e, m = floor(high / 1048576), high % 1048576 * WORD + low
    end
    if e == top then
        if m == 0 then return sign * huge end
        return sign < 0 and 0 / 0 or -(0 / 0) -- 0 / 0 has the sign bit set (as on x86).
    end
    if e == 0 then return sign * ldexp(m, 1 - BIAS[width] - mantissa) end
    return sign * ldexp(m + 2 ^ mantissa, e - BIAS[width] - mantissa)
end

return { integer = integer, halves = halves, float = float, from_float = from_float }
