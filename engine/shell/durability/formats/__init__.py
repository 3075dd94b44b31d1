"""File formats: snapshots and their records, blocks of the log, and the log's manifest.

It may import the core, the wire format, segment files, and the calls that touch the disk
(`engine.shell.durability.files`). It does not decide when a file is written, how it is named, or how an error is
handled.
"""
