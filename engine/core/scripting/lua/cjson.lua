-- cjson: JSON for scripts, with the limits, options and error texts of Redis's cjson.
--
-- The chunk receives `kit` (functions of the sandbox) and returns the library's table. Decoding is one scan: `value`
-- parses the value at a position, and returns it with the position after it. An unexpected token is identified only for
-- the error text.

local kit = ...
local fail, bad_argument, expected, unfit = kit.fail, kit.bad_argument, kit.expected, kit.unfit
local null, behind, getmt = kit.null, kit.behind, debug.getmetatable
local type, next, rawget, select, tonumber, tostring, pcall, error, setmetatable = type, next, rawget, select,
    tonumber, tostring, pcall, error, setmetatable
local format, gsub, byte, char, sub, find, match, lower = string.format, string.gsub, string.byte, string.char,
    string.sub,
    string.find, string.match, string.lower
local concat, floor, huge, ldexp = table.concat, math.floor, math.huge, math.ldexp

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
    ["\r"] = "\\r", ["\t"] = "\\t" }
for code = 0, 31 do
    local c = char(code)
    escapes[c] = escapes[c] or format("\\u%04x", code)
end
escapes["\127"] = "\\u007f"
local unescapes = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local SPECIAL = '[%c"\\/\127]'
local TOKENS = { ["{"] = "T_OBJ_BEGIN", ["}"] = "T_OBJ_END", ["["] = "T_ARR_BEGIN", ["]"] = "T_ARR_END",
    [":"] = "T_COLON", [","] = "T_COMMA", ['"'] = "T_STRING" }

local function utf8(code)
    if code < 0x80 then return char(code) end
    if code < 0x800 then return char(0xC0 + floor(code / 64), 0x80 + code % 64) end
    if code < 0x10000 then
        return char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
    end
    return char(0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64,
        0x80 + code % 64)
end

