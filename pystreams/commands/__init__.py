"""The verbs of the command line: one module for each group of them, `root` for the whole.

Owns options, help and confirmation, and the form in which an answer is shown. May import everything else of
`pystreams`. What a verb asks of a server stands in `pystreams.streams`.
"""
