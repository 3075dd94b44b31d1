"""Housekeeping: keeps the process small by packing cold segments in a thread, and by enforcing ``maxmemory``.

It imports the core's streams and admission, the settings and the clock. It does not depend on clients, commands or
files.
"""
