"""The API of the pages: JSON about streams and groups, changes in two steps, exports.

Each endpoint has a function, which runs in a thread with a connection of the session's own user. The API keeps no state
except bounded caches, and does not depend on the pages.
"""
