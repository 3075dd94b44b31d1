"""The verbs of the command line: one module for each group of them, `root` for the whole.

`verbs` is what every verb has; the rooms `entries` and `groups` have the verbs about these.
Owns options, help and confirmation, and the form in which an answer is shown. May import everything else of
`pystreams`. What a verb asks of a server stands in `pystreams.streams`.
"""
