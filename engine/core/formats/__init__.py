"""Values in forms that leave the process: Redis's RDB format, Redis commands, and the inner fields of streams.

It imports the keyspace's values and the streams. It never knows files, the log, or the commands DUMP and RESTORE.
"""
