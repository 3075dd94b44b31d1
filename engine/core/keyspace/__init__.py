"""Databases: keys with their values and expiry, what has changed, who waits for a key, an image of it all.

It may import the streams and what is below them. It never knows a command, a session, or where changes are written.
"""
