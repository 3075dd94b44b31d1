"""Common parts of requests: parameters, connections to the server, and streamed responses.

This package limits the connections per session. It does not depend on the endpoints' functions, which are in the
modules of `api`.
"""
