"""Formats that need a schema: a whole row as one value in Avro, Protobuf, or JSON with a registry's header.

Owns the conversion between schemas and columns, and the choice of a query's schema: from an option, a file or a
registry. May import the columns' types and the client's formats. Does not depend on entries, streams or offsets.
"""
