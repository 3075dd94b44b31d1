"""`pystreams top`: streams and groups as a live table in the terminal.

Owns the screen, its keys, and how rows become cells. What it shows is a snapshot of the dashboard's sampler. Asks no
server itself, and changes nothing there.
"""
