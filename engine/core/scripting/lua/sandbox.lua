-- The sandbox: the globals of scripts, the execution of a script, and the conversion of its result to a reply.
--
-- This chunk runs once in a new interpreter. It copies the functions that it needs from Lua's libraries to locals,
-- builds the table `G`, and then empties the real table of globals, so scripts can reach only `G`. All scripts share
-- `G` and the libraries in it, so these tables are read-only. Lua 5.1 has no read-only tables, so each is an empty
-- proxy for a table with the values, and `behind` maps the proxy to that table. Functions that bypass metatables, such
-- as `rawset`, are replaced with versions that handle proxies.
--
-- Rules that protect the process:
--
-- * Scripts never receive a Python object. Python functions are exposed only as C functions (`as_function`). When one
--   fails, it raises a userdata, which all functions that catch errors (pcall, xpcall, coroutine.resume, load, the
--   runner) replace with a table that has the text. The metatable of such userdata is also emptied and locked.
-- * Bytecode is never loaded, because it can corrupt the memory of the process.
-- * Scripts cannot catch out-of-memory errors: a script that exceeds its memory limit ends.
-- * The hook counts instructions per coroutine, so it is set in each new coroutine and also called at every eighth
--   resume. Single instructions can be slow (a call of a C function, a long string). The host therefore sets the number
--   of instructions until the hook's next call, and C functions that receive long strings count as many instructions
--   (`work`). No script code may run in the handler of an error that the hook raised, because Lua runs no hooks there.

-- The functions of `redis` that are written in Python: `offered` return a result, `silent` do not.
local host, offered, silent, sources, is_eval = ...
local python = python
local as_function = python.as_function
for _, functions in pairs({ offered, silent }) do
    for name, f in pairs(functions) do functions[name] = as_function(f) end
end
local shown_double = as_function(host.shown_double)
local tick, raised_error, resp_now = as_function(host.tick), as_function(host.raised_error), as_function(host.resp_now)
local version, version_number = host.version, host.version_number
local getinfo, sethook, getmt = debug.getinfo, debug.sethook, debug.getmetatable

-- From here on, Python objects are unusable; only the C functions made above can still be called.
local objects = getmt(host.call)
objects.__index, objects.__newindex, objects.__tostring, objects.__call = nil, nil, nil, nil
objects.__metatable = false
host = nil

local _G, type, next, pairs, rawget, tostring, error, select, unpack = _G, type, next, pairs, rawget, tostring, error,
    select, unpack
local setmetatable, getmetatable, pcall, xpcall, setfenv = setmetatable, getmetatable, pcall, xpcall, setfenv
local loadstring, newproxy, coroutine, tonumber = loadstring, newproxy, coroutine, tonumber
local gsub, byte, sub, find, concat = string.gsub, string.byte, string.sub, string.find, table.concat
local create, resume, running = coroutine.create, coroutine.resume, coroutine.running

local READONLY = "Attempt to modify a readonly table"
local OUT_OF_MEMORY = "not enough memory"
local FIRST, EVERY_RESUME = 1000, 8

local chunk_name = is_eval and "@user_script" or "@user_function"
-- The running script or function.
local current
-- Returns the last line of `current` with code, which is where a tail call usually is.
local function last_line()
    local info, last = getinfo(current, "SL"), 0
    for line in pairs(info.activelines) do
        if line > last and (info.what == "main" or line < info.lastlinedefined) then last = line end
    end
    return last > 0 and last or info.lastlinedefined
end
-- Returns the script's position at this level or above it. A tail call removes its caller from the stack. Then this is
-- the position of the call before it or, if there is none, the last line.
local function position(level)
    local info
    repeat
        level = level + 1
        info = getinfo(level, "Sl")
    until not info or (info.source ~= "=(redis)" and info.currentline > 0)
    return info or { source = chunk_name, short_src = sub(chunk_name, 2), currentline = last_line() }
end
-- Returns the script's position at which it called a function of these libraries, such as "user_script:1: ", and
-- whether that was a method call. A call by a C function, such as pcall, has no position.
local function where(level)
    local info
    repeat
        level = level + 1
        info = getinfo(level, "Sl")
    until not info or info.source ~= "=(redis)"
    local is_method = info and getinfo(level - 1, "n").namewhat == "method"
    if info and info.what == "C" then return "" end
    info = position(level)
    return info.short_src .. ":" .. info.currentline .. ": ", is_method