local function new()
    local json = { _NAME = "cjson", _VERSION = "2.1.0", null = null }
    local sparse_convert, sparse_ratio, sparse_safe = false, 2, 10
    local encode_depth, decode_depth = 1000, 1000
    local precision, keep_buffer = 14, true
    local number_form = "%.14g"
    local encode_invalid, decode_invalid = false, true
    local marks_arrays = false

    -- -- encoding ------------------------------------------------------------------------------------------------

    local out, count
    local function put(text)
        count = count + 1
        out[count] = text
    end
    local function put_string(text)
        if find(text, SPECIAL) then text = gsub(text, SPECIAL, escapes) end
        put('"' .. text .. '"')
    end
    -- Returns the length of an array, or nil for an object.
    local function array_length(t)
        local longest, items = 0, 0
        for k in next, t do
            if type(k) ~= "number" or k < 1 or floor(k) ~= k or k > 2147483647 then return nil end
            if k > longest then longest = k end
            items = items + 1
        end
        if sparse_ratio > 0 and longest > items * sparse_ratio and longest > sparse_safe then
            if not sparse_convert then error({ "Cannot serialise table: excessively sparse array" }) end
            return nil
        end
        if longest > 0 then return longest end
    end
    local function number(n)
        if n ~= n or n == huge or n == -huge then
            if encode_invalid == "null" then return "null" end
            if not encode_invalid then error({ "Cannot serialise number: must not be NaN or Inf" }) end
            return n ~= n and "nan" or n == huge and "inf" or "-inf"
        end
        return format(number_form, n)
    end
    local function encode(v, depth)
        local kind = type(v)
        if kind == "string" then return put_string(v) end
        if kind == "number" then return put(number(v)) end
        if kind == "boolean" then return put(v and "true" or "false") end
        if kind == "nil" or v == null then return put("null") end
        if kind ~= "table" then error({ "Cannot serialise " .. kind .. ": type not supported" }) end
        depth = depth + 1
        if depth > encode_depth then error({ "Cannot serialise, excessive nesting (" .. depth .. ")" }) end
        local mt = getmt(v)
        v = behind[v] or v
        local n
        if mt and rawget(mt, "__is_cjson_array") then n = #v else n = array_length(v) end
        if n then
            put("[")
            for i = 1, n do
                if i > 1 then put(",") end
                encode(rawget(v, i), depth)
            end
            return put("]")
        end
        put("{")
        local first = true
        for k, item in next, v do
            if first then first = false else put(",") end
            if type(k) == "string" then
                put_string(k)
            elseif type(k) == "number" then
                put('"' .. number(k) .. '"')
            else
                error({ "Cannot serialise " .. type(k) .. ": table key must be a number or string" })
            end
            put(":")
            encode(item, depth)
        end
        return put("}")
    end
    local function encoded(v)
        out, count = {}, 0
        encode(v, 0)
        return concat(out)
    end
    local function outcome(ok, result)
        out = nil
        if ok then return result end
        if type(result) == "table" and type(result[1]) == "string" and next(result, 1) == nil then
            return nil, result[1]
        end
        error(result, 0)
    end
    function json.encode(...)
        if select("#", ...) ~= 1 then bad_argument(1, "encode", "expected 1 argument") end
        local text, wrong = outcome(pcall(encoded, (...)))
        if wrong then fail(wrong) end
        return text
    end

    -- -- decoding ------------------------------------------------------------------------------------------------

    local s, depth
    local function wrong(text) error({ text }) end
    -- Raises an error with the expected token and the one found at a position.
    local function unexpected(what, at)
        local c = sub(s, at, at)
        local found = TOKENS[c]
        if c == "" or c == "\0" then
            found = "T_END"
        elseif not found then
            if find(s, "^true", at) or find(s, "^false", at) then found = "T_BOOLEAN"
            elseif find(s, "^null", at) then found = "T_NULL"
            elseif find(c, "[%d-]") or c == "+" and decode_invalid then
                found = "T_NUMBER"
                if not (find(s, "^[+-]?%.?%d", at) or find(lower(sub(s, at, at + 4)), "^-inf")
                    or find(lower(sub(s, at, at + 4)), "^-nan")) then
                    found = "invalid number"
                end
            else
                local head = lower(sub(s, at, at + 2))
                found = decode_invalid and (head == "inf" or head == "nan") and "T_NUMBER" or "invalid token"
            end
        end
        wrong("Expected " .. what .. " but found " .. found .. " at character " .. at)
    end
    local function escape_code(at)
        local digits = match(s, "^\\u(%x%x%x%x)", at)
        return digits and tonumber(digits, 16)
    end
    -- Returns the string whose opening quote is just before `at`, and the position after it.
    local function text_at(at)
        local stop = find(s, '["\\%z]', at)
        if stop and byte(s, stop) == 34 then return sub(s, at, stop - 1), stop + 1 end
        local parts, n = {}, 0
        while true do
            stop = find(s, '["\\%z]', at)
            local c = stop and byte(s, stop)
            if not stop or c == 0 then
                wrong("Expected value but found unexpected end of string at character " .. (stop or #s + 1))
            end
            n = n + 1
            parts[n] = sub(s, at, stop - 1)
            if c == 34 then return concat(parts), stop + 1 end
            local letter = sub(s, stop + 1, stop + 1)
            n = n + 1
            if letter == "u" then
                local code = escape_code(stop)
                local width = 6
                if code and code >= 0xD800 and code < 0xE000 then
                    local low = code < 0xDC00 and escape_code(stop + 6)
                    if low and low >= 0xDC00 and low < 0xE000 then
                        code = 0x10000 + (code - 0xD800) * 1024 + low - 0xDC00
                        width = 12
                    else
                        code = nil
                    end
                end
                if not code then
                    wrong("Expected value but found invalid unicode escape code at character " .. stop)
                end
                parts[n] = utf8(code)
                at = stop + width
            else
                parts[n] = unescapes[letter]
                if not parts[n] then wrong("Expected value but found invalid escape code at character " .. stop) end
                at = stop + 2
            end
        end
    end
    -- Parses a number as C's strtod does, and returns it with the position after it.
    local function number_at(at)
        local sign, from = match(s, "^([+-]?)()", at)
        if find(s, "^0[xX%d]", from) and not decode_invalid then
            wrong("Expected value but found invalid number at character " .. at)
        end
        local n, stop
        local digits, dot, fraction, last = match(s, "^0[xX](%x*)(%.?)(%x*)()", from)
        if digits and (digits ~= "" or (dot ~= "" and fraction ~= "")) then
            n, stop = 0, last
            digits = digits .. fraction
            for i = 1, #digits do n = n * 16 + tonumber(sub(digits, i, i), 16) end
            local power, behind_power = match(s, "^[pP]([+-]?%d+)()", stop)
            n = ldexp(n, (power and tonumber(power) or 0) - 4 * #fraction)
            stop = behind_power or stop
        else
            -- Match each part separately: one pattern for the whole number would backtrack over the digits.
            local point = match(s, "^%d*()", from)
            last = match(s, "^%.%d*()", point) or point
            if point > from or last > point + 1 then
                stop = match(s, "^[eE][+-]?%d+()", last) or last
                n = tonumber(sub(s, from, stop - 1))
            elseif decode_invalid then
                local word = lower(sub(s, from, from + 7))
                if word == "infinity" then n, stop = huge, from + 8
                elseif sub(word, 1, 3) == "inf" then n, stop = huge, from + 3
                elseif sub(word, 1, 3) == "nan" then
                    n, stop = -(0 / 0), from + 3
                    stop = match(s, "^%([%w_]*%)()", stop) or stop
                end
            end
        end
        if n then return sign == "-" and -n or n, stop end
    end
    local function deeper(at)
        depth = depth + 1
        if depth > decode_depth then
            wrong("Found too many nested data structures (" .. depth .. ") at character " .. at)
        end
    end
    local function value(at)
        at = find(s, "[^ \t\n\r]", at) or #s + 1
        local c = byte(s, at)
        if c == 34 then return text_at(at + 1) end
        if c == 123 then
            deeper(at)
            local t = {}
            at = find(s, "[^ \t\n\r]", at + 1) or #s + 1
            if byte(s, at) == 125 then depth = depth - 1 return t, at + 1 end
            while true do
                if byte(s, at) ~= 34 then unexpected("object key string", at) end
                local key
                key, at = text_at(at + 1)
                at = find(s, "[^ \t\n\r]", at) or #s + 1
                if byte(s, at) ~= 58 then unexpected("colon", at) end
                t[key], at = value(at + 1)
                at = find(s, "[^ \t\n\r]", at) or #s + 1
                c = byte(s, at)
                if c == 125 then depth = depth - 1 return t, at + 1 end
                if c ~= 44 then unexpected("comma or object end", at) end
                at = find(s, "[^ \t\n\r]", at + 1) or #s + 1
            end
        end
        if c == 91 then
            deeper(at)
            local t, n = {}, 0
            if marks_arrays then setmetatable(t, { __is_cjson_array = true }) end
            at = find(s, "[^ \t\n\r]", at + 1) or #s + 1
            if byte(s, at) == 93 then depth = depth - 1 return t, at + 1 end
            while true do
                n = n + 1
                t[n], at = value(at)
                at = find(s, "[^ \t\n\r]", at) or #s + 1
                c = byte(s, at)
                if c == 93 then depth = depth - 1 return t, at + 1 end
                if c ~= 44 then unexpected("comma or array end", at) end
                at = at + 1
            end
        end
        if c == 116 and sub(s, at, at + 3) == "true" then return true, at + 4 end
        if c == 102 and sub(s, at, at + 4) == "false" then return false, at + 5 end
        if c == 110 and sub(s, at, at + 3) == "null" then return null, at + 4 end
        local n, behind
        if c == 43 and decode_invalid then
            n, behind = number_at(at)
            if not behind then wrong("Expected value but found invalid number at character " .. at) end
        elseif c and (c == 45 or c >= 48 and c <= 57 or c == 73 or c == 78 or c == 105 or c == 110) then
            n, behind = number_at(at)
        end
        if not behind then unexpected("value", at) end
        return n, behind
    end
    local function decoded()
        local result, at = value(1)
        at = find(s, "[^ \t\n\r]", at) or #s + 1
        if at <= #s and byte(s, at) ~= 0 then unexpected("the end", at) end
        return result
    end
    function json.decode(...)
        if select("#", ...) ~= 1 then bad_argument(1, "decode", "expected 1 argument") end
        local text = ...
        if type(text) == "number" then text = tostring(text) end
        if type(text) ~= "string" then expected(1, "decode", "string", ...) end
        if #text >= 2 and (byte(text) == 0 or byte(text, 2) == 0) then
            fail("JSON parser does not support UTF-16 or UTF-32")
        end
        s, depth = text, 0
        local result, message = outcome(pcall(decoded))
        s = nil
        if message then fail(message) end
        return result
    end

    -- -- options -------------------------------------------------------------------------------------------------

    local MOST = 2147483647
    local function whole(n, name, given, low, high)
        if type(given) == "string" then given = tonumber(given) or given end
        if type(given) ~= "number" then unfit(n, name, "number", given) end
        given = given < 0 and -floor(-given) or floor(given)
        if given < low or given > high then
            bad_argument(1, name, "expected integer between " .. low .. " and " .. high)
        end
        return given
    end
    local function several(name, most, ...)
        if select("#", ...) > most then bad_argument(most + 1, name, "found too many arguments") end
    end
    local function switch(n, name, given, words)
        if type(given) == "boolean" then return given end
        if type(given) ~= "string" and type(given) ~= "number" then unfit(n, name, "string", given) end
        local found = words[given]
        if found == nil then bad_argument(n, name, "invalid option '" .. given .. "'") end
        return found
    end
    local SWITCH = { on = true, off = false }
    function json.encode_max_depth(...)
        several("encode_max_depth", 1, ...)
        if (...) ~= nil then encode_depth = whole(1, "encode_max_depth", (...), 1, MOST) end
        return encode_depth
    end
    function json.decode_max_depth(...)
        several("decode_max_depth", 1, ...)
        if (...) ~= nil then decode_depth = whole(1, "decode_max_depth", (...), 1, MOST) end
        return decode_depth
    end
    function json.encode_number_precision(...)
        several("encode_number_precision", 1, ...)
        if (...) ~= nil then
            precision = whole(1, "encode_number_precision", (...), 1, 14)
            number_form = "%." .. precision .. "g"
        end
        return precision
    end
    function json.encode_keep_buffer(...)
        several("encode_keep_buffer", 1, ...)
        if (...) ~= nil then keep_buffer = switch(1, "encode_keep_buffer", (...), SWITCH) end
        return keep_buffer
    end
    function json.encode_sparse_array(...)
        several("encode_sparse_array", 3, ...)
        local convert, ratio, safe = ...
        if convert ~= nil then sparse_convert = switch(1, "encode_sparse_array", convert, SWITCH) end
        if ratio ~= nil then sparse_ratio = whole(2, "encode_sparse_array", ratio, 0, MOST) end
        if safe ~= nil then sparse_safe = whole(3, "encode_sparse_array", safe, 0, MOST) end
        return sparse_convert, sparse_ratio, sparse_safe
    end
    function json.encode_invalid_numbers(...)
        several("encode_invalid_numbers", 1, ...)
        if (...) ~= nil then
            encode_invalid = switch(1, "encode_invalid_numbers", (...), { on = true, off = false, null = "null" })
        end
        return encode_invalid
    end
    function json.decode_invalid_numbers(...)
        several("decode_invalid_numbers", 1, ...)
        if (...) ~= nil then decode_invalid = switch(1, "decode_invalid_numbers", (...), SWITCH) end
        return decode_invalid
    end
    function json.decode_array_with_array_mt(...)
        several("decode_array_with_array_mt", 1, ...)
        if (...) ~= nil then marks_arrays = switch(1, "decode_array_with_array_mt", (...), SWITCH) end
        return marks_arrays
    end
    json.new = new
    return json
end

return new()
