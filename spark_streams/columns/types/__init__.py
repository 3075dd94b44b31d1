"""Column types: all facts about each scalar type, in one table (`table.SCALARS`).

A type is one record (`scalar.ScalarType`): its types in Spark and Arrow, and its conversions from and to text and JSON.
Each conversion has a definition for one value at a time and may have a fast form for whole arrays. The modules
`strings`, `numbers`, `moments` and `durations` each contain one family of types. Nested types are not in the table.
"""
