"""Redis's RDB format: values for DUMP and RESTORE, and whole files, written and read incrementally.

This package imports the keyspace's values and the streams. It does not depend on the source or the destination of the
bytes.
"""
