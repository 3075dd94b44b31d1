"""Questions to a server about its streams: names, group lags, pending entries; and changes to them.

Owns the commands that answer these questions, in pages, so that no question loads more than is shown. May import the
client. Does not depend on tables, options or confirmation.
"""
