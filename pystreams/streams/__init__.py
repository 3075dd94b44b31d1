"""Requests to a server about its streams and groups: names, lags, pending entries; and changes to them.

This package contains the commands of these requests. Replies are requested in pages of a bounded size. The package may
import the client, but not tables, options or confirmation.
"""
