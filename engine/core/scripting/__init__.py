"""Lua scripts and libraries of functions: the interpreter, its sandbox, `redis.call`, and the caches of both.

Only this package uses lupa, which is imported when the first script runs. It may import admission and lower layers. The
commands EVAL, FCALL, SCRIPT and FUNCTION import it. It does not depend on sockets, threads or clocks, because the host
suspends long scripts (`engine.core.environment.host.Host.stack`).
"""
