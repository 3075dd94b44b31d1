"""The dashboard: streams, groups, pending entries and dead letters of a server, inspected and managed in a browser.

A sampler requests the data that all browsers share. Each function of the API (`QUESTIONS` of `run`, and
`changes`) runs in a thread with a connection of the session's own user; `pystreams.streams` sends its requests. The API
does not depend on the pages. The dashboard never imports the command line's verbs, its output, or the engine.
"""
