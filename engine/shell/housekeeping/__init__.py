"""Housekeeping keeps the process small: it packs cold segments beside the event loop, and watches ``maxmemory``.

It imports the core's streams and admission, the settings and the clock. It never knows clients, commands or files.
"""
