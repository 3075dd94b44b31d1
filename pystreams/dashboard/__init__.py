"""The dashboard: streams, groups, pending entries and dead letters of a server, shown and steered in a browser.

Owns the HTTP application, its security and its pages. Questions to the server are those of `pystreams.streams`; what
all browsers see is asked for once, by one sampler. Never imports the command line's verbs, its output, or the engine.
"""
