"""Requests to a server about its streams: names, group lags, pending entries; and changes to them.

Contains the commands of these requests. Replies are requested in pages of a bounded size. May import the client.
Does not depend on tables, options or confirmation.
"""
