"""Columns: what a field's bytes mean as a value of Spark, and a value as bytes.

Owns the schemas of reads and writes, text and JSON as columns in both directions, and inferred types. May import the
codec's pages and the configuration. Never knows a server, a connection or an offset.
"""
