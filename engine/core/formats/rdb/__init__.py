"""Redis's RDB format: values as DUMP and RESTORE exchange them, and whole files, written and read piece by piece.

It imports the keyspace's values and the streams. It never knows where bytes come from or go to: a file, or a socket.
"""
