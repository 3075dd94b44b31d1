"""Files with entries: JSON lines, CSV, Parquet and plain lines, read and written row by row.

Owns the meaning of a row in each format. Does not depend on servers or commands.
"""
