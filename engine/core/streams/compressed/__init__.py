"""Cold segments: entries compressed in chunks; a read decompresses only the chunks that it touches.

This package owns the layout of compressed entries, their codec, and the cache of decompressed spans. It does not depend
on segments, on the rule that makes a segment cold, or on the thread that compresses.
"""
