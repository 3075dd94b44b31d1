"""Configuration: redis.conf's directives with their kinds and defaults, and the values in force.

This package imports only ``engine.text``. It does not depend on the code that acts on a value: that code registers a
listener.
"""
