"""Segment files: the cold entries of streams if ``stream-storage`` is ``disk``.

It may import the core's streams, the background work, the calls that touch the disk and the log lines. Its module
`verification` also reads keys. It does not depend on commands, and does not decide when a snapshot is written. Its
callers tell it which segment files a document refers to.
"""
