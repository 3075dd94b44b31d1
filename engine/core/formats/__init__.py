"""Values in external formats: Redis's RDB format, Redis commands, and plain data for snapshots.

This package imports the keyspace's values and the streams. It does not depend on files, the log, or the commands DUMP
and RESTORE.
"""
