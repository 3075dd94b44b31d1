"""Files with entries: JSON lines, CSV, Parquet and plain lines, read and written row by row.

Owns what a row of each form means. Knows no server and no command.
"""
