"""The sandbox, in Lua: what a script can reach, how it is run, and how its result becomes a reply.

:data:`SANDBOX` is run once in a fresh interpreter. It takes what it needs of Lua's libraries, and then empties the real
table of globals: whatever a script reaches hangs on the table ``G`` that is built here. The tables that scripts share
(``G`` and the libraries in it) are read-only. Lua 5.1 has no such tables, so each is an empty table in front of the one
with the values (``behind`` leads there); functions that look or write past metatables are replaced by ones that know.

Rules, each of which guards the process:

* No Python object may be seen by a script. Python's functions are given out as C functions only (``as_function``), and
  one that fails raises a userdata, which every place that catches errors (pcall, xpcall, coroutine.resume, load, the
  runner) turns into a table with the text. The metatable of such userdata is emptied and locked besides.
* Bytecode is never loaded: it could do anything to the process.
* No error of the allocator can be caught: a script that has used up its memory ends.
* The hook counts instructions in each coroutine, so each new one gets it. No code of a script may run where Lua runs no
  hooks: in the handler of an error that the hook has raised.
"""

from __future__ import annotations

SANDBOX = rb"""
local host, sources, is_eval = ...
local python = python
local as_function = python.as_function
local call, pcall_redis, acl_check, sha1hex, log, setresp, set_repl = as_function(host.call), as_function(host.pcall),
    as_function(host.acl_check_cmd), as_function(host.sha1hex), as_function(host.log), as_function(host.setresp),
    as_function(host.set_repl)
local arm, tick, take_error, resp_now = as_function(host.arm), as_function(host.tick), as_function(host.take_error),
    as_function(host.resp_now)
local version, version_number = host.version, host.version_number
local getinfo, sethook, getmt = debug.getinfo, debug.sethook, debug.getmetatable

-- Nothing can be done with Python's objects from here on but to call those that are C functions already.
local objects = getmt(host.call)
objects.__index, objects.__newindex, objects.__tostring, objects.__call = nil, nil, nil, nil
objects.__metatable = false
host = nil

local _G, type, next, pairs, rawget, rawset, tostring, error, select, unpack = _G, type, next, pairs, rawget, rawset,
    tostring, error, select, unpack
local setmetatable, getmetatable, pcall, xpcall, setfenv = setmetatable, getmetatable, pcall, xpcall, setfenv
local loadstring, load, collectgarbage, newproxy, rawequal = loadstring, load, collectgarbage, newproxy, rawequal
local string, table, math, coroutine = string, table, math, coroutine
local format, gsub, byte, sub, find, match, rep = string.format, string.gsub, string.byte, string.sub, string.find,
    string.match, string.rep
local concat, floor, ceil, huge = table.concat, math.floor, math.ceil, math.huge
local create, resume, running = coroutine.create, coroutine.resume, coroutine.running

local READONLY = "Attempt to modify a readonly table"
local OUT_OF_MEMORY = "not enough memory"
local EVERY = 100000

local tail_place = is_eval and "user_script:1: " or "user_function:1: "
-- Where a function of these libraries was called: "user_script:1: ". A tail call has left no trace of its line.
local function where(level)
    local info
    repeat
        level = level + 1
        info = getinfo(level, "Sl")
    until not info or info.source ~= "=(redis)"
    if info and info.currentline > 0 then return info.short_src .. ":" .. info.currentline .. ": " end
    return tail_place
end
local function fail(text) error(where(2) .. text, 0) end
local function bad_argument(n, name, text)
    error(where(2) .. "bad argument #" .. n .. " to '" .. name .. "' (" .. text .. ")", 0)
end
local function expected(n, name, kind, ...)
    local got = "no value"
    if select("#", ...) >= n then got = type((select(n, ...))) end
    error(where(2) .. "bad argument #" .. n .. " to '" .. name .. "' (" .. kind .. " expected, got " .. got .. ")", 0)
end
local function unfit(n, name, kind, value)
    local text = kind .. " expected, got " .. type(value)
    error(where(2) .. "bad argument #" .. n .. " to '" .. name .. "' (" .. text .. ")", 0)
end

-- -- read-only tables ------------------------------------------------------------------------------------------------

local behind = setmetatable({}, { __mode = "k" })
local function refuse() error(where(2) .. READONLY, 0) end
local function readonly(t, missing)
    local front = {}
    if missing then setmetatable(t, { __index = missing }) end
    behind[front] = t
    return setmetatable(front, { __index = t, __newindex = refuse })
end
local function guarded(name, f, n)
    return function(...)
        if behind[(...)] then error(READONLY, 0) end
        if type((...)) ~= "table" then expected(1, name, "table", ...) end
        return f(...)
    end
end
-- As `guarded`, for what only reads: it sees what is behind.
local function seeing(name, f)
    return function(t, ...)
        if type(t) ~= "table" then unfit(1, name, "table", t) end
        return f(behind[t] or t, ...)
    end
end

-- -- errors ----------------------------------------------------------------------------------------------------------

-- cjson.null: the one userdata that scripts know.
local null = newproxy(true)
getmt(null).__tostring = function() return "userdata: (nil)" end
getmt(null).__metatable = false

-- What was caught, as scripts may see it.
local function fixed(e)
    if type(e) == "userdata" and e ~= null then return { err = take_error() } end
    if e == OUT_OF_MEMORY then error(e, 0) end
    return e
end
local function caught(ok, e, ...)
    if ok then return ok, e, ... end
    e = fixed(e)
    if type(e) == "table" then
        local err = rawget(behind[e] or e, "err")
        if type(err) == "string" then e = err end
    end
    return ok, e
end
local function safe_pcall(...)
    if select("#", ...) == 0 then return false, "bad argument #1 to '?' (value expected)" end
    return caught(pcall(...))
end
local function resumed(ok, e, ...)
    if ok then return ok, e, ... end
    return ok, fixed(e)
end
local function handled(handler, ok, e, ...)
    if ok then return ok, e, ... end
    return false, select(2, resumed(pcall(handler, fixed(e))))
end
-- (The handler is called behind the error, not within it: within an error of the hook there is no hook.)
local function safe_xpcall(f, handler)
    if handler == nil then bad_argument(2, "xpcall", "value expected") end
    return handled(handler, pcall(f))
end
local function safe_resume(co, ...)
    if type(co) ~= "thread" then bad_argument(1, "resume", "coroutine expected") end
    return resumed(resume(co, ...))
end

-- -- the hook --------------------------------------------------------------------------------------------------------

local KILLED = "ERR Script killed by user with SCRIPT KILL..."
local killed = false
local function hook(event)
    -- (A script that has been ended stops at its next line, in whatever it does then; these libraries' lines go on.)
    if event == "line" and getinfo(2, "S").source == "=(redis)" then return end
    local verdict = tick()
    if verdict == 0 then
        if event == "line" then sethook() end
    else
        killed = true
        sethook(hook, "l", EVERY)
        if verdict == 2 then error(OUT_OF_MEMORY, 0) end
        error({ err = verdict == 1 and KILLED or "ERR FUNCTION LOAD timeout" }, 0)
    end
end
local function watched(co)
    if killed then sethook(co, hook, "l", EVERY) else sethook(co, hook, "", EVERY) end
    return co
end
local function is_lua(f) return type(f) == "function" and getinfo(f, "S").what ~= "C" end
local function safe_create(f)
    if not is_lua(f) then bad_argument(1, "create", "Lua function expected") end
    return watched(create(f))
end
local function passed(ok, e, ...)
    if ok then return e, ... end
    if type(e) == "string" then e = where(1) .. e end
    error(e, 0)
end
local function safe_wrap(f)
    if not is_lua(f) then bad_argument(1, "wrap", "Lua function expected") end
    local co = watched(create(f))
    return function(...) return passed(resume(co, ...)) end
end

-- -- the libraries ---------------------------------------------------------------------------------------------------

local base = {}
local G

local function sandboxed(chunk, e)
    if chunk then return setfenv(chunk, G) end
    return nil, fixed(e)
end
local function safe_loadstring(...)
    local text, name = ...
    if type(text) == "number" then text = tostring(text) end
    if type(text) ~= "string" then expected(1, "loadstring", "string", ...) end
    if byte(text) == 27 then
        return nil, "[string \"\27Lua" .. sub(text, 5, 5) .. "\"]:1: unexpected symbol near 'char(27)'"
    end
    return sandboxed(loadstring(text, name or text))
end
local function safe_load(...)
    local reader, name = ...
    if type(reader) ~= "function" then expected(1, "load", "function", ...) end
    local parts = {}
    local ok, e = pcall(function()
        while true do
            local part = reader()
            if part == nil or part == "" then return end
            if type(part) ~= "string" then error("reader function must return a string", 0) end
            parts[#parts + 1] = part
        end
    end)
    if not ok then return nil, fixed(e) end
    local text = concat(parts)
    if byte(text) == 27 then return nil, (name or "=(load)") .. ": unexpected symbol near 'char(27)'" end
    return sandboxed(loadstring(text, name or "=(load)"))
end
local function safe_collect(option, n)
    if option == nil or option == "collect" or option == "step" then return collectgarbage(option or "collect", n) end
    if option == "count" then return collectgarbage("count") end
    if option == "stop" or option == "restart" or option == "setpause" or option == "setstepmul" then return 0 end
    if type(option) ~= "string" then expected(1, "collectgarbage", "string", option) end
    bad_argument(1, "collectgarbage", "invalid option '" .. option .. "'")
end
local function copy(t)
    local c = {}
    for k, v in pairs(t) do c[k] = v end
    return c
end

for _, name in pairs({ "assert", "error", "gcinfo", "rawequal", "select", "tonumber", "tostring", "type",
    "unpack", "ipairs", "_VERSION" }) do
    base[name] = _G[name]
end
base.pairs = seeing("pairs", pairs)
base.next = seeing("next", next)
base.rawget = seeing("rawget", rawget)
base.rawset = guarded("rawset", rawset)
base.pcall, base.xpcall, base.load, base.loadstring = safe_pcall, safe_xpcall, safe_load, safe_loadstring
base.collectgarbage = safe_collect
base.setmetatable = function(...)
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
local shown = setmetatable({}, { __mode = "k" })
base.getmetatable = function(...)
    if select("#", ...) == 0 then bad_argument(1, "getmetatable", "value expected") end
    local t = ...
    if behind[t] then return shown[t] end
    if t == null then return nil end
    return getmetatable(t)
end

local safe_string = copy(string)
local safe_table = copy(table)
for _, name in pairs({ "insert", "remove", "setn" }) do safe_table[name] = guarded(name, table[name]) end
for _, name in pairs({ "foreach", "foreachi" }) do safe_table[name] = seeing(name, table[name]) end
local safe_math = copy(math)
local safe_coroutine = { create = safe_create, wrap = safe_wrap, resume = safe_resume, running = running,
    status = coroutine.status, yield = coroutine.yield }
base.coroutine = readonly(safe_coroutine)
base.string, base.table, base.math = readonly(safe_string), readonly(safe_table), readonly(safe_math)
getmt("").__index = safe_string
getmt("").__metatable = readonly({ __index = base.string })

-- -- redis -----------------------------------------------------------------------------------------------------------

local function error_reply(text, ...)
    if type(text) ~= "string" or select("#", ...) > 0 then return { err = "ERR wrong number or type of arguments" } end
    if byte(text) == 45 then text = sub(text, 2) end
    if not find(text, " ", 1, true) then text = "ERR " .. text end
    return { err = text }
end
local function status_reply(text, ...)
    if type(text) ~= "string" or select("#", ...) > 0 then return { err = "ERR wrong number or type of arguments" } end
    return { ok = text }
end
local function nothing() end

local redis = {
    call = call, pcall = pcall_redis, error_reply = error_reply, status_reply = status_reply, sha1hex = sha1hex,
    log = log, setresp = setresp, set_repl = set_repl, acl_check_cmd = acl_check,
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = version, REDIS_VERSION_NUM = version_number,
}
if is_eval then
    redis.replicate_commands, redis.breakpoint = function() return true end, function() return false end
    redis.debug = nothing
end
base.redis = readonly(redis)

local kit = { where = where, fail = fail, bad_argument = bad_argument, expected = expected, unfit = unfit,
    null = null }
for _, name in pairs({ "cjson", "cmsgpack", "struct", "bit" }) do
    base[name] = readonly(loadstring(sources[name], "=(redis)")(kit))
end

-- What is missing in the table of globals is an error, not nil.
local function missing(_, name)
    error(where(1) .. "Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 0)
end
G = readonly(base, missing)
base._G = G
shown[G] = readonly({ __index = missing })

-- -- replies ---------------------------------------------------------------------------------------------------------

local MAX_DEPTH = 7995
local function integer(n)
    if n ~= n or n >= 9223372036854775808 or n < -9223372036854775808 then return ":-9223372036854775808\r\n" end
    return format(":%.0f\r\n", (n < 0 and ceil(n) or floor(n)) + 0)
end
local function double(n)
    if n ~= n then return "-nan" end
    if n == huge then return "inf" elseif n == -huge then return "-inf" end
    return format("%.17g", n)
end
local function line(text) return (gsub(text, "[\r\n]", " ")) end

-- Writes a value as the protocol has it. proto: the client's; resp: what the script has asked for.
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
        if type(x) == "string" then return put("-" .. line(x) .. "\r\n") end
        x = rawget(v, "ok")
        if type(x) == "string" then return put("+" .. line(x) .. "\r\n") end
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
                put("=" .. #text + 4 .. "\r\n" .. sub(kind_of_text .. "   ", 1, 3) .. ":")
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

-- -- running ---------------------------------------------------------------------------------------------------------

local scripts = {}
local chunk_name = is_eval and "@user_script" or "@user_function"

-- The error as a table with its text and its place, while the place is still on the stack.
local function on_error(e)
    if e == OUT_OF_MEMORY then return { err = "ERR " .. e, source = chunk_name, line = 1 } end
    local level, info = 2
    repeat
        info = getinfo(level, "Sl")
        level = level + 1
    until not info or (info.source ~= "=(redis)" and info.what ~= "C" and info.what ~= "tail")
    if type(e) == "userdata" and e ~= null then e = { err = take_error() } end
    if type(e) ~= "table" then e = { err = "ERR " .. tostring(e) } end
    e = behind[e] or e
    local err = rawget(e, "err")
    if type(err) ~= "string" then err = "ERR a table as an error" end
    -- (What a tail call has replaced has left no line.)
    return { err = err, source = info and info.source or chunk_name, line = info and info.currentline or 1 }
end

-- What a script has returned: a code that says what it is, and the value.
local function outcome(proto, ok, value)
    sethook()
    if not ok then
        -- (An error of the allocator calls no handler, and leaves no room for a table.)
        if type(value) ~= "table" then return 6 end
        return 3, value.err, value.source, value.line
    end
    local kind = type(value)
    if kind == "string" then return 0, value end
    if kind == "number" then return 1, value end
    if kind == "nil" then return 4 end
    if kind == "table" then
        local err = rawget(behind[value] or value, "err")
        if type(err) == "string" then return 5, line(err), rawget(value, "ignore_error_stats_update") and 1 or 0 end
    end
    return false, kind, value
end
local function encoded(proto, value)
    local out = {}
    encoder(out, proto, resp_now())(value, 1)
    return concat(out)
end
local function finish(proto, code, kind, value, ...)
    if code then return code, kind, value, ... end
    -- It is counted too: a table can lead to itself.
    sethook(hook, "", EVERY)
    local ok, text = pcall(encoded, proto, value)
    sethook()
    if not ok then
        if type(text) ~= "table" then return 6 end
        return 3, text.err
    end
    return 2, text
end
local function begin()
    killed = false
    arm()
    sethook(hook, "", EVERY)
end
local function arguments(count, ...)
    local all = ...
    if type(all) ~= "table" then all = { ... } end
    if count == 0 then return {}, all end
    local keys, args, n = {}, {}, #all
    for i = 1, count do keys[i] = all[i] end
    for i = count + 1, n do args[i - count] = all[i] end
    return keys, args
end

local api = {}
function api.compile(name, text)
    local chunk, e = loadstring(text, "@user_script")
    if not chunk then return e end
    scripts[name] = setfenv(chunk, G)
end
function api.forget(name) scripts[name] = nil end
function api.run(name, proto, count, ...)
    base.KEYS, base.ARGV = arguments(count, ...)
    begin()
    return finish(proto, outcome(proto, xpcall(scripts[name], on_error)))
end
function api.run_function(name, proto, count, ...)
    local f, keys, args = scripts[name], arguments(count, ...)
    begin()
    return finish(proto, outcome(proto, xpcall(function() return (f(keys, args)) end, on_error)))
end

-- -- libraries of functions -------------------------------------------------------------------------------------------

local NAMES = "Library names can only contain letters, numbers, or underscores(_) and must be at least "
    .. "one character long"
local FLAGS = { ["no-writes"] = true, ["allow-oom"] = true, ["allow-stale"] = true, ["no-cluster"] = true,
    ["allow-cross-slot-keys"] = true }
-- What a library has registered so far, while it is loaded: name, callback, description, flags of each function.
local loading
local function refused(text) error({ err = "ERR " .. text }, 0) end
local function named(given)
    local name, description, callback, flags
    local words = {}
    for k, v in next, given do
        if k == "function_name" then
            if type(v) ~= "string" and type(v) ~= "number" then
                refused("function_name argument given to redis.register_function must be a string")
            end
            name = tostring(v)
        elseif k == "description" then
            if type(v) ~= "string" and type(v) ~= "number" then
                refused("description argument given to redis.register_function must be a string")
            end
            description = tostring(v)
        elseif k == "callback" then
            if type(v) ~= "function" then
                refused("callback argument given to redis.register_function must be a function")
            end
            callback = v
        elseif k == "flags" then
            if type(v) ~= "table" then
                refused("flags argument to redis.register_function must be a table representing function flags")
            end
            for i = 1, #v do
                if not FLAGS[v[i]] then refused("unknown flag given") end
                words[i] = v[i]
            end
        else
            refused("unknown argument given to redis.register_function")
        end
    end
    if not name then refused("redis.register_function must get a function name argument") end
    if not callback then refused("redis.register_function must get a callback argument") end
    return name, callback, description, concat(words, " ")
end
local function register_function(...)
    local n = select("#", ...)
    local name, callback = ...
    local description, flags
    if n < 1 or n > 2 then refused("wrong number of arguments to redis.register_function") end
    if n == 1 then
        if type(name) ~= "table" then
            refused("calling redis.register_function with a single argument is only applicable to Lua table "
                .. "(representing named arguments).")
        end
        name, callback, description, flags = named(behind[name] or name)
    else
        if type(name) == "number" then name = tostring(name) end
        if type(name) ~= "string" then refused("first argument to redis.register_function must be a string") end
        if type(callback) ~= "function" then
            refused("second argument to redis.register_function must be a function")
        end
        flags = ""
    end
    if not find(name, "^[%w_]+$") then refused(NAMES) end
    for i = 1, #loading, 4 do
        if loading[i] == name then refused("Function already exists in the library") end
    end
    local n = #loading
    loading[n + 1], loading[n + 2], loading[n + 3], loading[n + 4] = name, callback, description or false, flags
end

-- While a library is loaded its code sees another `redis`: it can register functions, and calls nothing.
local library_redis = { register_function = register_function, log = log }
for name, value in pairs(redis) do
    if type(value) ~= "function" then library_redis[name] = value end
end
local load_redis = readonly(library_redis, missing)
local library_G = setmetatable({}, { __newindex = refuse, __index = function(_, name)
    if loading and name == "redis" then return load_redis end
    local value = base[name]
    return value
end })
behind[library_G] = base
shown[library_G] = shown[G]

-- Runs the code of a library: 0 and what it has registered, three values each; else what is wrong with it.
local loaded
function api.load(text)
    local chunk, e = loadstring(text, "@user_function")
    if not chunk then return 1, e end
    loading, loaded = {}, nil
    setfenv(chunk, library_G)
    begin()
    local ok, failure = xpcall(chunk, on_error)
    sethook()
    loaded, loading = loading, nil
    if not ok then return 2, type(failure) == "table" and failure.err or OUT_OF_MEMORY end
    local out = {}
    for i = 1, #loaded, 4 do
        out[#out + 1], out[#out + 2], out[#out + 3] = loaded[i], loaded[i + 2], loaded[i + 3]
    end
    return 0, unpack(out)
end
-- Takes over the functions that the last library has registered.
function api.adopt()
    for i = 1, #loaded, 4 do scripts[loaded[i]] = loaded[i + 1] end
    loaded = nil
end

for name in pairs(copy(_G)) do rawset(_G, name, nil) end
return api
"""
