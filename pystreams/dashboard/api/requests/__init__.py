"""Common parts of requests: parameters, connections to the server, and streamed responses.

Owns the limit on connections per session. Does not depend on the endpoints' functions, which are in the modules of
`api`.
"""
