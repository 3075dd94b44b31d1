"""Lua scripts and libraries of functions: their caches, the interpreter, its sandbox, and `redis.call`.

Only this package uses lupa, which is imported when the first script runs. The package may import admission and lower
layers. It does not depend on sockets, threads or clocks, because the host suspends long scripts
(`engine.core.environment.host.Host.stack`).
"""
