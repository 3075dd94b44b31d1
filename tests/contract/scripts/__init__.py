"""Lua scripts and functions. ``script_replies*.json`` hold replies that a real server gave."""