end
local function fail(text) error(where(2) .. text, 0) end
local function bad_argument(n, name, text)
    local place, is_method = where(2)
    if place == "" then name = "?" end
    if is_method then n = n - 1 end
    error(place .. "bad argument #" .. n .. " to '" .. name .. "' (" .. text .. ")", 0)
end
local function unfit(n, name, kind, value) bad_argument(n, name, kind .. " expected, got " .. type(value)) end
-- Like `unfit`, for the n-th argument, which may be missing.
local function expected(n, name, kind, ...)
    if select("#", ...) >= n then unfit(n, name, kind, (select(n, ...))) end
    bad_argument(n, name, kind .. " expected, got no value")
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

-- -- errors ----------------------------------------------------------------------------------------------------------

-- cjson.null, the only userdata that scripts receive.
local null = newproxy(true)
getmt(null).__tostring = function() return "userdata: (nil)" end
getmt(null).__metatable = false

-- Returns the last error raised by a function of `redis`, in the form that scripts may receive.
local function raised()
    local text, is_counted = raised_error()
    return { err = text, ignore_error_stats_update = is_counted or nil }
end
-- Returns a caught error in the form that scripts may receive.
local function fixed(e)
    -- Remove the position in these libraries, which is meaningless to a script.
    if type(e) == "string" and find(e, "^%(redis%):%d+: ") then return (gsub(e, "^.-: ", "")) end
    if type(e) == "userdata" and e ~= null then return raised() end
    if e == OUT_OF_MEMORY then error(e, 0) end
    return e
end
local function caught(ok, e, ...)
    if ok then return ok, e, ... end
    e = fixed(e)
    if type(e) == "table" then
        local err = rawget(behind[e] or e, "err")
        if type(err) == "string" or type(err) == "number" then e = err end
    end
    return ok, e
end
local function safe_pcall(...)
    if select("#", ...) == 0 then return false, "attempt to call a boolean value" end
    return caught(pcall(...))
end
local function resumed(ok, e, ...)
    if ok then return ok, e, ... end
    return ok, fixed(e)
end
local function handled(handler, ok, e, ...)
    if ok then return ok, e, ... end
    e = fixed(e)
    -- The handler also receives its own errors, up to Lua's limit of nested C calls (200).
    for _ = 1, 200 do
        ok, e = pcall(handler, e)
        if ok then return false, e end
        e = fixed(e)
    end
    return false, "error in error handling"
end
-- Calls the handler only after pcall has returned, because Lua runs no hooks during an error of the hook.
local function safe_xpcall(...)
    if select("#", ...) < 2 then bad_argument(2, "xpcall", "value expected") end
    local f, handler = ...
    return handled(handler, pcall(f))
end

-- -- the hook --------------------------------------------------------------------------------------------------------

local KILLED = "ERR Script killed by user with SCRIPT KILL..."
local killed, every = false, FIRST
local watch
local function hook(event)
    -- Once the script is killed, each of its lines raises an error, but lines of these libraries still run.
    if event == "line" and getinfo(2, "S").source == "=(redis)" then return end
    local verdict, next_every = tick()
    if verdict == 0 then
        if event == "line" then
            watch()
        elseif next_every ~= every then
            every = next_every
            sethook(hook, "", every)
        end
    else
        killed = verdict == 2 and OUT_OF_MEMORY or { err = verdict == 1 and KILLED or "ERR FUNCTION LOAD timeout" }
        sethook(hook, "l", every)
        error(killed, 0)
    end
end
-- Sets the hook of the current coroutine. The main coroutine keeps its hook between scripts, because setting it takes
-- time.
function watch()
    killed, every = false, FIRST
    sethook(hook, "", every)
end
local function watched(co)
    if killed then sethook(co, hook, "l", every) else sethook(co, hook, "", every) end
    return co
end
-- Counts the bytes of long strings that C functions process, and calls the hook after each megabyte.
local LONG, LOOK_UP_FROM = 4096, 1048576
local worked = 0
local function work(size)
    if size < LONG then return end
    worked = worked + size
    if worked >= LOOK_UP_FROM then
        worked = 0
        hook("count")
    end
end
local function is_lua(f) return type(f) == "function" and getinfo(f, "S").what ~= "C" end
-- Each coroutine counts its own instructions, so a script with many short coroutines might never call the hook.
-- Therefore resumes are counted too.
local resumes = 0
local function count_resume()
    resumes = resumes + 1
    if resumes % EVERY_RESUME == 0 then hook("count") end
end
local function safe_resume(co, ...)
    if type(co) ~= "thread" then bad_argument(1, "resume", "coroutine expected") end
    count_resume()
    return resumed(resume(co, ...))
