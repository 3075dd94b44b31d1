"""The API of the pages: JSON about streams and groups, changes in two steps, server-sent events.

Each endpoint has a function, which runs in a thread with a connection of the session's own user. Owns no state except
bounded caches. Does not depend on the pages.
"""
