"""Parsing and formatting of values: names of any bytes, times and durations, positions in a stream, conditions.

Owns both directions, text to value and value to text. Pure: imports only errors, stream IDs and the formats of values.
"""
