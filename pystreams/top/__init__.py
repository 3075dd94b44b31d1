"""`pystreams top`: streams and groups as a live table in the terminal.

This package contains the screen, its keys, and the conversion of rows to cells. It shows a snapshot of the dashboard's
sampler. It sends no commands itself and changes nothing.
"""
