"""The Spark data source `pystreams`: Redis streams in batches and micro-batches, read and written.

`spark_streams.source` is what Spark calls; `spark_streams.embedded.launcher` is the engine of a driver that names no
server.
"""
