"""Parsing and formatting of values: names of any bytes, times and durations, positions in a stream, conditions.

Contains the conversion of text to values and of values to text. Imports only errors, stream IDs and the formats of
values.
"""
