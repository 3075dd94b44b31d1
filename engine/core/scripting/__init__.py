"""Lua scripts and libraries of functions: the interpreter and its sandbox, what `redis.call` does, the two caches.

It owns everything that knows lupa, which it imports when the first script runs. It may import admission and what is
below it; the commands EVAL, FCALL, SCRIPT and FUNCTION are above it. It never knows a socket, a thread or a clock: how
a script that takes long is put aside is the host's (:meth:`engine.core.environment.host.Host.apart`).
"""
