"""The command line `pystreams` and the dashboard, for any server with Redis's protocol.

Owns the questions that operators ask of servers (streams, lags, stuck entries), and how answers are shown. May import
the client, and the connector's configuration, embedded launcher and errors; starts the engine as a process. Never
imports the engine, Spark, or the connector's reading and writing; only `jobs`, the code shared by the scripts for
spark-submit, depends on Spark. Only those scripts import this package.
"""
