"""The command line `pystreams` and the dashboard, for any server with Redis's protocol.

This package contains the requests of operators to servers (streams, lags, stuck entries), and the display of results.
It may import the client, and the connector's configuration, embedded launcher, reports and errors. It starts the engine
as a process, but never imports the engine, or the connector's reading and writing. Only `jobs` (code shared by the
scripts for spark-submit) and `testing` depend on Spark. No other package imports this one.
"""
