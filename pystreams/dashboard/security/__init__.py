"""Security: who is logged in, which requests are answered at all, what a browser may do with the pages.

Owns sessions, tokens, confirmation of changes, and the checks of Host, Origin, size and content type. Knows no stream.
"""
