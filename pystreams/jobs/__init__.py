"""Shared code of the scripts in `jobs/`: flags and errors, the run with its session and query, targets.

This code is part of the wheel, so spark-submit does not have to ship other files with a script. It may import Spark,
the connector's source and monitor, and the lower packages of the command line. It never imports `pystreams.commands`.
"""
