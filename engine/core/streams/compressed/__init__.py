"""Cold segments: their entries compressed in chunks, and read without decompressing more than a read touches.

It owns the layout of compressed entries, the codecs, and the cache of decompressed spans. It imports plain entries and
IDs. It never knows when a segment is cold, which thread compresses, or that segments belong to streams.
"""
