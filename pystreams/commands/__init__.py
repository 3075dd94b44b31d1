"""The verbs of the command line: one module for each group of verbs, and `root` for the command itself.

`verbs` has the common parts of all verbs. The rooms `entries` and `groups` contain the verbs about entries and groups.
This room also contains options, help, confirmation, and the presentation of results. May import everything else of
`pystreams`. `pystreams.streams` sends the requests of verbs to servers.
"""
