"""The configuration: redis.conf's directives with their kinds and defaults, and the values in force.

It imports texts and words (``engine.text``). It never knows who acts on a value: those who do register a listener.
"""
