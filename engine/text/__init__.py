"""Texts, and what is done with them: messages on the wire, splitting into words, globs, escaping, decimal numbers.

The lowest room of the engine: it imports nothing of the others, and knows neither commands nor settings.
"""
