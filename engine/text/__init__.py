"""Texts and operations on them: messages on the wire, splitting into words, globs, escaping, decimal numbers.

The lowest room of the engine: it imports nothing of the others, and does not depend on commands or settings.
"""
