"""Security: sessions, checks of every request, and restrictions for browsers.

This package contains sessions, tokens, confirmation of changes, masking, and the checks of Host, Origin, size and
content type. It does not depend on streams.
"""
