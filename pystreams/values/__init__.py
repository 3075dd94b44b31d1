"""Parsing and formatting of values: names of any bytes, times and durations, positions in a stream, conditions.

This package converts text to values and values to text. It imports only errors, stream IDs and the formats of values.
"""
