"""Formats of releases: what each release has stored must be readable, with the same meaning, by today's code.

A directory per release, written by ``scripts/golden.py`` when the release was made, and never changed afterwards:

reads    checkpoints of streaming queries, one for each way of reading: options, offset log, the keys of the server
writes   records of exactly-once writes at each stage, as plain contents of keys
engine   data directories: RDB, the engine's snapshot, the log, segments on disk; `contents.txt` lists their contents

``scenarios`` writes these files, and ``test_golden`` reads them.
"""
