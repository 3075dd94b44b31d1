"""`pystreams top`: streams and groups as a live table in the terminal.

Owns the screen, its keys, and how rows become cells. It shows a snapshot of the dashboard's sampler. It sends no
commands itself and changes nothing.
"""
