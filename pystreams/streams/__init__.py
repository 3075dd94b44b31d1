"""Questions to a server about its streams: which there are, how far groups are behind, what is pending, and changes.

Owns the commands that are sent for them, in pages: nothing here asks for more than it shows, or for everything at once.
May import the connector's client. Knows nothing of tables, options or confirmation.
"""
