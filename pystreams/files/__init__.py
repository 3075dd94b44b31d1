"""Files with entries: JSON lines, CSV, Parquet and plain lines, read and written row by row.

This package defines what a row is in each format. It does not depend on servers or commands.
"""
