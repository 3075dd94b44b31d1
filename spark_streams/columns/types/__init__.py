"""Column types: of each scalar type all that the connector knows, and the table of them (`table.SCALARS`).

A type is one record (`scalar.ScalarType`): the types of Spark and Arrow that it stands for, its text and its JSON in
both directions, by Arrow and, as the definition, one value at a time. The modules `strings`, `numbers`, `moments` and
`durations` each hold a family. Knows nothing of streams, schemas or nested values.
"""
