"""Formats of values (Avro, Protobuf, JSON and MessagePack), their schemas, and schema registries.

Owns schemas as values, the client of a Confluent-compatible registry, the header that names a schema, and the decoder
of values to JSON. May import the client's errors and TLS settings. Does not depend on columns or Spark. The packages of
a format (`fastavro`, `protobuf`, `msgpack`) are imported on first use.
"""
