"""Formats that need a schema: whole rows as one value in Avro, Protobuf, or JSON with a registry's header.

Owns the way from a schema to columns and back, and which schema a query has: of an option, a file or a registry. May
import the columns' types and the client's formats. Never knows entries, streams or offsets.
"""
