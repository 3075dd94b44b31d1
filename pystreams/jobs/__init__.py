"""What the scripts in `jobs/` share: flags, the session, triggers, progress, the graceful stop, files, targets.

It comes with the wheel, so a script needs nothing beside it that spark-submit would have to ship. May import Spark, the
connector's source and monitor, and the lower rooms of the command line. Never imports `pystreams.commands`.
"""
