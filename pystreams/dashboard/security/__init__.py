"""Security: sessions, checks of every request, and restrictions for browsers.

Owns sessions, tokens, confirmation of changes, masking, and the checks of Host, Origin, size and content type.
Nothing here depends on streams.
"""
