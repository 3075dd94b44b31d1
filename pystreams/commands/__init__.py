"""The verbs of the command line: one module for each subject, and `root` for the command itself.

`verbs` has the common parts of all verbs, and `arguments` their arguments. This package also contains options, help,
confirmation, and the presentation of results. It may import everything else of `pystreams`. `pystreams.streams` sends
the requests of verbs to servers.
"""
