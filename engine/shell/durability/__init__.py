"""Durability: loads the data at startup, and keeps changes on disk in a log and in snapshots.

It may import the core, the wire format, the settings, `engine.shell.observation` and `engine.shell.housekeeping`. It
does not depend on sockets or connections. From top to bottom: `check` and `disk`, which decides when a file is written;
`snapshots`, `log_files`, `stream_storage`; `recovery`, `log`; the formats `psb`, `rdb_file`, `position`; `segments`;
`background`; `files`, which has the calls to the disk.
"""
