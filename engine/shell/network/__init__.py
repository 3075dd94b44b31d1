"""Sockets, and the order of things on the event loop: accepting clients, running commands, sending replies, timers.

It may import every other room of the shell, and the core. It never knows what a command does, nor how the log or a
snapshot is written.
"""
