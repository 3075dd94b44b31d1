"""Requests to a server about its streams: names, group lags, pending entries; and changes to them.

Owns the commands of these requests. Replies are requested in pages, so that only what is shown is loaded. May import
the client. Does not depend on tables, options or confirmation.
"""
