"""Shared code of the scripts in `jobs/`: flags, session, triggers, progress, graceful stop, files, targets.

It is part of the wheel, so that spark-submit does not have to ship further files with a script. May import Spark, the
connector's source and monitor, and the lower rooms of the command line. Never imports `pystreams.commands`.
"""
