-- `redis.register_function`, with which a library's code registers its functions while it is loaded.
--
-- The chunk receives `kit` (functions of the sandbox). It returns `register_function`; `begin`, which starts a list of
-- registered functions; and `finish`, which ends and returns the list: name, callback, description and flags of each
-- function.

local kit = ...
local behind = kit.behind
local type, next, select, tostring, error = type, next, select, tostring, error
local find, concat = string.find, table.concat

local NAMES = "Library names can only contain letters, numbers, or underscores(_) and must be at least "
    .. "one character long"
local FLAGS = { ["no-writes"] = true, ["allow-oom"] = true, ["allow-stale"] = true, ["no-cluster"] = true,
    ["allow-cross-slot-keys"] = true }
-- The functions registered so far by the library being loaded: name, callback, description and flags of each.
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
    if not loading then refused("redis.register_function can only be called on FUNCTION LOAD command") end
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

return { register_function = register_function,
    begin = function() loading = {} end,
    finish = function()
        local found = loading
        loading = nil
        return found
    end }
