"""Network: sockets and the order of work on the event loop: accepting clients, running commands, sending replies,
timers.

It may import every other package of the shell, and the core. It does not depend on what a command does, or how the log
or a snapshot is written.
"""