end
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
    return function(...)
        count_resume()
        return passed(resume(co, ...))
    end
end

-- -- the libraries ---------------------------------------------------------------------------------------------------

local G
-- The functions and values of this chunk that the other chunks use.
local kit = { where = where, fail = fail, bad_argument = bad_argument, expected = expected, unfit = unfit,
    null = null, behind = behind, READONLY = READONLY, fixed = fixed, readonly = readonly, shown_double = shown_double,
    work = work, sandboxed = function(chunk) return setfenv(chunk, G) end }
local function part(name) return loadstring(sources[name], "=(redis)")(kit) end
kit.numbers = part("numbers")

local shown = setmetatable({}, { __mode = "k" })
local base = part("base")
base.pcall, base.xpcall = safe_pcall, safe_xpcall
base.getmetatable = function(...)
    if select("#", ...) == 0 then bad_argument(1, "getmetatable", "value expected") end
    local t = ...
    if behind[t] then return shown[t] end
    if t == null then return nil end
    return getmetatable(t)
end
base.coroutine = readonly({ create = safe_create, wrap = safe_wrap, resume = safe_resume, running = running,
    status = coroutine.status, yield = coroutine.yield })

-- -- redis -----------------------------------------------------------------------------------------------------------

local replies = part("replies")
local encoder, line, until_zero, error_text = replies.encoder, replies.line, replies.until_zero, replies.error_text

local function error_reply(text, ...)
    if type(text) ~= "string" or select("#", ...) > 0 then return { err = "ERR wrong number or type of arguments" } end
    text = error_text(text)
    if byte(text) == 45 then text = sub(text, 2) end
    if not find(text, " ", 1, true) then text = "ERR " .. gsub(text, "^[\r\n]+", "") end
    return { err = text }
end
local function status_reply(text, ...)
    if type(text) ~= "string" or select("#", ...) > 0 then return { err = "ERR wrong number or type of arguments" } end
    return { ok = text }
end
local function nothing() end
-- Returns its arguments with the first as a number if it is the text of one.
local function with_number(...)
    if select("#", ...) == 0 then return end
    return tonumber((...)) or (...), select(2, ...)
end
-- Python functions always return a value, which is dropped here.
local function without_result(f) return function(...) f(with_number(...)) end end
-- Lua converts numbers to text here, because -0 would lose its sign on the way to Python.
local function sha1hex_of(...)
    if select("#", ...) == 1 and type((...)) == "number" then return offered.sha1hex(tostring((...))) end
    return offered.sha1hex(...)
end

local redis = {
    error_reply = error_reply, status_reply = status_reply, sha1hex = sha1hex_of,
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = version, REDIS_VERSION_NUM = version_number,
}
for name, f in pairs(offered) do redis[name] = redis[name] or f end
for name, f in pairs(silent) do redis[name] = without_result(f) end
if is_eval then
    redis.replicate_commands, redis.breakpoint = function() return true end, function() return false end
    redis.debug = nothing
end
base.redis = readonly(redis)

for _, name in pairs({ "cjson", "cmsgpack", "struct", "bit" }) do base[name] = readonly(part(name)) end

-- Reading an undefined global raises an error instead of returning nil.
local function missing(_, name)
    name = until_zero(tostring(name))
    error(where(1) .. "Script attempted to access nonexistent global variable '" .. name .. "'", 0)
end
G = readonly(base, missing)
base._G = G
shown[G] = readonly({ __index = missing })

-- -- running ---------------------------------------------------------------------------------------------------------

local scripts = {}

-- Returns the text `err` of a raised table, or of a table that its `__index` leads to, without running script code.
local function text_of(e)
    for _ = 1, 10 do
        local err, mt = rawget(e, "err"), getmt(e)
        if type(err) == "string" or type(err) == "number" then return tostring(err) end
        e = err == nil and mt and rawget(mt, "__index")
        if type(e) ~= "table" then return nil end
        e = behind[e] or e
    end
end
-- Returns an error as a table with its text and position. This is xpcall's handler: the position is still on the stack.
local function on_error(e)
    if e == OUT_OF_MEMORY then return { err = "ERR " .. e, source = chunk_name, line = 1 } end
    local info = position(2)
    if type(e) == "userdata" and e ~= null then e = raised() end
    if type(e) == "string" and find(e, "^%(redis%):%d+: ") then e = where(1) .. gsub(e, "^.-: ", "") end
    if type(e) ~= "table" then e = { err = "ERR " .. tostring(e) } end
    e = behind[e] or e
    return { err = text_of(e) or "ERR unknown error", source = info.source, line = info.currentline,
        is_counted = rawget(e, "ignore_error_stats_update") == true and 1 or 0 }
