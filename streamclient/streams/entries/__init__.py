"""Entries of a stream, read by tasks a page at a time: by XRANGE, as columns, or as a consumer of a group.

Owns the size of pages, and the delivery of entries while they are read. May import the model, the client and the codec.
Does not depend on the planning of ranges.
"""
