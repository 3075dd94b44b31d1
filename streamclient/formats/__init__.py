"""Formats of values: Avro, Protobuf, JSON and MessagePack, the schemas that they need, and registries that have them.

Owns schemas as values, the client of a Confluent-compatible registry, the header that names a schema, and the decoder
that makes JSON of a value. May import the client's errors and its TLS settings. Never knows columns or Spark. The
packages of a format (`fastavro`, `protobuf`, `msgpack`) are imported when a value needs them.
"""
