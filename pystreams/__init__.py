"""What a person sees and steers: the command line `pystreams`, for any server that speaks Redis's protocol.

Owns questions to servers that people ask (which streams, how far behind, what is stuck), and how answers are shown. May
import the connector's client, server, configuration, embedded launcher and errors, and starts the engine as a process.
Never imports the engine, Spark, or the connector's reading and writing; only `jobs`, what its scripts for spark-submit
share, knows Spark. Nobody imports it but those scripts.
"""