end

-- Codes of results with several values, as in scripts.py.
local BYTES, FAILED, RETURNED_ERROR, NO_MEMORY = 0, 1, 2, 3
-- Returns the bytes of a reply. If it contains errors, also returns the number of those that are in the statistics, and
-- the texts of the others as lines.
local function encoded(proto, value)
    local out = {}
    encoder(out, proto, resp_now())(value, 1)
    local errors = out.errors
    if errors then return concat(out), errors.counted, concat(errors) end
    return concat(out)
end
-- Returns the result of a run: a string, a number or nil, or a code and its values.
local function outcome(proto, ok, value)
    if ok and not killed then
        local kind = type(value)
        if kind == "string" or kind == "number" or kind == "nil" then return value end
        if kind == "table" then
            local err = rawget(behind[value] or value, "err")
            if type(err) == "string" then
                local is_counted = rawget(value, "ignore_error_stats_update") == true
                return RETURNED_ERROR, line(error_text(err)), is_counted and 1 or 0
            end
        end
        -- The hook also runs during encoding, because a table can contain itself.
        local counted, texts
        ok, value, counted, texts = pcall(encoded, proto, value)
        if ok and not killed then
            if texts then return BYTES, value, counted, texts end
            return BYTES, value
        end
    end
    -- A killed script fails even if its last call, such as pcall, has caught the error.
    if ok then value = killed end
    -- Lua calls no handler for an out-of-memory error, and there is no memory for a table.
    if type(value) ~= "table" then return NO_MEMORY, nil end
    return FAILED, value.err, value.source, value.line, value.is_counted
end
-- Prepares for a run of `f`. The previous script may have changed the hook.
local function begin(f)
    current = f
    if killed or every ~= FIRST then watch() end
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

local api = { chance = kit.chance, draw_from = kit.draw_from }
-- Returns its arguments as a table. lupa's table_from is slower.
function api.pack(...) return { ... } end
function api.status(text) return { ok = text } end
function api.compile(name, text)
    local chunk, e = loadstring(text, "@user_script")
    if not chunk then return e end
    scripts[name] = setfenv(chunk, G)
end
function api.forget(name) scripts[name] = nil end
function api.run(name, proto, count, ...)
    local f = scripts[name]
    base.KEYS, base.ARGV = arguments(count, ...)
    begin(f)
    return outcome(proto, xpcall(f, on_error))
end
function api.run_function(name, proto, count, ...)
    local f, keys, args = scripts[name], arguments(count, ...)
    begin(f)
    return outcome(proto, xpcall(function() return (f(keys, args)) end, on_error))
end

-- -- libraries of functions -------------------------------------------------------------------------------------------

local registering = part("registering")
local is_loading = false

-- While a library is loaded, its only global is a reduced `redis`, which registers functions but calls no commands.
local library_redis = { register_function = registering.register_function, log = redis.log }
for name, value in pairs(redis) do
    if type(value) ~= "function" then library_redis[name] = value end
end
local load_redis = readonly(library_redis, missing)
local library_G = setmetatable({}, { __newindex = refuse, __index = function(_, name)
    if is_loading then return name == "redis" and load_redis or missing(nil, name) end
    local value = base[name]
    return value
end })
behind[library_G] = base
shown[library_G] = shown[G]

-- Compiles a library's code; returns the error if it does not compile.
local library, loaded
function api.compile_library(text)
    local e
    library, e = loadstring(text, "@user_function")
    if not library then return e end
    setfenv(library, library_G)
end
-- Runs the compiled library. Returns 0 with name, description and flags of each function, or 2 with the error.
function api.load()
    is_loading = true
    registering.begin()
    begin(library)
    local ok, failure = xpcall(library, on_error)
    library = nil
    loaded, is_loading = registering.finish(), false
    if not ok then return 2, type(failure) == "table" and failure.err or OUT_OF_MEMORY end
    local out = {}
    for i = 1, #loaded, 4 do
        out[#out + 1], out[#out + 2], out[#out + 3] = loaded[i], loaded[i + 2], loaded[i + 3]
    end
    return 0, unpack(out)
end
-- Makes the functions registered by the last library callable.
function api.adopt()
    for i = 1, #loaded, 4 do scripts[loaded[i]] = loaded[i + 1] end
    loaded = nil
end

watch()

local name = next(_G)
while name do
    _G[name] = nil
    name = next(_G)
end
return api
