"""The dashboard: streams, groups, pending entries and dead letters of servers, inspected and managed in a browser.

This package contains the HTTP application, its security and its pages. `pystreams.streams` sends the requests to the
server. One sampler per server requests the data that all browsers share. The dashboard never imports the command line's
verbs, its output, or the engine.
"""
