"""The verbs of the command line: one module for each group of them, `root` for the whole.

`verbs` is what every verb has; the rooms `entries` and `groups` have the verbs about these.
Owns options, help, confirmation, and the presentation of answers. May import everything else of
`pystreams`. The questions of verbs to servers are in `pystreams.streams`.
"""
