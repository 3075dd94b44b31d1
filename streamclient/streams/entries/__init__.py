"""Entries of a stream, read by tasks a page at a time: by XRANGE, as columns, or as a consumer of a group.

Owns the size of pages, and what happens to entries while they are read. May import the model, the client and
the codec. Never knows which ranges there are, nor who planned them.
"""
