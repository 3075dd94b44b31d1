"""The verbs of the command line: one module for each group of verbs, and `root` for the command itself.

`verbs` has the common parts of all verbs. The packages `entries` and `groups` contain the verbs about entries and
groups. This package also contains options, help, confirmation, and the presentation of results. It may import
everything else of `pystreams`. `pystreams.streams` sends the requests of verbs to servers.
"""
