"""Messages and text functions: messages for clients, splitting into words, globs, escaping, decimal numbers.

The lowest package of the engine: it imports no other package, and does not depend on commands or settings.
"""
