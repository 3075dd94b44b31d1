"""Requests to a server about its streams: names, group lags, pending entries; and changes to them.

Owns the commands of these requests, in pages, so that no request loads more than is shown. May import the
client. Does not depend on tables, options or confirmation.
"""
