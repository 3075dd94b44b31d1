"""Cold segments: entries compressed in chunks; a read decompresses only the chunks that it touches.

This package owns the layout of compressed entries, the codecs, and the cache of decompressed spans. It imports plain
entries and IDs. It does not depend on streams, on the rule that makes a segment cold, or on the thread that compresses.
"""
