"""Lua scripts and libraries of functions: the interpreter and its sandbox, `redis.call`, and the two caches.

It owns all code that uses lupa, which is imported when the first script runs. It may import admission and lower layers;
the commands EVAL, FCALL, SCRIPT and FUNCTION are above it. It does not depend on sockets, threads or clocks: the host
suspends long scripts (`engine.core.environment.host.Host.apart`).
"""
