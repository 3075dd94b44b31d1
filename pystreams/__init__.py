"""The command line `pystreams` and the dashboard, for any server with Redis's protocol.

Owns the requests of operators to servers (streams, lags, stuck entries), and how results are shown. May import
the client, and the connector's configuration, embedded launcher, reports and errors; starts the engine as a process.
Never imports the engine, or the connector's reading and writing. Only `jobs` (code shared by the scripts for
spark-submit) and `testing` depend on Spark. No other package imports this one.
"""
