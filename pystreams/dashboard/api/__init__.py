"""The API of the pages: JSON about streams and groups, changes in two steps, server-sent events.

A function for each question, which runs in a thread with a connection of the session's own user. Owns no state but
caches with limits. Knows no page.
"""
