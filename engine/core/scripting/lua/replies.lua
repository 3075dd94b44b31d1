-- Replies: the encoding of a script's result as bytes of the protocol.
--
-- The chunk receives `kit` (functions of the sandbox). It returns `encoder`, which creates a function that appends
-- encoded values to a list, and functions for texts: `line` replaces line breaks with spaces, `until_zero` returns the
-- part before the first zero byte, which ends a text in C, and `error_text` also removes line breaks at the end.

local kit = ...
local behind, shown_double = kit.behind, kit.shown_double
local type, next, rawget = type, next, rawget
local format, gsub, match, sub, floor, ceil = string.format, string.gsub, string.match, string.sub, math.floor,
    math.ceil

-- Maximum depth of nested tables. Deeper tables are encoded as an error, as in Redis if Lua's stack is full.
local MAX_DEPTH = 7995
local function integer(n)
    if n ~= n or n >= 9223372036854775808 or n < -9223372036854775808 then return ":-9223372036854775808\r\n" end
    return format(":%.0f\r\n", (n < 0 and ceil(n) or floor(n)) + 0)
end
local function double(n)
    if n == 0 and 1 / n < 0 then return "-0" end
    return shown_double(n)
end
local function line(text) return (gsub(text, "[\r\n]", " ")) end
local function until_zero(text) return match(text, "^[^%z]*") end
local function error_text(text) return match(text, "^[^%z]*[^\r\n%z]") or "" end

-- Returns a function that appends an encoded value to `out`. proto: the client's protocol; resp: the one that the
-- script selected. The texts of errors are collected in `out.errors` as lines; those that are in the statistics of error
-- replies are only counted there.
local function encoder(out, proto, resp)
    local count = #out
    local null = proto == 3 and "_\r\n" or "$-1\r\n"
    local function put(text) count = count + 1 out[count] = text end
    local function bulk(text) put("$" .. #text .. "\r\n") put(text) put("\r\n") end
    local encode
    local function pairs_of(t, header, with_values, depth)
        local n = 0
        for _ in next, t do n = n + 1 end
        put(header(n))
        for k, v in next, t do
            encode(k, depth + 1)
            if with_values then encode(v, depth + 1) end
        end
    end
    local function map_header(n) return proto == 3 and "%" .. n .. "\r\n" or "*" .. 2 * n .. "\r\n" end
    local function set_header(n) return (proto == 3 and "~" or "*") .. n .. "\r\n" end
    function encode(v, depth)
        local kind = type(v)
        if kind == "string" then return bulk(v) end
        if kind == "number" then return put(integer(v)) end
        if kind == "boolean" then
            if resp == 2 then return put(v and ":1\r\n" or null) end
            if proto == 3 then return put(v and "#t\r\n" or "#f\r\n") end
            return put(v and ":1\r\n" or ":0\r\n")
        end
        if kind ~= "table" then return put(null) end
        if depth > MAX_DEPTH then return put("-ERR reached lua stack limit\r\n") end
        v = behind[v] or v
        local x = rawget(v, "err")
        if type(x) == "string" then
            x = line(error_text(x))
            local errors = out.errors or { counted = 0 }
            out.errors = errors
            if rawget(v, "ignore_error_stats_update") == true then
                errors.counted = errors.counted + 1
            else
                errors[#errors + 1] = x .. "\n"
            end
            return put("-" .. x .. "\r\n")
        end
        x = rawget(v, "ok")
        if type(x) == "string" then return put("+" .. line(until_zero(x)) .. "\r\n") end
        x = rawget(v, "double")
        if type(x) == "number" then
            if proto == 3 then return put("," .. double(x) .. "\r\n") end
            return bulk(double(x))
        end
        x = rawget(v, "map")
        if type(x) == "table" then return pairs_of(x, map_header, true, depth) end
        x = rawget(v, "set")
        if type(x) == "table" then return pairs_of(x, set_header, false, depth) end
        x = rawget(v, "big_number")
        if type(x) == "string" then
            x = line(x)
            if proto == 3 then return put("(" .. x .. "\r\n") end
            return bulk(x)
        end
        x = rawget(v, "verbatim_string")
        if type(x) == "table" then
            local kind_of_text, text = rawget(x, "format"), rawget(x, "string")
            if type(kind_of_text) == "string" and type(text) == "string" then
                if proto == 2 then return bulk(text) end
                put("=" .. #text + 4 .. "\r\n" .. sub(until_zero(kind_of_text) .. "   ", 1, 3) .. ":")
                put(text)
                return put("\r\n")
            end
        end
        local at = count + 1
        put("")
        local n = 1
        while true do
            local item = rawget(v, n)
            if item == nil then break end
            encode(item, depth + 1)
            n = n + 1
        end
        out[at] = "*" .. n - 1 .. "\r\n"
    end
    return encode
end

return { encoder = encoder, line = line, until_zero = until_zero, error_text = error_text }
